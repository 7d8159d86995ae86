//! The gradient of one key/value head and of the query heads that share it.
//!
//! In: a [`Task`]. Out: its rows of dq, dk and dv. For each block of keys and each block of queries, with s =
//! q kᵀ and the output's cotangent g: p = exp(scale·s - log_sum), dp = g vᵀ, ds = scale·p·(dp - g·output);
//! then dq += ds k, dv += pᵀ g, dk += dsᵀ q. Dao, FlashAttention-2 (2023), algorithm 2.

use super::operands::{Gradient, Mask, Operands, View};
use super::products::{Products, Source};
use super::single::dot;
use super::softmax::{RowConstants, softmax_gradient};
use super::{Call, InstructionSet};
use crate::matrix::pack::{pack_rows, pack_transposed};
use crate::matrix::tile::{Panels, Rows, TileTarget};
use crate::simd::{Simd, Vectorized};
use std::ops::Range;

/// The backward pass of one key/value head.
pub(super) struct Task<'a> {
    pub(super) operands: &'a Operands,
    pub(super) gradient: &'a Gradient,
    pub(super) call: &'a Call<'a>,
    pub(super) mask: Mask,
    pub(super) batch: usize,
    pub(super) kv_head: usize,
    pub(super) worker: usize,
    pub(super) level: InstructionSet,
}

/// Sections of the thread's scratch.
struct Scratch {
    keys_transposed: *mut f32,
    values_transposed: *mut f32,
    keys: *mut f32,
    queries: *mut f32,
    cotangents: *mut f32,
    /// Scores, then probabilities; one row per query.
    p: *mut f32,
    /// Cotangents of the probabilities, then of the scores.
    ds: *mut f32,
    means: *mut f32,
    products: Products,
}

/// A packed block of keys and values.
struct Keys {
    range: Range<usize>,
    keys_transposed: Panels,
    values_transposed: Panels,
    keys: Panels,
}

impl Vectorized for Task<'_> {
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: the task lies within the shape from which the layouts and the workspace were computed; no
        // two tasks share a head, and no two threads share scratch.
        unsafe { self.run(simd) }
    }
}

impl Task<'_> {
    /// # Safety
    /// `self.call` must meet the requirements documented on [`Call`] for the launch that the operands were
    /// created from.
    #[inline(always)]
    unsafe fn run<S: Simd>(&self, simd: S) {
        let shape = self.operands.shape;
        let sections = shape.backward_sections();
        let mut address = self.call.scratch(0).cast::<f32>();
        address = address.wrapping_add(self.worker * sections.iter().sum::<usize>());
        let [keys_transposed, values_transposed, keys, queries, cotangents, p, ds, means, left, wide] =
            sections.map(|length| {
                let start = address;
                address = address.wrapping_add(length);
                start
            });
        let products = Products::new(shape.rounds, self.level, [left, wide]);
        let scratch =
            Scratch { keys_transposed, values_transposed, keys, queries, cotangents, p, ds, means, products };
        // SAFETY: guaranteed by the caller.
        unsafe {
            for head in 0..shape.group() {
                (0..shape.queries).for_each(|query| self.dq(head, query).write_bytes(0, shape.depth));
            }
            for key in 0..shape.keys {
                self.dk(key).write_bytes(0, shape.depth);
                self.dv(key).write_bytes(0, shape.value_depth);
            }
        }
        let seen = if shape.queries == 0 { 0 } else { self.mask.end(shape.queries - 1) };
        let (key_block, query_block) = (shape.backward_keys(), shape.backward_queries());
        // Queries that see no key do not enter any sum, whatever their rows are.
        let viewers = self.mask.viewers(shape.queries);
        for start in (self.mask.start(0)..seen).step_by(key_block) {
            // SAFETY: guaranteed by the caller; keys below `seen` are below the mask's length.
            unsafe {
                let keys = self.pack_keys(simd, &scratch, start..(start + key_block).min(seen));
                for head in 0..shape.group() {
                    for start in viewers.clone().step_by(query_block) {
                        let end = (start + query_block).min(viewers.end);
                        if !self.mask.within(start..=end - 1, &keys.range).is_empty() {
                            self.block(simd, &scratch, &keys, head, start..end);
                        }
                    }
                }
            }
        }
    }

    /// # Safety
    /// Same as [`Task::run`].
    #[inline(always)]
    unsafe fn pack_keys<S: Simd>(&self, simd: S, scratch: &Scratch, range: Range<usize>) -> Keys {
        let Task { operands, call, batch, kv_head, .. } = *self;
        let shape = operands.shape;
        let (key_step, value_step) = operands.steps();
        let key = |i| operands.key(call, batch, kv_head, range.start + i);
        let value = |i| operands.value(call, batch, kv_head, range.start + i);
        let count = range.len();
        let products = scratch.products;
        // SAFETY: guaranteed by the caller; the sections have room for a block.
        unsafe {
            let pack = |to| pack_transposed(simd, count, shape.depth, key, key_step, to);
            let source = (key_step == 1).then_some(Source::Columns(key));
            let keys_transposed =
                products.pack(simd, [count, shape.depth], source, pack, scratch.keys_transposed);
            let pack = |to| pack_transposed(simd, count, shape.value_depth, value, value_step, to);
            let source = (value_step == 1).then_some(Source::Columns(value));
            let values_transposed =
                products.pack(simd, [count, shape.value_depth], source, pack, scratch.values_transposed);
            let pack = |to| pack_rows(simd, count, shape.depth, key, key_step, to);
            let source = (key_step == 1).then_some(Source::Rows(key));
            let keys = products.pack(simd, [shape.depth, count], source, pack, scratch.keys);
            Keys { keys_transposed, values_transposed, keys, range: range.clone() }
        }
    }

    /// Accumulates the gradients of one block of queries and one block of keys.
    ///
    /// # Safety
    /// Same as [`Task::run`].
    #[inline(always)]
    unsafe fn block<S: Simd>(
        &self,
        simd: S,
        scratch: &Scratch,
        keys: &Keys,
        head: usize,
        queries: Range<usize>,
    ) {
        let Task { operands, gradient, call, batch, .. } = *self;
        let shape = operands.shape;
        let q_head = self.kv_head * shape.group() + head;
        let q_row = |i| operands.q.row(call, batch, q_head, queries.start + i);
        let g_row = |i| gradient.cotangent.row(call, batch, q_head, queries.start + i);
        let (count, products) = (queries.len(), scratch.products);
        // SAFETY: guaranteed by the caller.
        let (packed_q, packed_g) = unsafe {
            self.means(simd, scratch, q_head, queries.clone());
            let (step, columns) = (operands.q.step, shape.depth);
            let pack = |to| pack_rows(simd, count, columns, q_row, step, to);
            let source = (step == 1).then_some(Source::Rows(q_row));
            let packed_q = products.pack(simd, [columns, count], source, pack, scratch.queries);
            let (step, columns) = (gradient.cotangent.step, shape.value_depth);
            let pack = |to| pack_rows(simd, count, columns, g_row, step, to);
            let source = (step == 1).then_some(Source::Rows(g_row));
            (packed_q, products.pack(simd, [columns, count], source, pack, scratch.cotangents))
        };
        let mut strip = queries.start;
        while strip < queries.end {
            let end = (strip + shape.strip()).min(queries.end);
            // SAFETY: guaranteed by the caller.
            unsafe { self.strip(simd, scratch, keys, head, strip..end, queries.start) };
            strip = end;
        }
        let row_stride = shape.backward_keys();
        let Range { start: mut key, end: seen } =
            self.mask.within(queries.start..=queries.end - 1, &keys.range);
        while key < seen {
            let end = (key + shape.strip()).min(seen);
            // Skip the queries that see no key of this strip, because they do not contribute to its
            // gradients.
            let mut viewers = 0..count;
            while !viewers.is_empty()
                && self.mask.end(queries.start + viewers.start) <= keys.range.start + key
            {
                viewers.start += 1;
            }
            while !viewers.is_empty()
                && self.mask.start(queries.start + viewers.end - 1) >= keys.range.start + end
            {
                viewers.end -= 1;
            }
            let transposed =
                |matrix: *mut f32| Rows { start: matrix.wrapping_add(key), row_stride: 1, step: row_stride };
            let target = |start, result: usize, columns| TileTarget {
                start,
                row_stride: self.operands.results[result].row_stride(),
                columns,
                padded: false,
                accumulate: true,
            };
            let dv = target(self.dv(keys.range.start + key), 2, shape.value_depth);
            let dk = target(self.dk(keys.range.start + key), 1, shape.depth);
            // SAFETY: guaranteed by the caller; the rows of dk and dv belong to this task.
            unsafe {
                products.multiply(simd, end - key, viewers.clone(), transposed(scratch.p), packed_g, dv);
                products.multiply(simd, end - key, viewers, transposed(scratch.ds), packed_q, dk);
            }
            key = end;
        }
    }

    /// Computes the rows of `p` and `ds` of a strip of queries and adds to the strip's rows of dq.
    ///
    /// # Safety
    /// Same as [`Task::block`]; `first` is the first query of the block.
    #[inline(always)]
    unsafe fn strip<S: Simd>(
        &self,
        simd: S,
        scratch: &Scratch,
        keys: &Keys,
        head: usize,
        queries: Range<usize>,
        first: usize,
    ) {
        let Task { operands, gradient, call, batch, .. } = *self;
        let shape = operands.shape;
        let q_head = self.kv_head * shape.group() + head;
        let row_stride = shape.backward_keys();
        let seen = self.mask.within(queries.start..=queries.end - 1, &keys.range);
        let most = seen.end;
        let count = queries.len();
        let rows = |view: &View| Rows {
            start: view.row(call, batch, q_head, queries.start),
            row_stride: view.row_stride(),
            step: view.step,
        };
        let matrix = |start: *mut f32| TileTarget {
            start: start.wrapping_add((queries.start - first) * row_stride),
            row_stride,
            columns: most,
            padded: true,
            accumulate: false,
        };
        let (p, ds, products) = (matrix(scratch.p), matrix(scratch.ds), scratch.products);
        // SAFETY: guaranteed by the caller; the matrices have room for whole vectors.
        unsafe {
            let cotangents = rows(&gradient.cotangent);
            products.multiply(simd, count, 0..shape.depth, rows(&operands.q), keys.keys_transposed, p);
            products.multiply(simd, count, 0..shape.value_depth, cotangents, keys.values_transposed, ds);
        }
        // All keys of the block, so that `products` may extend any range of them.
        let width = keys.range.len().next_multiple_of(S::LANES);
        for (i, query) in queries.clone().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let constants = RowConstants {
                    scale: operands.scale,
                    log_sum: *gradient.log_sum.row(call, batch, q_head, query),
                    mean: *scratch.means.add(query - first),
                };
                let (p, ds) = (p.start.add(i * row_stride), ds.start.add(i * row_stride));
                let seen = self.mask.within(query..=query, &keys.range);
                let kept = operands.kept(call, batch, q_head, query);
                if let Some(kept) = kept {
                    kept.apply(ds, &keys.range, &seen);
                }
                softmax_gradient(simd, p, ds, seen.clone(), width, &constants);
                if let Some(kept) = kept {
                    kept.apply(p, &keys.range, &seen);
                }
            }
        }
        let left = Rows { start: ds.start, row_stride, step: 1 };
        let dq = TileTarget {
            start: self.dq(head, queries.start),
            row_stride: operands.results[0].row_stride(),
            columns: shape.depth,
            padded: false,
            accumulate: true,
        };
        // SAFETY: guaranteed by the caller; the rows of dq belong to this task.
        unsafe { products.multiply(simd, count, seen, left, keys.keys, dq) };
    }

    /// Computes the dot product of output and cotangent for each query of a block. The cotangent is rounded
    /// as in its product with the values, from which these are subtracted, so that their errors cancel.
    ///
    /// # Safety
    /// Same as [`Task::run`].
    #[inline(always)]
    unsafe fn means<S: Simd>(&self, simd: S, scratch: &Scratch, q_head: usize, queries: Range<usize>) {
        let Task { gradient, call, batch, .. } = *self;
        for (i, query) in queries.enumerate() {
            let output = gradient.output.row(call, batch, q_head, query);
            let cotangent: *const f32 = gradient.cotangent.row(call, batch, q_head, query);
            let depth = self.operands.shape.value_depth;
            // SAFETY: guaranteed by the caller.
            unsafe {
                let (cotangent, step) = scratch.products.row(cotangent, gradient.cotangent.step, depth);
                let steps = [gradient.output.step, step];
                *scratch.means.add(i) = dot(simd, output, cotangent, steps, depth);
            }
        }
    }

    /// Returns the address of a row of dq.
    #[inline(always)]
    fn dq(&self, head: usize, query: usize) -> *mut f32 {
        let head = self.kv_head * self.operands.shape.group() + head;
        self.call.write(0, self.operands.results[0].row(self.batch, head, query))
    }

    /// Returns the address of a row of dk.
    #[inline(always)]
    fn dk(&self, key: usize) -> *mut f32 {
        self.call.write(1, self.operands.results[1].row(self.batch, self.kv_head, key))
    }

    /// Returns the address of a row of dv.
    #[inline(always)]
    fn dv(&self, key: usize) -> *mut f32 {
        self.call.write(2, self.operands.results[2].row(self.batch, self.kv_head, key))
    }
}
