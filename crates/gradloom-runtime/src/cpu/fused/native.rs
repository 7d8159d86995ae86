//! Which instructions of a program run as machine code.
//!
//! In: a finished program. Out: for each of its lists, steps in the order of the instructions: compiled segments of neighbouring
//! instructions, and those that stay interpreted. What a segment computes for instructions outside of it goes through the program's
//! registers in memory, as with interpreted instructions, so the two can be mixed.
//! Always holds: results are those of the interpreted program.

use super::execute::{Task, Tile};
use super::program::{Instruction, Place, Program};
use super::segment::{Segment, Uses, segments};
use crate::cpu::Level;

/// A program's lists as steps.
pub(super) struct Native {
    pub(super) uniform: Vec<Step>,
    pub(super) rows: Vec<Step>,
    pub(super) passes: Vec<PassSteps>,
    pub(super) row_stores: Vec<Step>,
    /// Bytes of the largest frame.
    pub(super) frame_bytes: usize,
    /// Whether tiles can have any size: nothing goes through registers of a tile's size, and no row is reduced tile by tile.
    pub(super) any_size: bool,
    /// Whether columns are reduced, which has another order where there is only one.
    pub(super) reduces_columns: bool,
}

/// The lists of a pass.
pub(super) struct PassSteps {
    pub(super) tile: Vec<Step>,
    pub(super) rows: Vec<Step>,
}

/// What runs next.
pub(super) enum Step {
    Compiled(Segment),
    /// The instruction with this number.
    Interpreted(usize),
}

/// What the positions of a list are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Positions {
    /// Those of a tile.
    Tile,
    /// The rows of a tile, or one in all.
    Rows,
}

impl Native {
    /// Compiles what can be compiled; none if that is nothing.
    pub(super) fn new(program: &Program, level: Level) -> Option<Self> {
        if level != Level::Avx512 {
            return None;
        }
        let uses = Uses::new(program);
        let on_rows = |list: &[Instruction]| segments(program, list, Positions::Rows, &uses);
        let passes = program.passes.iter().map(|pass| PassSteps {
            tile: segments(program, &pass.tile, Positions::Tile, &uses),
            rows: on_rows(&pass.rows),
        });
        let mut native = Self {
            uniform: on_rows(&program.uniform),
            rows: on_rows(&program.rows),
            passes: passes.collect(),
            row_stores: on_rows(&program.row_stores),
            frame_bytes: 0,
            any_size: false,
            reduces_columns: !program.column_results.is_empty(),
        };
        native.frame_bytes = native.segments().map(Segment::frame_bytes).max()?;
        native.any_size = native.can_have_any_size(program);
        Some(native)
    }

    /// All compiled segments.
    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        let passes = self.passes.iter().flat_map(|pass| pass.tile.iter().chain(&pass.rows));
        let steps = self.uniform.iter().chain(&self.rows).chain(passes).chain(&self.row_stores);
        steps.filter_map(|step| match step {
            Step::Compiled(segment) => Some(segment),
            Step::Interpreted(_) => None,
        })
    }

    fn can_have_any_size(&self, program: &Program) -> bool {
        let compiled = |step: &Step| match step {
            Step::Compiled(segment) => segment.slots().all(|slot| {
                !matches!(program.slots[slot as usize].place, Place::Register(_) | Place::Kept(_))
            }),
            Step::Interpreted(_) => false,
        };
        let reduces = |instruction: &Instruction| {
            matches!(instruction, Instruction::Reduce { .. } | Instruction::Picked { .. })
        };
        program.row_registers == 0
            && program.passes.len() == 1
            && self.passes.iter().all(|pass| pass.tile.iter().all(compiled))
            && !program.passes.iter().any(|pass| pass.tile.iter().any(reduces))
    }
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
        steps: Option<&[Step]>,
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
