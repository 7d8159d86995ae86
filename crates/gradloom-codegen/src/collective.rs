//! Collective ops, which a vendor library computes.

use gradloom_core::ir::{CollectiveOp, DType};
use std::fmt;

/// Collective op of contiguous operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The op.
    pub op: CollectiveOp,
    /// For each operand, the number of elements of the operand or the result, if that is smaller.
    pub elements: Vec<usize>,
    /// Type of each operand and its result: f32, f16 or bf16.
    pub dtypes: Vec<DType>,
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, count, elements) =
            (self.op.name(), self.elements.len(), self.elements.iter().sum::<usize>());
        write!(f, "{op} of {count} operands with {elements} elements")
    }
}
