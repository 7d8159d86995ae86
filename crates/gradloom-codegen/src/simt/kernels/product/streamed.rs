//! The product of few rows with a large matrix, by matrix instructions, as in generation for many texts:
//! what counts is to read the matrix once, with many loads on their way. So operands go from memory to
//! registers, and the subgroups of a workgroup share out the terms of a few columns.
//!
//! A lane has four terms of each row and of each of its two or four columns, which are neighbours where the
//! right operand's are. The subgroups' sums are added up in workgroup memory, in order, 16 rows at a time.

use super::grid::{Grid, Tile};
use super::operand::TiledOperand;
use super::{At, Product, inside};
use crate::narrow::narrow;
use crate::product::Along;
use crate::simt::{Builder, FragmentPlace, Kernel, MatrixUse, Value};
use gradloom_core::ir::DType;
use gradloom_core::kernel::CooperativeTile;

/// Lanes of a subgroup.
const SUBGROUP: u32 = 32;
/// Steps of 16 terms that a lane has on their way at the same time.
const AHEAD: [u32; 5] = [6, 4, 3, 2, 1];
/// Rows, or columns, of a subgroup's lanes that have different ones.
const LINES: u32 = 8;
/// Registers of a lane for what is on its way, at most.
const REGISTERS: u32 = 80;

/// Where a lane stands.
struct Lane<'k> {
    /// Its row of the first eight, which is its group of columns, too.
    line: Value<'k>,
    /// The first of its terms.
    term: Value<'k>,
}

impl Product<'_> {
    /// The kernel of the product.
    pub(super) fn streamed(&self, tile: &CooperativeTile) -> Kernel {
        let grid = Grid::new(self, [tile.m, tile.n]);
        let (subgroups, threads) = (tile.subgroups(), tile.subgroups() * SUBGROUP);
        let k = Builder::new(&self.label(""), threads, grid.count());
        k.uses_subgroups(SUBGROUP);
        let own = grid.tile(&k, self.problem);
        let operands = TiledOperand::both(&k, self, &own);
        let (number, subgroup) = (k.local() % SUBGROUP, k.local() / SUBGROUP);
        let lane = Lane { line: number / 4, term: number % 4 * 4 };
        let half = self.schedule.operands;
        let columns = tile.n / LINES;
        let zero = || k.var(k.matrix_zero());
        let sums: Vec<Vec<_>> =
            (0..tile.m / 16).map(|_| (0..columns / 2).map(|_| zero()).collect()).collect();
        let each = narrow(self.problem.k) / tile.k;
        let registers = |ahead: u32| 2 * ahead * (columns + tile.m / LINES);
        let fits = |ahead: &u32| each.is_multiple_of(*ahead) && registers(*ahead) <= REGISTERS;
        let ahead = AHEAD.into_iter().find(fits).unwrap_or(1);
        k.count(k.u32(0), k.u32(each), k.u32(ahead), |turn| {
            // Terms of two steps are neighbours: runs of 64 bytes.
            let together = if ahead.is_multiple_of(2) { 2 } else { 1 };
            let first = (subgroup * each + turn) * 16 + lane.term * together;
            let term = |step: u32| first + (step / together * 16 * together + step % together * 4);
            let terms: Vec<_> = (0..ahead).map(term).collect();
            let rights: Vec<_> =
                terms.iter().map(|&term| self.rights(tile, own, &operands[1], &lane, term)).collect();
            let lefts: Vec<_> =
                terms.iter().map(|&term| self.lefts(tile, own, &operands[0], &lane, term)).collect();
            // All loads stand before what is done with them.
            for (lefts, rights) in lefts.into_iter().zip(rights) {
                let rights: Vec<_> = rights.into_iter().map(|four| four.to_half(half)).collect();
                for ([upper, lower], sums) in lefts.into_iter().zip(&sums) {
                    let left = upper.to_half(half).matrix_of(lower.to_half(half), MatrixUse::Left);
                    for (pair, sum) in rights.chunks_exact(2).zip(sums) {
                        let right = pair[0].matrix_of(pair[1], MatrixUse::Right);
                        sum.set(left.matrix_mul_add(right, sum.get()));
                    }
                }
            }
        });

        let pitch = tile.streamed_pitch();
        let waiting = k.shared(DType::F32, subgroups * 16 * pitch);
        for (i, sums) in (0..).zip(&sums) {
            if i > 0 {
                k.barrier();
            }
            let halves = sums.iter().flat_map(|sum| [0, 1].map(|half| sum.get().matrix_half(half)));
            for (column, half) in (0..columns).zip(halves) {
                for element in 0..4 {
                    // Of the first lane; others are below it and to its right.
                    let [row, first] = FragmentPlace::of(0, 0, element as usize).map(narrow);
                    let within = lane.term / 2 + first;
                    let at = match operands[1].side.along {
                        Along::Free => within * columns + column,
                        Along::Contract => within + column * LINES,
                    };
                    let row = subgroup * 16 + lane.line + row;
                    k.set_element(waiting, row * pitch + at, half.component(element));
                }
            }
            k.barrier();
            k.count(k.local(), k.u32(16 * tile.n), k.u32(threads), |place| {
                let (row, column) = (place / tile.n, place % tile.n);
                let at = At {
                    batch: own.batch,
                    part: own.part,
                    row: own.first_row + i * 16 + row,
                    column: own.first_column + column,
                };
                let there =
                    [inside(tile.m, self.problem.m, at.row), inside(tile.n, self.problem.n, at.column)];
                k.guard(there, || {
                    let part = |subgroup: u32| k.element(waiting, (row + subgroup * 16) * pitch + column);
                    self.put(&k, at, (1..subgroups).fold(part(0), |sum, subgroup| sum + part(subgroup)));
                });
            });
        }
        k.finish()
    }

    /// Four terms from `term` on of the lane's two rows of each left operand, as they are stored.
    fn lefts<'k>(
        &self,
        tile: &CooperativeTile,
        own: Tile<'k>,
        lhs: &TiledOperand<'k>,
        lane: &Lane<'k>,
        term: Value<'k>,
    ) -> Vec<[Value<'k>; 2]> {
        let rows = narrow(self.problem.m);
        let four = |first: u32| {
            let row = own.first_row + lane.line + first;
            let row = if rows.is_multiple_of(tile.m) { row } else { row.min(lhs.k.u32(rows - 1)) };
            lhs.stored_four(lhs.term(lhs.row(row), term))
        };
        // Rows that are not there are computed like others, and not stored.
        let of = |first: u32| {
            let upper = four(first);
            [upper, if rows <= 8 { upper } else { four(first + 8) }]
        };
        (0..tile.m / 16).map(|i| of(16 * i)).collect()
    }

    /// Four terms from `term` on of each of the lane's columns.
    fn rights<'k>(
        &self,
        tile: &CooperativeTile,
        own: Tile<'k>,
        rhs: &TiledOperand<'k>,
        lane: &Lane<'k>,
        term: Value<'k>,
    ) -> Vec<Value<'k>> {
        let (all, columns) = (narrow(self.problem.n), tile.n / LINES);
        let there = |column: Value<'k>, of: u32| {
            let column = own.first_column + column;
            if all.is_multiple_of(tile.n) { column } else { column.min(rhs.k.u32(all - of)) }
        };
        if rhs.side.along == Along::Contract {
            let row = |i: u32| rhs.row(there(lane.line + i * LINES, 1));
            return (0..columns).map(|i| rhs.stored_four(rhs.term(row(i), term))).collect();
        }
        let row = rhs.row(there(lane.line * columns, columns));
        let by_term = [0, 1, 2, 3].map(|i| {
            let index = rhs.term(row, term + i);
            if columns == 2 { rhs.two(index) } else { rhs.four(index) }
        });
        (0..columns).map(|i| rhs.k.vector(&by_term.map(|vector| vector.component(i)))).collect()
    }
}
