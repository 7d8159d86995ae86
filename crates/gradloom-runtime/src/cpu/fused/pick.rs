//! One element of each row, selected by an index, as a loss selects the logit of its target: `select(column
//! == index, chosen, others)`.
//!
//! In: indices of level Row, and slots with 4-byte elements. Out: a slot with one other element in each row,
//! or those elements alone. Always holds: the results have the bits that comparing and selecting at every
//! position would give; an index that no column has picks nothing.

use super::compile::Compiler;
use super::execute::{Task, Tile};
use super::program::{Instruction, Slot};
use gradloom_core::ir::{CompareOp, DType, Number, ReduceOp};
use gradloom_core::kernel::{Level, NodeId, NodeKind};

impl Compiler<'_> {
    /// Index, chosen and other elements of a selection, if its condition is that the column is the row's
    /// index.
    pub(super) fn pick(&self, [condition, chosen, others]: [NodeId; 3]) -> Option<[NodeId; 3]> {
        let index = self.picking_index(condition)?;
        (self.node(chosen).dtype.bytes() == 4).then_some([index, chosen, others])
    }

    /// Emits a reduction into a row-level slot, if it is a sum of picked elements and zeros.
    pub(super) fn picked(
        &mut self,
        op: ReduceOp,
        of: NodeId,
        target: Slot,
        code: &mut Vec<Instruction>,
    ) -> bool {
        let node = self.node(of);
        let NodeKind::Select([condition, chosen, others]) = node.kind else { return false };
        // Only +0: adding it to a sum that starts at +0 changes no bits.
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

    /// The index that a condition compares columns with.
    fn picking_index(&self, condition: NodeId) -> Option<NodeId> {
        let NodeKind::Compare(CompareOp::Eq, [a, b]) = self.node(condition).kind else { return None };
        let is_column = |id: NodeId| matches!(self.node(id).kind, NodeKind::Column);
        let index = if is_column(a) { b } else { a };
        let of_row = self.node(index).level < Level::Element;
        (of_row && (is_column(a) || is_column(b))).then_some(index)
    }
}

impl Task<'_> {
    /// The column within the tile that a row's index names.
    ///
    /// # Safety
    /// The row is one of the tile's, and the slot has an i32 for it.
    #[inline(always)]
    unsafe fn picked_column(&self, index: Slot, row: usize, tile: &Tile) -> Option<usize> {
        let indices = self.on_tile(index, tile);
        // SAFETY: the caller's promise.
        let index = unsafe { *indices.start.add(row * indices.row_stride).cast::<i32>() };
        // Negative numbers are large ones.
        let column = (index.cast_unsigned() as usize).wrapping_sub(tile.column);
        (column < tile.columns).then_some(column)
    }

    /// # Safety
    /// As `run_on_tile`.
    pub(super) unsafe fn pick(&self, index: Slot, chosen: Slot, others: Slot, target: Slot, tile: &Tile) {
        let [chosen, others, target] = [chosen, others, target].map(|slot| self.on_tile(slot, tile));
        for row in 0..tile.rows {
            // SAFETY: the slots have the row's elements. The chosen one is read before results may take its
            // place.
            unsafe {
                let column = self.picked_column(index, row, tile);
                let element = column.map(|column| chosen.element(row, column));
                let to = target.start.add(row * target.row_stride).cast_mut().cast::<u32>();
                let from = others.start.add(row * others.row_stride).cast::<u32>();
                if others.repeated {
                    std::slice::from_raw_parts_mut(to, tile.columns).fill(*from);
                } else if from != to.cast_const() {
                    std::ptr::copy_nonoverlapping(from, to, tile.columns);
                }
                if let (Some(column), Some(element)) = (column, element) {
                    *to.add(column) = element;
                }
            }
        }
    }

    /// # Safety
    /// As `run_on_tile`.
    pub(super) unsafe fn add_picked(&self, index: Slot, operand: Slot, target: Slot, tile: &Tile) {
        let operand = self.on_tile(operand, tile);
        let sums = self.memory.addresses[target as usize].base.cast::<f32>();
        for row in 0..tile.rows {
            // SAFETY: the slots have the row's elements, and a sum for it.
            unsafe {
                if let Some(column) = self.picked_column(index, row, tile) {
                    *sums.add(row) += f32::from_bits(operand.element(row, column));
                }
            }
        }
    }
}
