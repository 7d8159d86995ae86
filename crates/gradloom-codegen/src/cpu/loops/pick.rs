//! Selection of one element of each row by an index, as a loss selects the logit of its target:
//! `select(column == index, chosen, others)`.
//!
//! In: indices that are the same for all columns of a row, and slots with 4-byte elements. Out: a slot in
//! which one element of each row is replaced, or only those elements. Invariant: the results have the same
//! bits as comparing and selecting at every position. An index that no column has selects nothing.

use super::compile::Compiler;
use super::program::{Instruction, Slot};
use gradloom_core::ir::{CompareOp, DType, Number, ReduceOp};
use gradloom_core::kernel::{Level, NodeId, NodeKind};

impl Compiler<'_> {
    /// Returns the index, the chosen elements and the other elements of a selection whose condition is that
    /// the column equals the row's index.
    pub(super) fn pick(&self, [condition, chosen, others]: [NodeId; 3]) -> Option<[NodeId; 3]> {
        let index = self.picking_index(condition)?;
        (self.node(chosen).dtype.bytes() == 4).then_some([index, chosen, others])
    }

    /// Emits a reduction into a row-level slot if it is a sum of picked elements and zeros. Returns `false`
    /// for other reductions.
    pub(super) fn picked(
        &mut self,
        op: ReduceOp,
        of: NodeId,
        target: Slot,
        code: &mut Vec<Instruction>,
    ) -> bool {
        let node = self.node(of);
        let NodeKind::Select([condition, chosen, others]) = node.kind else { return false };
        // Only accepts +0, because adding it to a sum that starts at +0 changes no bits.
        let zero = match self.node(others).kind {
            NodeKind::Constant(Number::Float(value)) => value.to_bits() == 0,
            _ => false,
        };
        let Some(index) = self.picking_index(condition) else { return false };
        if !zero || op != ReduceOp::Sum || node.dtype != DType::F32 {
            return false;
        }
        let (index, operand) = (self.element(index, code), self.element(chosen, code));
        code.push(Instruction::Picked { index, operand, target });
        true
    }

    /// Returns the index, the same for all columns of a row, that a condition compares the column with.
    fn picking_index(&self, condition: NodeId) -> Option<NodeId> {
        let NodeKind::Compare(CompareOp::Eq, [a, b]) = self.node(condition).kind else { return None };
        let is_column = |id: NodeId| matches!(self.node(id).kind, NodeKind::Column);
        let index = if is_column(a) { b } else { a };
        let of_row = self.node(index).level < Level::Element;
        (of_row && (is_column(a) || is_column(b))).then_some(index)
    }
}
