//! Products of a few rows and a large matrix by matrix instructions, as in batched text generation.
//! Performance depends on loading the matrix once, with many loads in flight. So operands are loaded directly
//! into registers, and the subgroups of a workgroup split the terms of a few columns.
//!
//! A lane loads four terms of each of its rows, and of each of its two or four columns, which are adjacent if
//! the right operand's columns are contiguous. Of 32 rows, it processes 16 at a time. The sums of the
//! subgroups are added in shared memory, in order.

use super::grid::{Grid, Tile};
use super::operand::TiledOperand;
use super::{At, Product, inside};
use crate::narrow::narrow;
use crate::product::Along;
use crate::simt::{Builder, FragmentPlace, Kernel, MatrixUse, Value};
use gradloom_core::ir::DType;
use gradloom_core::kernel::CooperativeTile;

/// Number of lanes of a subgroup.
const SUBGROUP: u32 = 32;
/// Candidate numbers of steps of 16 terms that a lane loads before it multiplies them. The first candidate
/// that divides the number of steps and fits in [`REGISTERS`] is used.
const AHEAD: [u32; 5] = [6, 4, 3, 2, 1];
/// Number of groups of lanes in a subgroup. Each group has different rows and columns.
const LINES: u32 = 8;
/// Number of rows, of every 16, that a lane loads.
const ROWS: u32 = 2;
/// Maximum number of registers of a lane for loads in flight.
const REGISTERS: u32 = 80;

/// Position of a lane in its workgroup's tile.
struct LanePlace<'k> {
    /// Tile of the workgroup.
    own: Tile<'k>,
    /// Number of rows of the tile.
    rows: u32,
    /// Number of columns of the lane.
    columns: u32,
    /// Index of the lane's first row, which is also the index of its group of columns.
    line: Value<'k>,
    /// Index of the lane's first term.
    term: Value<'k>,
}

impl Product<'_> {
    pub(super) fn streamed(&self, tile: &CooperativeTile) -> Kernel {
        let grid = Grid::new(self, [tile.m, tile.n]);
        let (subgroups, threads) = (tile.subgroups(), tile.subgroups() * SUBGROUP);
        let k = Builder::new(&self.label(""), threads, grid.count());
        k.uses_subgroups(SUBGROUP);
        let own = grid.tile(&k, self.problem);
        let operands = TiledOperand::both(&k, self, &own);
        let (number, subgroup) = (k.local() % SUBGROUP, k.local() / SUBGROUP);
        let columns = tile.n / LINES;
        let lane = LanePlace { own, rows: tile.m, columns, line: number / 4, term: number % 4 * 4 };
        let half = self.schedule.operands;
        // Use one matrix of sums per 16 rows and two columns of a lane.
        let zeros = |_| -> Vec<_> { (0..columns / 2).map(|_| k.var(k.matrix_zero())).collect() };
        let sums: Vec<Vec<_>> = (0..tile.m / 16).map(zeros).collect();
        let each = narrow(self.problem.k) / tile.k;
        let registers = |ahead: u32| 2 * ahead * (columns + ROWS);
        let fits = |ahead: &u32| each.is_multiple_of(*ahead) && registers(*ahead) <= REGISTERS;
        let ahead = AHEAD.into_iter().find(fits).unwrap_or(1);
        // Peel the first iteration if the matrix is available early, so that its terms are loaded before
        // those of the rows.
        k.count_apart(self.views.reads[1].is_early, [0, each, ahead].map(|n| k.u32(n)), |turn| {
            // Make the terms of two steps adjacent, so that loads form runs of 64 bytes.
            let together = if ahead.is_multiple_of(2) { 2 } else { 1 };
            let first = (subgroup * each + turn) * 16 + lane.term * together;
            let term = |step: u32| first + (step / together * 16 * together + step % together * 4);
            let rights: Vec<_> =
                (0..ahead).map(|step| self.rights(&operands[1], &lane, term(step))).collect();
            let lefts = |rows: u32| -> Vec<_> {
                let steps = (0..ahead).step_by(together as usize);
                steps
                    .flat_map(|step| self.lefts(&operands[0], &lane, (rows * 16, term(step)), together))
                    .collect()
            };
            // Load the next rows before the current ones are multiplied.
            let mut next = Some(lefts(0));
            let rights: Vec<Vec<_>> =
                rights.into_iter().map(|columns| right_matrices(&columns, half)).collect();
            for (rows, sums) in (1..).zip(&sums) {
                let loaded = next.take().expect("they were loaded");
                next = (rows < tile.m / 16).then(|| lefts(rows));
                for ([upper, lower], rights) in loaded.into_iter().zip(&rights) {
                    let left = upper.to_half(half).matrix_of(lower.to_half(half), MatrixUse::Left);
                    for (&right, sum) in rights.iter().zip(sums) {
                        sum.set(left.matrix_mul_add(right, sum.get()));
                    }
                }
            }
        });

        let pitch = tile.streamed_pitch();
        let waiting = k.shared(DType::F32, subgroups * tile.m * pitch);
        for (strip, sums) in (0..).zip(&sums) {
            let halves = sums.iter().flat_map(|sum| [0, 1].map(|half| sum.get().matrix_half(half)));
            for (column, half) in (0..columns).zip(halves) {
                for element in 0..4 {
                    // Position of the element in lane 0. In another lane, it is offset by the lane's row and
                    // term.
                    let [row, first] = FragmentPlace::of(0, 0, element as usize).map(narrow);
                    let within = lane.term / 2 + first;
                    let at = match operands[1].side.along {
                        Along::Free => within * columns + column,
                        Along::Contract => within + column * LINES,
                    };
                    let row = subgroup * tile.m + lane.line + (strip * 16 + row);
                    k.set_element(waiting, row * pitch + at, half.component(element));
                }
            }
        }
        k.barrier();
        k.count(k.local(), k.u32(tile.m * tile.n), k.u32(threads), |place| {
            let (row, column) = (place / tile.n, place % tile.n);
            let [at_row, at_column] = [own.first_row + row, own.first_column + column];
            let at = At { own, row: at_row, column: at_column };
            let is_inside =
                [inside(tile.m, self.problem.m, at_row), inside(tile.n, self.problem.n, at_column)];
            k.guard(is_inside, || {
                let part = |subgroup: u32| k.element(waiting, (row + subgroup * tile.m) * pitch + column);
                self.put(&k, at, (1..subgroups).fold(part(0), |sum, subgroup| sum + part(subgroup)));
            });
        });
        k.finish()
    }

    /// Loads four adjacent terms of each of the lane's two rows, as stored, for each of one or two steps,
    /// from `term` on. Rows that do not exist repeat the last, and are not stored.
    fn lefts<'k>(
        &self,
        lhs: &TiledOperand<'k>,
        lane: &LanePlace<'k>,
        (first_row, term): (u32, Value<'k>),
        steps: u32,
    ) -> Vec<[Value<'k>; 2]> {
        let rows = narrow(self.problem.m);
        let fours = |first: u32| -> Vec<_> {
            let row = lane.own.first_row + lane.line + (first_row + first);
            let row = if rows.is_multiple_of(lane.rows) { row } else { row.min(lhs.k.u32(rows - 1)) };
            let at = lhs.term(lhs.row(row), term);
            match steps {
                2 if self.has_eights() => lhs.stored_eight(at).to_vec(),
                _ => (0..steps).map(|step| lhs.stored_four(at + step * 4)).collect(),
            }
        };
        let upper = fours(0);
        let lower = if rows <= LINES { upper.clone() } else { fours(LINES) };
        upper.into_iter().zip(lower).map(|(upper, lower)| [upper, lower]).collect()
    }

    /// Returns `true` if eight adjacent terms of a row can be loaded as a vector, which makes steps of GPT-2
    /// 5% faster.
    fn has_eights(&self) -> bool {
        let left = self.problem.lhs;
        let strides = self.problem.batch.iter().map(|axis| axis.lhs_stride);
        let mut all = [left.offset, left.free_stride].into_iter().chain(strides);
        self.views.reads[0].dtype.is_for_memory() && all.all(|number| number.is_multiple_of(8))
    }

    /// Loads four terms, from `term` on, of each of the lane's columns.
    fn rights<'k>(&self, rhs: &TiledOperand<'k>, lane: &LanePlace<'k>, term: Value<'k>) -> Vec<Value<'k>> {
        let (all, columns) = (narrow(self.problem.n), lane.columns);
        let there = |column: Value<'k>, of: u32| {
            let column = lane.own.first_column + column;
            let is_whole = all.is_multiple_of(columns * LINES);
            if is_whole { column } else { column.min(rhs.k.u32(all - of)) }
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

/// Returns right operands of two columns each, given four adjacent terms of each column.
fn right_matrices<'k>(columns: &[Value<'k>], half: DType) -> Vec<Value<'k>> {
    let columns: Vec<_> = columns.iter().map(|four| four.to_half(half)).collect();
    let pairs = columns.chunks_exact(2);
    pairs.map(|pair| pair[0].matrix_of(pair[1], MatrixUse::Right)).collect()
}
