//! Products of a few rows and a large matrix, as in text generation. Performance depends on loading the
//! matrix once, contiguously, with many loads in flight. So the threads of a workgroup split the terms
//! (split-K) of a few columns.
//!
//! If adjacent elements of the matrix belong to adjacent columns, a thread has four columns and a strided
//! subset of their terms. If they belong to adjacent terms, a subgroup has four columns, and a thread loads
//! four terms of each at a time.

use super::grid::{Grid, Tile as Own};
use super::operand::TiledOperand;
use super::{At, Product};
use crate::narrow::narrow;
use crate::product::Along;
use crate::simt::{Builder, Kernel, Value, ValueType};
use gradloom_core::ir::ReduceOp;
use gradloom_core::kernel::Tile;

/// Number of invocations of a subgroup.
const SUBGROUP: u32 = 32;
/// Candidate numbers of terms, or groups of four terms, that a thread loads before it multiplies them. The
/// first candidate that divides the thread's number of terms, or of groups, is used.
const AHEAD: [u32; 6] = [8, 6, 4, 3, 2, 1];

impl Product<'_> {
    pub(super) fn lanes_of_terms(&self, tile: &Tile) -> Kernel {
        let grid = Grid::new(self, [tile.m, tile.n]);
        let k = Builder::new(&self.label(""), tile.threads(), grid.count());
        k.uses_subgroups(SUBGROUP);
        let own = grid.tile(&k, self.problem);
        let [lhs, rhs] = TiledOperand::both(&k, self, &own);
        match rhs.side.along {
            Along::Free => self.terms_apart(&k, tile, own, [lhs, rhs]),
            Along::Contract => self.terms_together(&k, tile, own, [lhs, rhs]),
        }
        k.finish()
    }

    fn terms_apart<'k>(&self, k: &'k Builder, tile: &Tile, own: Own<'k>, [lhs, rhs]: [TiledOperand<'k>; 2]) {
        let (rows, groups, slices) = (tile.m, tile.n / 4, tile.slices());
        let (group, slice) = (k.local() % groups, k.local() / groups);
        let (terms, columns) = (narrow(self.problem.k), narrow(self.problem.n));
        let first = own.first_column + group * 4;
        let four = |term: Value<'k>| {
            if rhs.has_fours {
                let column = first.min(k.u32(columns - 4));
                return rhs.four(rhs.term(rhs.row(column), term));
            }
            let column = |i: u32| (first + i).min(k.u32(columns - 1));
            k.vector_of(&|i| rhs.element(rhs.term(rhs.row(column(i)), term)))
        };
        let left_rows: Vec<_> = (0..rows).map(|row| lhs.row(self.row(own, k, row))).collect();
        let sums: Vec<_> = left_rows.iter().map(|_| k.var(k.f32(0.0).splat())).collect();
        let each = terms.div_ceil(slices);
        let ahead = AHEAD.into_iter().find(|ahead| each.is_multiple_of(*ahead)).unwrap_or(1);
        let is_whole = terms.is_multiple_of(slices * ahead);
        let turns = [slice, k.u32(slices * each), k.u32(slices * ahead)];
        k.count_apart(self.is_early(), turns, |start| {
            let term = |turn: u32| start + turn * slices;
            let at = |turn| if is_whole { term(turn) } else { term(turn).min(k.u32(terms - 1)) };
            let left = |turn: u32, row: Value<'k>| {
                let value = lhs.element(lhs.term(row, at(turn)));
                if is_whole { value } else { term(turn).below(terms).select(value, k.f32(0.0)) }
            };
            let rights: Vec<_> = (0..ahead).map(|turn| four(at(turn))).collect();
            let lefts: Vec<Vec<_>> =
                (0..ahead).map(|turn| left_rows.iter().map(|&row| left(turn, row)).collect()).collect();
            for (lefts, right) in lefts.into_iter().zip(rights) {
                for (sum, left) in sums.iter().zip(lefts) {
                    sum.set(left.splat().mul_add(right, sum.get()));
                }
            }
        });
        // Reduce across the subgroup first, then across the workgroup.
        let subgroups = tile.threads() / SUBGROUP;
        let waiting = k.shared(ValueType::Vector(4), subgroups * rows * groups);
        let subgroup = k.local() / SUBGROUP;
        for (row, sum) in (0..).zip(&sums) {
            let total = sum.get();
            let parts = [0, 1, 2, 3].map(|i| {
                let mut part = total.component(i);
                let mut apart = groups;
                while apart < SUBGROUP {
                    part = part + part.shuffle_xor(apart, SUBGROUP);
                    apart *= 2;
                }
                part
            });
            k.when((k.local() % SUBGROUP).below(groups), || {
                k.set_element(waiting, (subgroup * rows + row) * groups + group, k.vector(&parts));
            });
        }
        k.barrier();
        let each_result = k.local();
        let (row, column) = (each_result / tile.n, each_result % tile.n);
        let place = own.first_column + column;
        let is_there = each_result.below(rows * tile.n) & place.below(columns);
        k.guard([Some(is_there), self.has_row(own, tile, row)], || {
            let total = k.var(k.f32(0.0));
            k.count(k.u32(0), k.u32(subgroups), k.u32(1), |other| {
                let at = (other * rows + row) * groups + column / 4;
                total.set(total.get() + k.element_part(waiting, at, column % 4));
            });
            let at = At { own, row: own.first_row + row, column: place };
            self.put(k, at, total.get());
        });
    }

    fn terms_together<'k>(
        &self,
        k: &'k Builder,
        tile: &Tile,
        own: Own<'k>,
        [lhs, rhs]: [TiledOperand<'k>; 2],
    ) {
        let (lane, subgroup) = (k.local() % SUBGROUP, k.local() / SUBGROUP);
        let (terms, columns) = (narrow(self.problem.k), narrow(self.problem.n));
        let first = own.first_column + subgroup * tile.thread_n;
        let right_rows: Vec<_> =
            (0..tile.thread_n).map(|i| rhs.row((first + i).min(k.u32(columns - 1)))).collect();
        let left_rows: Vec<_> = (0..tile.m).map(|row| lhs.row(self.row(own, k, row))).collect();
        let left_has_fours = lhs.has_fours && lhs.side.along == Along::Contract;
        let width = if rhs.has_fours { 4 } else { 1 };
        let sums: Vec<Vec<_>> =
            left_rows.iter().map(|_| right_rows.iter().map(|_| k.var(k.f32(0.0))).collect()).collect();
        let load = |operand: &TiledOperand<'k>, has_fours: bool, row: Value<'k>, term: Value<'k>| {
            let element = |i: u32| operand.element(operand.term(row, term + i));
            match (width, has_fours) {
                (4, true) => operand.four(operand.term(row, term)),
                (4, false) => k.vector_of(&element),
                _ => element(0),
            }
        };
        let turns = [lane * width, k.u32(terms), k.u32(SUBGROUP * width)];
        k.count_apart(self.is_early() && terms >= SUBGROUP * width, turns, |term| {
            let right: Vec<_> = right_rows.iter().map(|&row| load(&rhs, true, row, term)).collect();
            let left: Vec<_> = left_rows.iter().map(|&row| load(&lhs, left_has_fours, row, term)).collect();
            for (sums, &left) in sums.iter().zip(&left) {
                for (sum, &right) in sums.iter().zip(&right) {
                    let total = match width {
                        4 => (0..4)
                            .fold(sum.get(), |sum, i| left.component(i).mul_add(right.component(i), sum)),
                        _ => left.mul_add(right, sum.get()),
                    };
                    sum.set(total);
                }
            }
        });
        // Move each sum to a different lane, which stores the result.
        let mut own_sum = k.f32(0.0);
        for (number, sum) in (0..).zip(sums.iter().flatten()) {
            let total = sum.get().across_subgroup(ReduceOp::Sum, SUBGROUP as usize, SUBGROUP);
            own_sum = lane.equals(k.u32(number)).select(total, own_sum);
        }
        let (row, column) = (lane / tile.thread_n, first + lane % tile.thread_n);
        let is_there = lane.below(tile.m * tile.thread_n) & column.below(columns);
        k.guard([Some(is_there), self.has_row(own, tile, row)], || {
            let at = At { own, row: own.first_row + row, column };
            self.put(k, at, own_sum);
        });
    }

    /// Returns `true` if the matrix is available before the rows are; its first terms are then loaded in a
    /// peeled iteration.
    fn is_early(&self) -> bool {
        self.views.reads[1].is_early
    }

    /// Returns a row of the tile, clamped to the last row.
    fn row<'k>(&self, own: Own<'k>, k: &'k Builder, row: u32) -> Value<'k> {
        (own.first_row + row).min(k.u32(narrow(self.problem.m) - 1))
    }

    /// Returns a bool that is true if the tile's row exists; `None` if all rows do.
    fn has_row<'k>(&self, own: Own<'k>, tile: &Tile, row: Value<'k>) -> Option<Value<'k>> {
        let rows = narrow(self.problem.m);
        (!rows.is_multiple_of(tile.m)).then(|| (own.first_row + row).below(rows))
    }
}
