//! Selection of one element of each row by an index; see [`gradloom_codegen::cpu::loops`].

use super::execute::{Task, Tile};
use gradloom_codegen::cpu::loops::Slot;

impl Task<'_> {
    /// Returns the column within the tile that a row's index selects, or `None` if the tile does not contain
    /// it.
    ///
    /// # Safety
    /// `row` must be a row of `tile`, and the slot `index` must hold an i32 for that row.
    #[inline(always)]
    unsafe fn picked_column(&self, index: Slot, row: usize, tile: &Tile) -> Option<usize> {
        let indices = self.on_tile(index, tile);
        // SAFETY: guaranteed by the caller.
        let index = unsafe { *indices.start.add(row * indices.row_stride).cast::<i32>() };
        // A negative index wraps to a large one, which is outside of every tile.
        let column = (index.cast_unsigned() as usize).wrapping_sub(tile.column);
        (column < tile.columns).then_some(column)
    }

    /// # Safety
    /// Same as [`Task::run_on_tile`].
    pub(super) unsafe fn pick(&self, index: Slot, chosen: Slot, others: Slot, target: Slot, tile: &Tile) {
        let [chosen, others, target] = [chosen, others, target].map(|slot| self.on_tile(slot, tile));
        for row in 0..tile.rows {
            // SAFETY: the slots hold the row's elements. The selected element is read before results may
            // overwrite it.
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
    /// Same as [`Task::run_on_tile`].
    pub(super) unsafe fn add_picked(&self, index: Slot, operand: Slot, target: Slot, tile: &Tile) {
        let operand = self.on_tile(operand, tile);
        let sums = self.memory.addresses[target as usize].base.cast::<f32>();
        for row in 0..tile.rows {
            // SAFETY: the slots hold the row's elements, and there is a sum for the row.
            unsafe {
                if let Some(column) = self.picked_column(index, row, tile) {
                    *sums.add(row) += f32::from_bits(operand.element(row, column));
                }
            }
        }
    }
}
