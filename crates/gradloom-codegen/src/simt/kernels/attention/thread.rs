//! A thread's share of the two matrix products of attention.
//!
//! Products are computed element by element, so that GPU compilers emit one instruction for each
//! multiplication and addition.

use super::super::super::ir::ValueType;
use super::super::{Builder, Value};
use super::block::RowBlock;
use super::rows::Rows;
use crate::narrow::narrow;
use crate::simt::Variable;
use gradloom_core::ir::DType;
use gradloom_core::kernel::AttentionTile;

/// Values for each of a thread's rows and columns.
pub(super) type Each<T> = Vec<Vec<T>>;

/// Thread of a workgroup that processes blocks of rows and columns.
pub(super) struct Thread<'k> {
    k: &'k Builder,
    tile: AttentionTile,
    /// Index of the thread along the columns.
    pub(super) across: Value<'k>,
    /// Rows of the thread in the block.
    pub(super) rows: Vec<Value<'k>>,
}

/// Shared memory for a block of scores, or for a number per row and thread along the columns.
#[derive(Clone, Copy)]
pub(super) struct Shared(u32);

impl<'k> Thread<'k> {
    pub(super) fn new(k: &'k Builder, tile: AttentionTile) -> Self {
        let width = narrow(tile.column_threads);
        let down = k.local() / width;
        let rows = (0..tile.rows_each).map(|i| down + narrow(i * tile.row_threads)).collect();
        Self { k, tile, across: k.local() % width, rows }
    }

    /// Allocates shared memory for a block of scores.
    pub(super) fn scores(&self) -> Shared {
        let columns = ValueType::Vector(narrow(self.tile.columns_each));
        Shared(self.k.shared(columns, narrow(self.tile.score_items())))
    }

    /// Allocates shared memory for a number per row and thread along the columns.
    pub(super) fn shares(&self) -> Shared {
        Shared(self.k.shared(DType::F32, narrow(self.tile.share_items())))
    }

    /// Returns the thread's column `j` in the block that starts at column `start`.
    pub(super) fn column(&self, start: Value<'k>, j: usize) -> Value<'k> {
        start + self.across + narrow(j * self.tile.column_threads)
    }

    /// Calls `f` for each of the thread's rows and columns, and returns the results.
    pub(super) fn each<T>(&self, f: impl Fn(usize, usize) -> T) -> Each<T> {
        let row = |i| (0..self.tile.columns_each).map(|j| f(i, j)).collect();
        (0..self.tile.rows_each).map(row).collect()
    }

    /// Combines the values of all threads of each row through `shares`. A barrier follows the writes, but
    /// none precedes them, so all threads must have finished reading earlier values.
    pub(super) fn combine(
        &self,
        Shared(shares): Shared,
        values: &[Value<'k>],
        f: impl Fn(Value<'k>, Value<'k>) -> Value<'k>,
    ) -> Vec<Value<'k>> {
        let (k, width) = (self.k, narrow(self.tile.column_threads));
        for (&row, &value) in self.rows.iter().zip(values) {
            k.set_element(shares, row * width + self.across, value);
        }
        k.barrier();
        let combined = self.rows.iter().map(|&row| {
            let share = |t| k.element(shares, row * width + t);
            (1..width).fold(share(0), |all, t| f(all, share(t)))
        });
        combined.collect()
    }

    /// Stores the thread's scores of a block in shared memory.
    pub(super) fn put_scores(&self, Shared(scores): Shared, values: &Each<Value<'k>>) {
        let pitch = narrow(self.tile.column_threads + 1);
        for (&row, values) in self.rows.iter().zip(values) {
            self.k.set_element(scores, row * pitch + self.across, self.k.vector(values));
        }
    }

    /// Returns the dot products of the thread's rows of one block and its rows of another, which are the
    /// columns of the scores.
    pub(super) fn products(&self, rows: &RowBlock<'k>, columns: &RowBlock<'k>) -> Each<Value<'k>> {
        let k = self.k;
        let sums = self.each(|_, _| k.var(k.f32(0.0)));
        let apart = narrow(self.tile.column_threads) * columns.pitch();
        k.count(k.u32(0), k.u32(narrow(rows.vectors())), k.u32(1), |d| {
            let a: Vec<_> = self.rows.iter().map(|&row| rows.vector(row, d)).collect();
            let column = |j| columns.vector(self.across, d + narrow(j) * apart);
            let b: Vec<_> = (0..self.tile.columns_each).map(column).collect();
            for component in 0..4 {
                for (sums, a) in sums.iter().zip(&a) {
                    for (sum, b) in sums.iter().zip(&b) {
                        sum.set(a.component(component).mul_add(b.component(component), sum.get()));
                    }
                }
            }
        });
        self.each(|i, j| sums[i][j].get())
    }

    /// Creates sums for [`Thread::accumulate`]: one for each of the thread's rows and each of the thread's
    /// vectors in a row of the block.
    pub(super) fn sums(&self, block: &RowBlock<'k>) -> Each<Variable<'k>> {
        let vectors = block.vectors().div_ceil(self.tile.column_threads);
        let zero = || self.k.var(self.k.f32(0.0).splat());
        (0..self.tile.rows_each).map(|_| (0..vectors).map(|_| zero()).collect()).collect()
    }

    /// Adds to `sums` the product of a block of scores and a block whose rows correspond to the columns of
    /// the scores.
    pub(super) fn accumulate(&self, sums: &Each<Variable<'k>>, Shared(scores): Shared, block: &RowBlock<'k>) {
        let (k, threads) = (self.k, narrow(self.tile.column_threads));
        let places: Vec<_> = (0..sums[0].len()).map(|c| self.place(block, c)).collect();
        k.count(k.u32(0), k.u32(threads), k.u32(1), |t| {
            let score = |&row: &Value<'k>| k.element(scores, row * (threads + 1) + t);
            let scores: Vec<_> = self.rows.iter().map(score).collect();
            for j in 0..narrow(self.tile.columns_each) {
                for (c, &place) in places.iter().enumerate() {
                    let vector = block.vector(t, place + j * threads * block.pitch());
                    for (sums, score) in sums.iter().zip(&scores) {
                        let score = score.component(j).splat();
                        sums[c].set(score.mul_add(vector, sums[c].get()));
                    }
                }
            }
        });
    }

    /// Returns the index of the thread's vector `c` in a row of a block, clamped to the last vector.
    fn place(&self, block: &RowBlock<'k>, c: usize) -> Value<'k> {
        let (first, vectors) = (c * self.tile.column_threads, block.vectors());
        let place = self.across + narrow(first);
        match first + self.tile.column_threads > vectors {
            true => place.min(self.k.u32(narrow(vectors) - 1)),
            false => place,
        }
    }

    /// Stores the thread's vectors to the row of the result whose first element is at `start`.
    pub(super) fn store(&self, result: Rows<'k, '_>, start: Value<'k>, vectors: &[Value<'k>]) {
        let (k, threads, width) = (self.k, self.tile.column_threads, result.width());
        for (c, vector) in vectors.iter().enumerate() {
            let column = (self.across + narrow(c * threads)) * 4;
            // No check is needed if every thread of a row has a complete vector.
            let is_sure = (c + 1) * threads * 4 <= width;
            for component in 0..4 {
                let at = column + component;
                let is_inside = (!is_sure).then(|| at.below(narrow(width)));
                k.guard([is_inside], || result.store(start, at, vector.component(component)));
            }
        }
    }
}
