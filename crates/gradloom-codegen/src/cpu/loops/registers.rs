//! Assigns registers to values.
//!
//! In: the passes in execution order, and slots that are pending. Out: registers for these slots, as few as
//! their lifetimes allow. Invariant: two values with overlapping lifetimes have different registers, and so
//! do a result and its operands.

use super::program::{Instruction, Pass, Slot, SlotInfo, SlotPlace};
use std::collections::HashMap;

/// Assigns registers to pending slots, and returns the number of registers.
pub(super) fn assign(slots: &mut [SlotInfo], passes: &[Pass]) -> usize {
    let code: Vec<&Instruction> = passes.iter().flat_map(|pass| &pass.tile).collect();
    let mut last_use: HashMap<Slot, usize> = HashMap::new();
    for (at, instruction) in code.iter().enumerate() {
        for slot in instruction.operands().into_iter().chain(instruction.target()) {
            last_use.insert(slot, at);
        }
    }
    let mut free: Vec<usize> = Vec::new();
    let mut registers = 0;
    for (at, instruction) in code.iter().enumerate() {
        let target = instruction.target();
        // Assigns the target before freeing the operands' registers, because a result in the register of an
        // operand would require a copy of the operand.
        if let Some(slot) = target
            && matches!(slots[slot as usize].place, SlotPlace::Pending)
        {
            let register = free.pop().unwrap_or_else(|| {
                registers += 1;
                registers - 1
            });
            slots[slot as usize].place = SlotPlace::Register(register);
        }
        let mut dying = instruction.operands();
        dying.extend(target);
        dying.retain(|slot| last_use[slot] == at);
        dying.sort_unstable();
        dying.dedup();
        free.extend(dying.iter().filter_map(|&slot| match slots[slot as usize].place {
            SlotPlace::Register(register) => Some(register),
            _ => None,
        }));
    }
    registers
}
