//! The locals of a routine's function.

use super::lines::number;
use crate::cpu::machine::ir::Lines;
use crate::cpu::machine::routine::{REDUCTIONS, Routine};
use wasm_encoder::ValType;

/// Values of the lines that combine two results of a reduction, at most.
const COMBINING: u32 = 16;

/// Numbers of locals.
pub(super) struct Locals {
    /// The parameter.
    pub frame: u32,
    /// Rows that are left, and columns of a row.
    pub rows: u32,
    pub columns: u32,
    /// The current column, and columns up to which some are taken at a time.
    pub column: u32,
    pub end: u32,
    pub end_of_fourths: u32,
    pub end_of_vectors: u32,
    pub address: u32,
    /// The address of each operand's row, and the bytes to the next.
    pub operands: Vec<(u32, u32)>,
    /// Vectors from here on.
    vectors: u32,
    pub result: u32,
    pub other: u32,
    pub scratch: [u32; 2],
    /// For each reduction, what four elements give.
    pub halves: [[u32; 2]; REDUCTIONS],
    pub invariants: Vec<u32>,
    /// Values of lines that combine two results.
    pub combining: u32,
    /// Values of the routine's lines.
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
            scratch: [take(), take()],
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
