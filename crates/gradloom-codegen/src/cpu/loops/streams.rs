//! The memory that a tile's instructions walk along.

use super::program::{Slot, SlotInfo, SlotPlace, slot_number};
use gradloom_core::kernel::Aliases;
use std::collections::HashSet;

/// Returns the slots whose bytes are worth fetching: each operand and result with an element for each
/// position once.
pub(super) fn streams(slots: &[SlotInfo], aliases: &Aliases, rows: usize) -> Vec<Slot> {
    let mut seen = HashSet::new();
    let wanted = |slot: &Slot| {
        let stream = match slots[*slot as usize].place {
            SlotPlace::Read(read, grid) if !grid.repeated && (grid.row_stride > 0 || rows == 1) => {
                (false, read)
            }
            // A result in an operand's place is there with the operand.
            SlotPlace::Write(write, grid) if !grid.repeated && aliases.reads_of(write).is_empty() => {
                (true, write)
            }
            _ => return false,
        };
        seen.insert(stream)
    };
    (0..slot_number(slots.len())).filter(wanted).collect()
}
