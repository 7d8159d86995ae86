//! Matrix products by matrix instructions: 16-bit or TF32 operands, f32 sums.
//!
//! Tiles are staged in shared memory as vectors of four floats (NVIDIA's compiler does not load matrices from
//! arrays of integers). Matrices are loaded from them by rows or by columns, so operands of any layout are
//! read without transposition. Results also pass through shared memory, 16 x 16 at a time, because the
//! assignment of matrix elements to invocations is unspecified.

use super::grid::Grid;
use super::operand::TiledOperand;
use super::staged::{Shape, Staged, TileThreads, pipeline};
use super::{At, Product, inside};
use crate::product::Along;
use crate::simt::{Builder, Kernel, MatrixUse, Value};
use gradloom_core::ir::DType;
use gradloom_core::kernel::CooperativeTile;

/// Number of elements of shared memory for a subgroup's matrix of results.
const RESULTS: u32 = 16 * CooperativeTile::RESULT_PITCH;

/// Maximum number of results of an invocation that are computed before the first of them is stored: compilers
/// do not move an epilogue's loads before a store that may alias them.
const AT_ONCE: u32 = 4;

/// Operand of the product, and the start of the subgroup's part of its tile.
struct Half<'k> {
    which: MatrixUse,
    along: Along,
    tile: Staged<'k>,
    first: Value<'k>,
}

impl<'k> Half<'k> {
    /// Loads the subgroup's `i`-th 16 x 16 matrix, of the terms from `16 * step` on.
    fn matrix(&self, k: &'k Builder, buffer: Value<'k>, i: u32, step: u32) -> Value<'k> {
        let (free, pitch) = (self.first + 16 * i, self.tile.pitch());
        let at = match self.along {
            Along::Contract => free * pitch + 4 * step,
            Along::Free => free / 4 + 16 * step * pitch,
        };
        // Terms are the columns of a left matrix and the rows of a right one.
        let by_rows = (self.along == Along::Contract) == (self.which == MatrixUse::Left);
        k.matrix(self.which, self.tile.array, buffer + at, (pitch, by_rows))
    }
}

impl Product<'_> {
    /// Returns the kernel of the product, or of its split-K partial sums.
    pub(super) fn cooperative(&self, tile: &CooperativeTile) -> Kernel {
        let size = self.schedule.subgroup;
        let grid = Grid::new(self, [tile.m, tile.n]);
        let threads = tile.subgroups() * size;
        let k = Builder::new(&self.label(": parts"), threads, grid.count());
        k.uses_subgroups(size);
        let own = grid.tile(&k, self.problem);
        let [lhs, rhs] = TiledOperand::both(&k, self, &own);
        let shape = |extent| Shape {
            extent,
            depth: tile.k,
            matrix: Some(self.schedule.operands),
            strip: 1,
            threads,
            buffers: tile.buffers,
        };
        let subgroup = k.local() / size;
        let across = tile.n / tile.subgroup_n;
        let left = Half {
            which: MatrixUse::Left,
            along: lhs.side.along,
            tile: Staged::new(lhs, shape(tile.m), TileThreads::whole(&k)),
            first: (subgroup / across) * tile.subgroup_m,
        };
        let right = Half {
            which: MatrixUse::Right,
            along: rhs.side.along,
            tile: Staged::new(rhs, shape(tile.n), TileThreads::whole(&k)),
            first: (subgroup % across) * tile.subgroup_n,
        };
        let (rows, columns) = (tile.subgroup_m / 16, tile.subgroup_n / 16);
        let zero = || k.var(k.matrix_zero());
        let sums: Vec<Vec<_>> = (0..rows).map(|_| (0..columns).map(|_| zero()).collect()).collect();
        if self.problem.k > 0 {
            pipeline(&k, [&left.tile, &right.tile], self.terms(&k, own.part), |[from_left, from_right]| {
                for step in 0..tile.k / 16 {
                    let lefts: Vec<_> =
                        (0..rows).map(|i| self.split(left.matrix(&k, from_left, i, step))).collect();
                    for j in 0..columns {
                        let right = self.split(right.matrix(&k, from_right, j, step));
                        for (left, sums) in lefts.iter().zip(&sums) {
                            let sum = sums[j as usize];
                            sum.set(matrix_product(*left, right, sum.get()));
                        }
                    }
                }
            });
        }
        let array = k.shared(DType::F32, tile.subgroups() * RESULTS);
        let start = subgroup * RESULTS;
        for (i, sums) in (0..).zip(&sums) {
            for (j, sum) in (0..).zip(sums) {
                k.store_matrix(array, start, CooperativeTile::RESULT_PITCH, sum.get());
                let row = own.first_row + left.first + 16 * i;
                let column = own.first_column + right.first + 16 * j;
                let at = At { own, row, column };
                self.matrix_results(&k, tile, (array, start), at);
            }
        }
        k.finish()
    }

    /// Returns an operand and, if the schedule splits operands, the residual of its rounding.
    fn split<'k>(&self, matrix: Value<'k>) -> (Value<'k>, Option<Value<'k>>) {
        (matrix, self.schedule.splits.then(|| matrix.matrix_residual()))
    }

    /// Finishes or stores the 16 x 16 results of each subgroup, which are in an array from `start` on.
    fn matrix_results<'k>(
        &self,
        k: &'k Builder,
        tile: &CooperativeTile,
        (array, start): (u32, Value<'k>),
        first: At<'k>,
    ) {
        let (lanes, size, problem) = (self.lanes(), self.schedule.subgroup, self.problem);
        let value = |place: Value<'k>| {
            let from = start + (place / 16) * CooperativeTile::RESULT_PITCH + place % 16;
            let at = |lane: u32| k.element(array, from + lane);
            if lanes == 4 { k.vector_of(&at) } else { at(0) }
        };
        let at =
            |place: Value<'k>| At { row: first.row + place / 16, column: first.column + place % 16, ..first };
        k.barrier();
        let place = (k.local() % size) * lanes;
        let step = size * lanes;
        let together = step * (256 / step).min(AT_ONCE);
        let is_whole = problem.m.is_multiple_of(tile.m as usize) && problem.n.is_multiple_of(tile.n as usize);
        if is_whole && 256 % together == 0 {
            k.count(place, k.u32(256), k.u32(together), |place| {
                let places = (0..together / step).map(|turn| place + turn * step);
                self.put_all(k, &places.map(|place| (at(place), value(place))).collect::<Vec<_>>());
            });
        } else {
            k.count(place, k.u32(256), k.u32(step), |place| {
                let at = at(place);
                let conditions = [inside(tile.m, problem.m, at.row), inside(tile.n, problem.n, at.column)];
                k.guard(conditions, || self.put(k, at, value(place)));
            });
        }
        k.barrier();
    }
}

/// Returns the product of two operands, added to `sum`. The small products of the residuals are added first.
fn matrix_product<'k>(
    (left, left_rest): (Value<'k>, Option<Value<'k>>),
    (right, right_rest): (Value<'k>, Option<Value<'k>>),
    mut sum: Value<'k>,
) -> Value<'k> {
    if let (Some(left_rest), Some(right_rest)) = (left_rest, right_rest) {
        sum = left_rest.matrix_mul_add(right, sum);
        sum = left.matrix_mul_add(right_rest, sum);
    }
    left.matrix_mul_add(right, sum)
}
