//! Addresses of the operands of attention, and the keys that each query sees.
//!
//! In: the accesses of a launch and, at run time, the values of the offset, the length and the block table.
//! Out: addresses of rows, and a [`Mask`]; a [`Trap`] if a value is out of range.

use crate::{Call, Trap};
use gradloom_codegen::cpu::{AttentionShape, Form};
use gradloom_core::ir::AttentionSpec;
use gradloom_core::kernel::{Access, Launch, Layout};
use gradloom_device::outcome::{block_out_of_range, key_length_out_of_range};
use std::ops::{Range, RangeInclusive};

/// A read of rank 4, or of rank 3 with one element per row.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    read: usize,
    offset: usize,
    /// Strides of the batch, head and row axes.
    strides: [usize; 3],
    /// Stride between the elements of a row.
    pub(super) step: usize,
}

impl View {
    pub(super) fn new(read: usize, layout: &Layout) -> Self {
        let strides = [layout.strides[0], layout.strides[1], layout.strides[2]];
        let step = layout.strides.get(3).copied().unwrap_or(1);
        // A row of one element counts as contiguous.
        let step = if layout.shape.get(3) == Some(&1) { 1 } else { step };
        Self { read, offset: layout.offset, strides, step }
    }

    pub(super) fn row_stride(&self) -> usize {
        self.strides[2]
    }

    /// Returns the address of a row.
    #[inline(always)]
    pub(super) fn row<E>(&self, call: &Call<'_>, batch: usize, head: usize, row: usize) -> *const E {
        let [b, h, r] = self.strides;
        call.read(self.read, self.offset + batch * b + head * h + row * r)
    }
}

/// A result of rank 4 or 3 with contiguous rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResultView {
    offset: usize,
    /// Strides of the batch, head and row axes.
    strides: [usize; 3],
}

impl ResultView {
    fn new(layout: &Layout) -> Self {
        debug_assert!(layout.shape.get(3).is_none_or(|&n| n == 1 || layout.strides[3] == 1));
        Self { offset: layout.offset, strides: [layout.strides[0], layout.strides[1], layout.strides[2]] }
    }

    pub(super) fn row_stride(&self) -> usize {
        self.strides[2]
    }

    /// Returns the offset of a row in the result's buffer.
    #[inline(always)]
    pub(super) fn row(&self, batch: usize, head: usize, row: usize) -> usize {
        let [b, h, r] = self.strides;
        self.offset + batch * b + head * h + row * r
    }
}

/// The block table operand.
#[derive(Clone, Copy, Debug)]
struct Table {
    read: usize,
    offset: usize,
    strides: [usize; 2],
    block_size: usize,
    pool_blocks: usize,
}

impl Table {
    /// Returns the pool block that holds a sequence's keys from `block·block_size` on.
    #[inline(always)]
    fn entry(&self, call: &Call<'_>, batch: usize, block: usize) -> i32 {
        let at = self.offset + batch * self.strides[0] + block * self.strides[1];
        // SAFETY: `batch` and `block` are below the table's extents.
        unsafe { *call.read::<i32>(self.read, at) }
    }
}

/// An i32 operand with one value for all sequences, or one per sequence.
#[derive(Clone, Copy, Debug)]
struct Given {
    read: usize,
    offset: usize,
    stride: usize,
}

impl Given {
    /// Returns the value for a sequence.
    fn of(self, call: &Call<'_>, batch: usize) -> i64 {
        // SAFETY: the operand has one element per sequence, or a single element and stride 0.
        i64::from(unsafe { *call.read::<i32>(self.read, self.offset + batch * self.stride) })
    }
}

/// Operands and results that the forward and the backward pass have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pub(super) shape: AttentionShape,
    pub(super) scale: f32,
    /// The output and the log-sum-exp, or the three gradients.
    pub(super) results: [ResultView; 3],
    pub(super) q: View,
    k: View,
    v: View,
    /// Storage forms of keys and values.
    pub(super) forms: [Form; 2],
    causal: bool,
    window: Option<u32>,
    query_offset: Option<Given>,
    key_length: Option<Given>,
    table: Option<Table>,
    /// Words of the kept keys, a row per query, and the factor on these keys' shares.
    kept: Option<(View, f32)>,
}

impl Operands {
    pub(super) fn new(launch: &Launch, spec: &AttentionSpec) -> Self {
        let layout = |read: usize| &launch.reads[read].layout;
        let [offset, length, table, kept] = spec.extra_positions();
        let given = |read: Option<usize>| {
            read.map(|read| Given {
                read,
                offset: layout(read).offset,
                stride: layout(read).strides.first().copied().unwrap_or(0),
            })
        };
        let (q, k, v) = (layout(0), layout(1), layout(2));
        Self {
            shape: AttentionShape::new(
                &q.shape,
                &k.shape,
                &v.shape,
                table.map(|read| &layout(read).shape),
                launch.schedule.operands(),
            ),
            scale: spec.scale as f32,
            results: std::array::from_fn(|i| {
                launch.writes.get(i).map_or_else(ResultView::default, |write| ResultView::new(&write.layout))
            }),
            q: View::new(0, q),
            k: View::new(1, k),
            v: View::new(2, v),
            forms: [1, 2].map(|read| Form::of(&launch.reads[read])),
            causal: spec.causal,
            window: spec.window,
            query_offset: given(offset),
            key_length: given(length),
            table: table.map(|read| Table {
                read,
                offset: layout(read).offset,
                strides: [layout(read).strides[0], layout(read).strides[1]],
                block_size: k.shape[2],
                pool_blocks: k.shape[0],
            }),
            kept: kept.zip(spec.dropout).map(|(read, factor)| (View::new(read, layout(read)), factor as f32)),
        }
    }

    /// Returns the kept keys of a query and the factor on their shares, or `None` if nothing is dropped.
    #[inline(always)]
    pub(super) fn kept(&self, call: &Call<'_>, batch: usize, head: usize, query: usize) -> Option<Kept> {
        let (words, factor) = self.kept?;
        Some(Kept { words: words.row(call, batch, head, query), step: words.step, factor })
    }

    /// Returns the number of phases that check operands: 1 if there are key lengths or a block table, else 0.
    pub(super) fn checks(&self) -> usize {
        usize::from(self.key_length.is_some() || self.table.is_some())
    }

    /// Checks the key lengths and the block table.
    ///
    /// # Errors
    /// Returns an error if a key length is not in `0..=keys`, or if the table's entry for a key below that
    /// length is not a block of the pool.
    pub(super) fn check(&self, call: &Call<'_>) -> Result<(), Trap> {
        let keys = self.shape.keys;
        for batch in 0..self.shape.batch {
            let length = self.key_length.map_or(keys as i64, |length| length.of(call, batch));
            if !(0..=keys as i64).contains(&length) {
                return Err(Trap::new(key_length_out_of_range(length, keys)));
            }
            if let Some(table) = &self.table {
                self.check_table(call, table, batch, length as usize)?;
            }
        }
        Ok(())
    }

    /// Returns the mask of a sequence. [`Operands::check`] must have succeeded.
    pub(super) fn mask(&self, call: &Call<'_>, batch: usize) -> Mask {
        let length = self.key_length.map_or(self.shape.keys, |length| length.of(call, batch) as usize);
        let offset = self.query_offset.map_or(0, |offset| offset.of(call, batch));
        Mask { causal: self.causal, window: self.window.map(i64::from), offset, length }
    }

    fn check_table(&self, call: &Call<'_>, table: &Table, batch: usize, length: usize) -> Result<(), Trap> {
        let used = if table.block_size == 0 { 0 } else { length.div_ceil(table.block_size) };
        for block in 0..used {
            let entry = table.entry(call, batch, block);
            if !usize::try_from(entry).is_ok_and(|entry| entry < table.pool_blocks) {
                return Err(Trap::new(block_out_of_range(entry.into(), [batch, block], table.pool_blocks)));
            }
        }
        Ok(())
    }

    /// Returns the address of a key, whose storage form must be that of `E`. The key must lie below the
    /// mask's length, and [`Operands::check`] must have succeeded.
    #[inline(always)]
    pub(super) fn key<E>(&self, call: &Call<'_>, batch: usize, head: usize, key: usize) -> *const E {
        let (batch, row) = self.place(call, batch, key);
        self.k.row(call, batch, head, row)
    }

    /// Returns the address of a value, under the conditions of [`Operands::key`].
    #[inline(always)]
    pub(super) fn value<E>(&self, call: &Call<'_>, batch: usize, head: usize, key: usize) -> *const E {
        let (batch, row) = self.place(call, batch, key);
        self.v.row(call, batch, head, row)
    }

    /// Returns the stride between the elements of a key and that between the elements of a value.
    pub(super) fn steps(&self) -> (usize, usize) {
        (self.k.step, self.v.step)
    }

    #[inline(always)]
    fn place(&self, call: &Call<'_>, batch: usize, key: usize) -> (usize, usize) {
        match &self.table {
            None => (batch, key),
            Some(table) => {
                (table.entry(call, batch, key / table.block_size) as usize, key % table.block_size)
            }
        }
    }
}

/// Kept keys of a query.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    words: *const u32,
    /// Stride between words.
    step: usize,
    factor: f32,
}

impl Kept {
    /// Applies dropout to the shares `part` of those of `keys`.
    ///
    /// # Safety
    /// `shares` must be valid for reads and writes of the elements `part`, and the keys must exist.
    #[inline(always)]
    pub(super) unsafe fn apply(self, shares: *mut f32, keys: &Range<usize>, part: &Range<usize>) {
        let mut at = part.start;
        while at < part.end {
            let key = keys.start + at;
            let end = (at + 32 - key % 32).min(part.end);
            // SAFETY: guaranteed by the caller; there is a word for every 32 keys.
            unsafe {
                let bits = *self.words.add(key / 32 * self.step) >> (key % 32);
                for i in at..end {
                    let share = shares.add(i);
                    *share = if bits >> (i - at) & 1 == 1 { *share * self.factor } else { 0.0 };
                }
            }
            at = end;
        }
    }
}

/// Additional operands of the gradient.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gradient {
    pub(super) output: View,
    pub(super) log_sum: View,
    pub(super) cotangent: View,
}

impl Gradient {
    /// Creates the views of the launch's last three reads, the first of which has index `first`.
    pub(super) fn new(reads: &[Access], first: usize) -> Self {
        let view = |i: usize| View::new(first + i, &reads[i].layout);
        Self { output: view(0), log_sum: view(1), cotangent: view(2) }
    }
}

/// The keys that each query sees: a range whose bounds never decrease from one query to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask {
    causal: bool,
    window: Option<i64>,
    offset: i64,
    length: usize,
}

impl Mask {
    /// Returns the first key that a query sees.
    #[inline(always)]
    pub(super) fn start(&self, query: usize) -> usize {
        let Some(window) = self.window else { return 0 };
        (self.offset + query as i64 + 1 - window).clamp(0, self.length as i64) as usize
    }

    /// Returns the range of queries, of `count`, that see at least one key.
    pub(super) fn viewers(&self, count: usize) -> Range<usize> {
        let sees = |query: &usize| self.start(*query) < self.end(*query);
        let start = (0..count).find(sees).unwrap_or(count);
        start..(start..count).rev().find(sees).map_or(start, |last| last + 1)
    }

    /// Returns the end of the keys that a query sees, which may be below their start.
    #[inline(always)]
    pub(super) fn end(&self, query: usize) -> usize {
        let ahead = if self.causal { Some(1) } else { self.window };
        let Some(ahead) = ahead else { return self.length };
        (self.offset + query as i64 + ahead).clamp(0, self.length as i64) as usize
    }

    /// Returns the range of keys from the first that `queries` see to the last, within `keys` and relative to
    /// their start; an empty range at 0 if there are none.
    #[inline(always)]
    pub(super) fn within(&self, queries: RangeInclusive<usize>, keys: &Range<usize>) -> Range<usize> {
        let [start, end] = [self.start(*queries.start()), self.end(*queries.end())]
            .map(|key| key.clamp(keys.start, keys.end) - keys.start);
        if start < end { start..end } else { 0..0 }
    }
}
