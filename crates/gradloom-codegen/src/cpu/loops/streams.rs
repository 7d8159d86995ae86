//! The memory that the instructions of a tile traverse.

use super::program::{Slot, SlotInfo, SlotPlace, slot_number};
use gradloom_core::kernel::Aliases;
use std::collections::HashSet;

/// Returns the slots that are worth prefetching: one for each operand and result with an element for each
/// position.
pub(super) fn streams(slots: &[SlotInfo], aliases: &Aliases, rows: usize) -> Vec<Slot> {
    let mut seen = HashSet::new();
    let wanted = |slot: &Slot| {
        let stream = match slots[*slot as usize].place {
            SlotPlace::Read(read, grid) if !grid.repeated && (grid.row_stride > 0 || rows == 1) => {
                (false, read)
            }
            // Skips results that may overwrite an operand, because they are prefetched with the operand.
            SlotPlace::Write(write, grid) if !grid.repeated && aliases.reads_of(write).is_empty() => {
                (true, write)
            }
            _ => return false,
        };
        seen.insert(stream)
    };
    (0..slot_number(slots.len())).filter(wanted).collect()
}
