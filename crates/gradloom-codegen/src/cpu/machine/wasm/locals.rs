//! The locals of a routine's function.

use super::lines::number;
use crate::cpu::machine::ir::Lines;
use crate::cpu::machine::routine::{REDUCTIONS, Routine};
use wasm_encoder::ValType;

/// Maximum number of values of the IR instructions that combine two results of a reduction.
const COMBINING: u32 = 16;

/// Indices of the locals.
pub(super) struct Locals {
    /// The parameter, which is the address of the frame.
    pub frame: u32,
    /// Number of remaining rows.
    pub rows: u32,
    /// Number of columns of a row.
    pub columns: u32,
    /// Index of the current column.
    pub column: u32,
    /// End of the current loop over columns.
    pub end: u32,
    /// Number of columns, rounded down to a multiple of 64.
    pub end_of_fourths: u32,
    /// Number of columns, rounded down to a multiple of 16.
    pub end_of_vectors: u32,
    /// Address of the results that the current columns are combined with.
    pub address: u32,
    /// Address of each operand's row, and number of bytes to the next row.
    pub operands: Vec<(u32, u32)>,
    /// First local that contains a vector.
    vectors: u32,
    pub result: u32,
    pub other: u32,
    pub scratch: u32,
    /// For each reduction, the combinations of the first two and of the last two of four elements.
    pub halves: [[u32; 2]; REDUCTIONS],
    pub invariants: Vec<u32>,
    /// First local for the values of the instructions that combine two results.
    pub combining: u32,
    /// First local for the values of the routine's instructions.
    pub values: u32,
    end_of_locals: u32,
}

impl Locals {
    pub(super) fn new(routine: &Routine) -> Self {
        let mut next = 0;
        let mut take = || {
            next += 1;
            next - 1
        };
        let mut locals = Self {
            frame: take(),
            rows: take(),
            columns: take(),
            column: take(),
            end: take(),
            end_of_fourths: take(),
            end_of_vectors: take(),
            address: take(),
            operands: routine.operands.iter().map(|_| (take(), take())).collect(),
            vectors: take(),
            result: 0,
            other: take(),
            scratch: take(),
            halves: [[0; 2]; REDUCTIONS].map(|halves| halves.map(|_| take())),
            invariants: routine.lines.invariants.iter().map(|_| take()).collect(),
            combining: take(),
            values: 0,
            end_of_locals: 0,
        };
        locals.result = locals.vectors;
        locals.values = locals.combining + COMBINING;
        let values = |lines: &Lines| number(lines.values);
        let picks = routine.picks.iter().map(|pick| values(&pick.lines));
        locals.end_of_locals = locals.values + picks.fold(values(&routine.lines), u32::max);
        locals
    }

    /// Returns the number of locals of each type, without the parameter.
    pub(super) fn types(&self) -> [(u32, ValType); 2] {
        [(self.vectors - 1, ValType::I32), (self.end_of_locals - self.vectors, ValType::V128)]
    }
}
