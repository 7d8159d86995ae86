//! The forward pass of one key/value head over a range of queries.
//!
//! In: a [`Task`]. Out: its rows of the output and of the log-sum-exp. For each block of keys, packs keys and
//! values; for each strip of query rows, computes the scores and their online softmax, and adds the product
//! of probabilities and values to the output's rows.

use super::operands::{Mask, Operands};
use super::products::{Products, Source};
use super::softmax::{Online, online_softmax};
use super::{Call, InstructionSet, single};
use crate::matrix::pack::{pack_rows, pack_transposed};
use crate::matrix::stored::{Bf16, F16, Stored, pack_stored_rows, pack_stored_transposed};
use crate::matrix::tile::{Panels, Rows, TileTarget};
use crate::simd::{Simd, Vectorized};
use gradloom_codegen::cpu::{FEW_QUERY_ROWS, Form};
use std::ops::Range;

/// The forward pass of one key/value head over a range of queries.
pub(super) struct Task<'a> {
    pub(super) operands: &'a Operands,
    pub(super) call: &'a Call<'a>,
    pub(super) mask: Mask,
    pub(super) batch: usize,
    pub(super) kv_head: usize,
    pub(super) queries: Range<usize>,
    pub(super) worker: usize,
    pub(super) level: InstructionSet,
}

/// Sections of the thread's scratch.
struct Scratch {
    keys: *mut f32,
    values: *mut f32,
    scores: *mut f32,
    maxima: *mut f32,
    sums: *mut f32,
    products: Products,
}

impl Vectorized for Task<'_> {
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: the task lies within the shape from which the layouts and the workspace were computed; no
        // two tasks share rows, and no two threads share scratch.
        unsafe { self.run(simd) }
    }
}

impl Task<'_> {
    /// # Safety
    /// `self.call` must meet the requirements documented on [`Call`] for the launch that the operands were
    /// created from.
    #[inline(always)]
    unsafe fn run<S: Simd>(&self, simd: S) {
        if self.queries.is_empty() {
            return;
        }
        let shape = self.operands.shape;
        let (begin, seen) = (self.mask.start(self.queries.start), self.mask.end(self.queries.end - 1));
        let sections = shape.forward_sections();
        let mut address = self.call.scratch(0).cast::<f32>();
        address = address.wrapping_add(self.worker * sections.iter().sum::<usize>());
        let [keys, values, scores, maxima, sums, left, wide] = sections.map(|length| {
            let start = address;
            address = address.wrapping_add(length);
            start
        });
        let products = Products::new(shape.rounds, self.level, [left, wide]);
        let scratch = Scratch { keys, values, scores, maxima, sums, products };
        let rows = shape.group() * self.queries.len();
        for row in 0..rows {
            // SAFETY: the sections have room for the task's rows.
            unsafe { self.set_state(&scratch, row, Online::EMPTY) };
        }
        let block = shape.forward_keys();
        let (key_step, value_step) = self.operands.steps();
        let few = !shape.rounds && rows <= FEW_QUERY_ROWS && key_step == 1 && value_step == 1;
        for start in (begin..seen).step_by(block) {
            let keys = start..(start + block).min(seen);
            // SAFETY: guaranteed by the caller; keys below `seen` are below the mask's length.
            unsafe {
                if few {
                    self.block_of_few_rows(simd, &scratch, keys);
                } else {
                    self.block(simd, &scratch, keys);
                }
            }
        }
        for row in 0..rows {
            // SAFETY: guaranteed by the caller.
            unsafe { self.finish(&scratch, row) };
        }
    }

    /// Accumulates a block of keys and values into the task's output rows.
    ///
    /// # Safety
    /// Same as [`Task::run`]; at least one query must see a key of `keys`, which must be no longer than a
    /// block.
    #[inline(always)]
    unsafe fn block<S: Simd>(&self, simd: S, scratch: &Scratch, keys: Range<usize>) {
        let Task { operands, call, batch, kv_head, .. } = *self;
        let shape = operands.shape;
        let steps = operands.steps();
        let key = |i| operands.key::<f32>(call, batch, kv_head, keys.start + i);
        let value = |i| operands.value::<f32>(call, batch, kv_head, keys.start + i);
        let is_f32 = operands.forms.map(|form| form == Form::F32);
        // SAFETY: guaranteed by the caller.
        let pack_keys = |to| unsafe {
            match operands.forms[0] {
                Form::F16 => self.pack_narrow_keys::<S, F16>(simd, &keys, to),
                Form::Bf16 => self.pack_narrow_keys::<S, Bf16>(simd, &keys, to),
                _ => pack_transposed(simd, keys.len(), shape.depth, key, steps.0, to),
            }
        };
        // SAFETY: guaranteed by the caller.
        let pack_values = |to| unsafe {
            match operands.forms[1] {
                Form::F16 => self.pack_narrow_values::<S, F16>(simd, &keys, to),
                Form::Bf16 => self.pack_narrow_values::<S, Bf16>(simd, &keys, to),
                _ => pack_rows(simd, keys.len(), shape.value_depth, value, steps.1, to),
            }
        };
        let (products, extents) = (scratch.products, [shape.value_depth, keys.len()]);
        // SAFETY: guaranteed by the caller; the sections have room for a block.
        let (packed_keys, packed_values) = unsafe {
            let source = (is_f32[0] && steps.0 == 1).then_some(Source::Columns(key));
            let packed_keys = products.pack(simd, [keys.len(), shape.depth], source, pack_keys, scratch.keys);
            let source = (is_f32[1] && steps.1 == 1).then_some(Source::Rows(value));
            (packed_keys, products.pack(simd, extents, source, pack_values, scratch.values))
        };
        for head in 0..shape.group() {
            let mut strip = self.queries.start;
            while strip < self.queries.end {
                let end = (strip + shape.strip()).min(self.queries.end);
                // SAFETY: guaranteed by the caller.
                unsafe { self.strip(simd, scratch, head, strip..end, &keys, packed_keys, packed_values) };
                strip = end;
            }
        }
    }

    /// # Safety
    /// Same as [`Task::block`]; the keys must be stored as `E`.
    #[inline(always)]
    unsafe fn pack_narrow_keys<S: Simd, E: Stored>(
        &self,
        simd: S,
        keys: &Range<usize>,
        to: *mut f32,
    ) -> Panels {
        let Task { operands, call, batch, kv_head, .. } = *self;
        let row = |i| operands.key::<E>(call, batch, kv_head, keys.start + i);
        // SAFETY: guaranteed by the caller.
        unsafe { pack_stored_transposed(simd, keys.len(), operands.shape.depth, row, operands.steps().0, to) }
    }

    /// # Safety
    /// Same as [`Task::block`]; the values must be stored as `E`.
    #[inline(always)]
    unsafe fn pack_narrow_values<S: Simd, E: Stored>(
        &self,
        simd: S,
        keys: &Range<usize>,
        to: *mut f32,
    ) -> Panels {
        let Task { operands, call, batch, kv_head, .. } = *self;
        let row = |i| operands.value::<E>(call, batch, kv_head, keys.start + i);
        // SAFETY: guaranteed by the caller.
        unsafe { pack_stored_rows(simd, keys.len(), operands.shape.value_depth, row, operands.steps().1, to) }
    }

    /// Updates the softmax states and the output rows of a strip of queries of one head.
    ///
    /// # Safety
    /// Same as [`Task::block`].
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    unsafe fn strip<S: Simd>(
        &self,
        simd: S,
        scratch: &Scratch,
        head: usize,
        queries: Range<usize>,
        keys: &Range<usize>,
        packed_keys: Panels,
        packed_values: Panels,
    ) {
        let Task { operands, call, batch, .. } = *self;
        let shape = operands.shape;
        let q_head = self.kv_head * shape.group() + head;
        let seen = self.mask.within(queries.start..=queries.end - 1, keys);
        if seen.is_empty() {
            return;
        }
        let most = seen.end;
        let row_stride = shape.forward_keys();
        let products = scratch.products;
        let width = products.width(most, row_stride, S::LANES);
        let q = Rows {
            start: operands.q.row(call, batch, q_head, queries.start),
            row_stride: operands.q.row_stride(),
            step: operands.q.step,
        };
        let scores =
            TileTarget { start: scratch.scores, row_stride, columns: most, padded: true, accumulate: false };
        // SAFETY: guaranteed by the caller; the strip's scores have room for whole vectors.
        unsafe { products.multiply(simd, queries.len(), 0..shape.depth, q, packed_keys, scores) };
        let first_block = self.mask.start(queries.start) >= keys.start;
        for (i, query) in queries.clone().enumerate() {
            let row = scratch.scores.wrapping_add(i * row_stride);
            let state_row = head * self.queries.len() + query - self.queries.start;
            // SAFETY: as above.
            unsafe {
                let mut state = self.state(scratch, state_row);
                let seen = self.mask.within(query..=query, keys);
                let rescale = online_softmax(simd, row, seen.clone(), width, operands.scale, &mut state);
                if let Some(kept) = operands.kept(call, batch, q_head, query) {
                    kept.apply(row, keys, &seen);
                }
                if !first_block && rescale != 1.0 {
                    let output = self.output(state_row);
                    (0..shape.value_depth).for_each(|c| *output.add(c) *= rescale);
                }
                self.set_state(scratch, state_row, state);
            }
        }
        let probabilities = Rows { start: scratch.scores, row_stride, step: 1 };
        let output = TileTarget {
            start: self.output(head * self.queries.len() + (queries.start - self.queries.start)),
            row_stride: operands.results[0].row_stride(),
            columns: shape.value_depth,
            padded: false,
            accumulate: !first_block,
        };
        // SAFETY: this task alone writes its output rows.
        unsafe { products.multiply(simd, queries.len(), seen, probabilities, packed_values, output) };
    }

    /// Accumulates a block as [`Task::block`] does, but without packing, which would cost more than it saves
    /// for so few rows.
    ///
    /// # Safety
    /// Same as [`Task::block`]; keys and values must be contiguous.
    #[inline(always)]
    unsafe fn block_of_few_rows<S: Simd>(&self, simd: S, scratch: &Scratch, keys: Range<usize>) {
        let Task { operands, call, batch, kv_head, .. } = *self;
        let shape = operands.shape;
        for row in 0..shape.group() * self.queries.len() {
            let query = self.queries.start + row % self.queries.len();
            let seen = self.mask.within(query..=query, &keys);
            if seen.is_empty() {
                continue;
            }
            let q_head = kv_head * shape.group() + row / self.queries.len();
            let q = operands.q.row(call, batch, q_head, query);
            let (count, seen) = (seen.len(), keys.start + seen.start..keys.start + seen.end);
            // SAFETY: guaranteed by the caller; a strip of scores is longer than a block of keys.
            unsafe {
                match operands.forms[0] {
                    Form::F16 => self.scores::<S, F16>(simd, q, &seen, scratch.scores),
                    Form::Bf16 => self.scores::<S, Bf16>(simd, q, &seen, scratch.scores),
                    _ => self.scores::<S, f32>(simd, q, &seen, scratch.scores),
                }
                let width = count.next_multiple_of(S::LANES);
                let mut state = self.state(scratch, row);
                let rescale =
                    online_softmax(simd, scratch.scores, 0..count, width, operands.scale, &mut state);
                self.set_state(scratch, row, state);
                if let Some(kept) = operands.kept(call, batch, q_head, query) {
                    kept.apply(scratch.scores, &seen, &(0..count));
                }
                let first_block = self.mask.start(query) >= keys.start;
                let rescale = if first_block { None } else { Some(rescale) };
                let (weights, to) = (scratch.scores, self.output(row));
                match operands.forms[1] {
                    Form::F16 => self.weigh::<S, F16>(simd, weights, &seen, to, rescale),
                    Form::Bf16 => self.weigh::<S, Bf16>(simd, weights, &seen, to, rescale),
                    _ => self.weigh::<S, f32>(simd, weights, &seen, to, rescale),
                }
            }
        }
    }

    /// Computes the dot products of a query with keys.
    ///
    /// # Safety
    /// Same as [`Task::block_of_few_rows`]; the keys must be stored as `E`, and `scores` must have room for
    /// one score per key.
    #[inline(always)]
    unsafe fn scores<S: Simd, E: Stored>(
        &self,
        simd: S,
        q: *const f32,
        keys: &Range<usize>,
        scores: *mut f32,
    ) {
        let Task { operands, call, batch, kv_head, .. } = *self;
        for (i, key) in keys.clone().enumerate() {
            let key = operands.key::<E>(call, batch, kv_head, key);
            // SAFETY: guaranteed by the caller.
            unsafe {
                *scores.add(i) = single::dot(simd, q, key, [operands.q.step, 1], operands.shape.depth);
            }
        }
    }

    /// Computes the [`single::weighted_sum`] of the values of `keys`.
    ///
    /// # Safety
    /// Same as [`Task::block_of_few_rows`]; the values must be stored as `E`, and there must be one weight
    /// per value.
    #[inline(always)]
    unsafe fn weigh<S: Simd, E: Stored>(
        &self,
        simd: S,
        weights: *const f32,
        keys: &Range<usize>,
        to: *mut f32,
        rescale: Option<f32>,
    ) {
        let Task { operands, call, batch, kv_head, .. } = *self;
        let value = |i| operands.value::<E>(call, batch, kv_head, keys.start + i);
        let columns = operands.shape.value_depth;
        // SAFETY: guaranteed by the caller.
        unsafe { single::weighted_sum(simd, weights, keys.len(), value, to, columns, rescale) };
    }

    /// Returns the address of an output row. Rows are numbered by head of the group, then by query of the
    /// task.
    #[inline(always)]
    fn output(&self, row: usize) -> *mut f32 {
        let (head, query) = self.head_and_query(row);
        self.call.write(0, self.operands.results[0].row(self.batch, head, query))
    }

    /// Returns the head and the query of one of the task's rows.
    #[inline(always)]
    fn head_and_query(&self, row: usize) -> (usize, usize) {
        let head = self.kv_head * self.operands.shape.group() + row / self.queries.len();
        (head, self.queries.start + row % self.queries.len())
    }

    /// Divides an output row by the sum of its probabilities and writes its log-sum-exp.
    ///
    /// # Safety
    /// Same as [`Task::run`].
    #[inline(always)]
    unsafe fn finish(&self, scratch: &Scratch, row: usize) {
        let query = self.queries.start + row % self.queries.len();
        let seen = self.mask.start(query) < self.mask.end(query);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let Online { maximum, sum } = self.state(scratch, row);
            let output = std::slice::from_raw_parts_mut(self.output(row), self.operands.shape.value_depth);
            // The row of a query that sees no key may not have been written, so it is filled with zeros.
            if seen {
                let factor = 1.0 / sum;
                output.iter_mut().for_each(|value| *value *= factor);
            } else {
                output.fill(0.0);
            }
            let log_sum = if seen { maximum + libm::logf(sum) } else { f32::NEG_INFINITY };
            let (head, query) = self.head_and_query(row);
            *self.call.write::<f32>(1, self.operands.results[1].row(self.batch, head, query)) = log_sum;
        }
    }

    /// # Safety
    /// `scratch` must be the task's scratch, and `row` one of the task's rows.
    #[inline(always)]
    unsafe fn state(&self, scratch: &Scratch, row: usize) -> Online {
        // SAFETY: guaranteed by the caller.
        unsafe { Online { maximum: *scratch.maxima.add(row), sum: *scratch.sums.add(row) } }
    }

    /// # Safety
    /// `scratch` must be the task's scratch, and `row` one of the task's rows.
    #[inline(always)]
    unsafe fn set_state(&self, scratch: &Scratch, row: usize, state: Online) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            *scratch.maxima.add(row) = state.maximum;
            *scratch.sums.add(row) = state.sum;
        }
    }
}
