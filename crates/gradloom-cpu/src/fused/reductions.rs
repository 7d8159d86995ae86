//! Reductions of tiles: along rows to one running result per row, and across rows to one per column.
//!
//! In: an operator, an element type and an instruction set. Out: loops over a tile's elements.
//! Invariant: the order in which a row's elements are combined depends on their number alone.

use crate::InstructionSet;
use crate::elementwise::Operand;
use crate::multiversion;
use crate::reduce::combine::{Reducer, row_body, with_reducer};
use crate::simd::WIDEST;
use gradloom_core::ir::{DType, ReduceOp};

/// Combines the elements of a tile of `rows x columns` with running results.
///
/// # Safety
/// The machine must support the instruction set that the function was compiled for. `operand` must be valid
/// for reads of all elements of the tile, in the function's type, and must not be repeated. `running` must be
/// valid for reads and writes of a result for each row or for each column, depending on the function.
pub(super) type ReduceFn = unsafe fn(rows: usize, columns: usize, operand: &Operand, running: *mut u8);

/// The loops of a reduction.
#[derive(Clone, Copy)]
pub(super) struct Reduction {
    /// Loop with one running result per row.
    pub(super) rows: ReduceFn,
    /// Loop with one running result per column.
    pub(super) columns: ReduceFn,
}

impl Reduction {
    pub(super) fn new(op: ReduceOp, dtype: DType, level: InstructionSet) -> Self {
        let (rows, columns) =
            with_reducer!(op, dtype, F => (reduce_rows::<F>(level), reduce_columns::<F>(level)));
        Self { rows, columns }
    }
}

/// # Safety
/// Same as [`ReduceFn`].
#[inline(always)]
unsafe fn rows_body<F: Reducer>(rows: usize, columns: usize, operand: &Operand, running: *mut u8) {
    for row in 0..rows {
        let from = operand.start.wrapping_add(row * operand.row_stride).cast::<F::T>();
        // SAFETY: the row has `columns` elements and a running result.
        unsafe {
            let running = running.cast::<F::T>().add(row);
            *running = F::combine(*running, row_body::<F>(columns, from));
        }
    }
}

/// Number of columns combined in registers: four of the widest vectors.
const CHUNK: usize = 4 * WIDEST;

/// # Safety
/// Same as [`ReduceFn`].
#[inline(always)]
unsafe fn columns_body<F: Reducer>(rows: usize, columns: usize, operand: &Operand, running: *mut u8) {
    let running = running.cast::<F::T>();
    let row = |row: usize| operand.start.wrapping_add(row * operand.row_stride).cast::<F::T>();
    let whole = columns / CHUNK * CHUNK;
    for start in (0..whole).step_by(CHUNK) {
        // SAFETY: `start + CHUNK <= columns`.
        let to = unsafe { &mut *running.add(start).cast::<[F::T; CHUNK]>() };
        let mut sums = *to;
        // SAFETY: as above, for `r < rows`.
        let chunk = |r: usize| unsafe { &*row(r).add(start).cast::<[F::T; CHUNK]>() };
        let fours = rows / 4 * 4;
        for r in (0..fours).step_by(4) {
            let (a, b, c, d) = (chunk(r), chunk(r + 1), chunk(r + 2), chunk(r + 3));
            for ((((sum, &a), &b), &c), &d) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                // Combine one row at a time, so that the result does not depend on the number of rows of a
                // tile.
                *sum = F::combine(F::combine(F::combine(F::combine(*sum, a), b), c), d);
            }
        }
        for from in (fours..rows).map(chunk) {
            for (sum, &element) in sums.iter_mut().zip(from) {
                *sum = F::combine(*sum, element);
            }
        }
        *to = sums;
    }
    for column in whole..columns {
        // SAFETY: `column < columns`.
        let mut sum = unsafe { *running.add(column) };
        for r in 0..rows {
            // SAFETY: as above, and `r < rows`.
            sum = F::combine(sum, unsafe { *row(r).add(column) });
        }
        // SAFETY: `column < columns`.
        unsafe { *running.add(column) = sum };
    }
}

multiversion! {
    fn reduce_rows<F: Reducer>(
        rows: usize, columns: usize, operand: &Operand, running: *mut u8
    ) = rows_body, up to AVX2;
}
multiversion! {
    fn reduce_columns<F: Reducer>(
        rows: usize, columns: usize, operand: &Operand, running: *mut u8
    ) = columns_body, up to AVX2;
}
