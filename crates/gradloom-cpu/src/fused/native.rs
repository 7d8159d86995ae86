//! The machine code of a program.
//!
//! In: segments of a program's instructions. Out: compiled code in the place of each, or, where the system
//! allows none, its instructions. What a segment computes for instructions outside of it goes through the
//! program's registers in memory, as with interpreted instructions, so the two can be mixed. Invariant:
//! results are those of the interpreted program.

use super::execute::{Task, Tile};
pub(super) use super::segment::Segment;
use gradloom_codegen::cpu::loops::{self, Instruction, Positions, SlotPlace, Step};

/// A program's lists as steps.
pub(super) struct Native {
    pub(super) steps: loops::Native<Segment>,
    /// Bytes of the largest frame.
    pub(super) frame_bytes: usize,
    /// True if tiles can have any size: nothing goes through registers of a tile's size, and no row is
    /// reduced tile by tile.
    pub(super) any_size: bool,
    /// True if columns are reduced; a single column is reduced in a different order.
    pub(super) reduces_columns: bool,
}

impl Native {
    /// Loads a program's machine code, or returns `None` if the system does not allow it.
    pub(super) fn load(program: &loops::Program, native: &loops::Native) -> Option<Self> {
        let steps = native.map(Segment::load)?;
        let frame_bytes = steps.segments().map(Segment::frame_bytes).max()?;
        let any_size = can_have_any_size(&steps, program);
        Some(Self { steps, frame_bytes, any_size, reduces_columns: !program.column_results.is_empty() })
    }
}

fn can_have_any_size(steps: &loops::Native<Segment>, program: &loops::Program) -> bool {
    let compiled = |step: &Step<Segment>| match step {
        Step::Compiled(segment) => segment.slots().all(|slot| {
            !matches!(program.slots[slot as usize].place, SlotPlace::Register(_) | SlotPlace::Kept(_))
        }),
        Step::Interpreted(_) => false,
    };
    let reduces = |instruction: &Instruction| {
        matches!(instruction, Instruction::Reduce { .. } | Instruction::Picked { .. })
    };
    program.row_registers == 0
        && program.passes.len() == 1
        && steps.passes.iter().all(|pass| pass.tile.iter().all(compiled))
        && !program.passes.iter().any(|pass| pass.tile.iter().any(reduces))
}

impl Task<'_> {
    /// Runs a list on a tile: its steps, if there are any, else its instructions.
    ///
    /// # Safety
    /// As [`Program::run_block`].
    #[inline]
    pub(super) unsafe fn run_list(
        &self,
        instructions: &[Instruction],
        steps: Option<&[Step<Segment>]>,
        positions: Positions,
        tile: &Tile,
    ) {
        let interpret = |instruction: &Instruction| {
            // SAFETY: the caller's promise.
            unsafe {
                match positions {
                    Positions::Tile => self.run_on_tile(instruction, tile),
                    Positions::Rows => self.run_on_rows(instruction, tile),
                }
            }
        };
        let Some(steps) = steps else { return instructions.iter().for_each(interpret) };
        for step in steps {
            match step {
                // SAFETY: the caller's promise; there are steps on machines that have the level.
                Step::Compiled(segment) => unsafe { segment.run(self, tile) },
                Step::Interpreted(number) => interpret(&instructions[*number]),
            }
        }
    }
}

#[cfg(test)]
impl Native {
    /// Returns the numbers of the instructions of each pass's tiles that stay interpreted.
    pub(super) fn interpreted(&self) -> Vec<Vec<usize>> {
        let number = |step: &Step<Segment>| match step {
            Step::Interpreted(number) => Some(*number),
            Step::Compiled(_) => None,
        };
        self.steps.passes.iter().map(|pass| pass.tile.iter().filter_map(number).collect()).collect()
    }
}
