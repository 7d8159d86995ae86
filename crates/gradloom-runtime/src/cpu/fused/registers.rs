//! Which values share a register.
//!
//! In: the passes, in the order in which they run, and slots without a place. Out: registers for those slots, as few as their lifetimes
//! allow.
//! Always holds: two values that live at once have different registers; a result takes an operand's register only where it has elements
//! of the same size, so that each element is read before its bytes are written.

use super::program::{Instruction, NONE, Pass, Place, Slot, SlotInfo};
use std::collections::HashMap;

/// Assigns registers to pending slots; returns how many there are.
pub(super) fn assign(slots: &mut [SlotInfo], passes: &[Pass]) -> usize {
    let code: Vec<&Instruction> = passes.iter().flat_map(|pass| &pass.tile).collect();
    let mut last_use: HashMap<Slot, usize> = HashMap::new();
    for (at, instruction) in code.iter().enumerate() {
        for slot in operands(instruction).into_iter().chain(target(instruction)) {
            last_use.insert(slot, at);
        }
    }
    let mut free: Vec<usize> = Vec::new();
    let mut registers = 0;
    for (at, instruction) in code.iter().enumerate() {
        let mut dying: Vec<Slot> = operands(instruction);
        dying.sort_unstable();
        dying.dedup();
        dying.retain(|slot| last_use[slot] == at);
        let register = |slots: &[SlotInfo], slot: Slot| match slots[slot as usize].place {
            Place::Register(register) => Some(register),
            _ => None,
        };
        let target = target(instruction).filter(|&slot| matches!(slots[slot as usize].place, Place::Pending));
        let bytes = target.map_or(0, |target| slots[target as usize].bytes);
        // Registers that the result may take.
        let (reusable, others): (Vec<Slot>, Vec<Slot>) =
            dying.into_iter().partition(|&slot| slots[slot as usize].bytes == bytes);
        free.extend(reusable.iter().filter_map(|&slot| register(slots, slot)));
        if let Some(target) = target {
            let register = free.pop().unwrap_or_else(|| {
                registers += 1;
                registers - 1
            });
            slots[target as usize].place = Place::Register(register);
            if last_use[&target] == at {
                free.push(register);
            }
        }
        free.extend(others.iter().filter_map(|&slot| register(slots, slot)));
    }
    registers
}

/// The slots that an instruction reads.
fn operands(instruction: &Instruction) -> Vec<Slot> {
    match instruction {
        Instruction::Map { operands, .. } => operands.iter().copied().filter(|&slot| slot != NONE).collect(),
        Instruction::Number { .. } | Instruction::Gather(_) => Vec::new(),
        Instruction::Spread { operand, .. }
        | Instruction::Reduce { operand, .. }
        | Instruction::Columns { operand, .. } => vec![*operand],
        Instruction::Check(check) => vec![check.operand],
        Instruction::Scatter(scatter) => vec![scatter.operand],
    }
}

/// The slot that an instruction writes.
fn target(instruction: &Instruction) -> Option<Slot> {
    match instruction {
        Instruction::Map { target, .. }
        | Instruction::Spread { target, .. }
        | Instruction::Number { target } => Some(*target),
        Instruction::Gather(gather) => Some(gather.target),
        Instruction::Reduce { .. }
        | Instruction::Columns { .. }
        | Instruction::Check(_)
        | Instruction::Scatter(_) => None,
    }
}
