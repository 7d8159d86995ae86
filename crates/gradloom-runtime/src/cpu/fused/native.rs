//! Decides which instructions of a program run as machine code.
//!
//! In: a finished program. Out: for each of its lists, steps in the order of the instructions: compiled
//! segments of neighbouring instructions, and those that stay interpreted. What a segment computes for
//! instructions outside of it goes through the program's registers in memory, as with interpreted
//! instructions, so the two can be mixed. Always holds: results are those of the interpreted program.

use super::execute::{Task, Tile};
use super::program::{Instruction, Pass, Place, Program};
use super::segment::{Segment, Uses, segments};
use crate::cpu::Level;
use crate::cpu::elementwise::functions::MapOp;
use gradloom_core::ir::{BinaryOp, CostClass};

/// A program's lists as steps.
pub(super) struct Native {
    pub(super) uniform: Vec<Step>,
    pub(super) rows: Vec<Step>,
    pub(super) passes: Vec<PassSteps>,
    pub(super) row_stores: Vec<Step>,
    /// Bytes of the largest frame.
    pub(super) frame_bytes: usize,
    /// Whether tiles can have any size: nothing goes through registers of a tile's size, and no row is
    /// reduced tile by tile.
    pub(super) any_size: bool,
    /// Whether columns are reduced, which has another order where there is only one.
    pub(super) reduces_columns: bool,
}

/// The lists of a pass.
pub(super) struct PassSteps {
    pub(super) tile: Vec<Step>,
    pub(super) rows: Vec<Step>,
}

/// One step of a list.
pub(super) enum Step {
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    Compiled(Segment),
    /// The instruction with this number.
    Interpreted(usize),
}

/// The positions that a list runs over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Positions {
    /// The positions of a tile.
    Tile,
    /// The rows of a tile, or one in all.
    Rows,
}

impl Native {
    /// Compiles what can be compiled; none if that is nothing.
    pub(super) fn new(program: &Program, level: Level) -> Option<Self> {
        if !level.compiles_loops() {
            return None;
        }
        let uses = Uses::new(program);
        let on_rows = |list: &[Instruction]| segments(program, list, Positions::Rows, &uses, &[]);
        let fetched = fetched(program);
        let passes = program.passes.iter().zip(&fetched).map(|(pass, fetched)| PassSteps {
            tile: segments(program, &pass.tile, Positions::Tile, &uses, fetched),
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

/// An operand or a result of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Read(usize),
    Write(usize),
}

/// The memory that a pass fetches ahead.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) struct Fetched {
    pub(super) stream: Stream,
    /// Rows from the ones that the pass is at.
    pub(super) rows: usize,
}

/// For each pass, what it fetches: the next strip's operands, and results. Memory would idle during all
/// passes but the first to touch an operand, most of all during the longest one.
fn fetched(program: &Program) -> Vec<Vec<Fetched>> {
    let mut fetched = vec![Vec::new(); program.passes.len()];
    if program.passes.len() < 2 {
        return fetched;
    }
    let width = if program.cuts_columns { program.columns.min(program.capacity) } else { program.columns };
    let rows = match program.kept {
        0 => (program.capacity / width.max(1)).clamp(1, program.most_rows),
        _ => 1,
    };
    let reads = |pass: &Pass, read: usize| {
        let mut slots = pass.tile.iter().flat_map(Instruction::operands);
        slots.any(|slot| matches!(program.slots[slot as usize].place, Place::Read(r, _) if r == read))
    };
    let mut all: Vec<usize> = program
        .slots
        .iter()
        .filter_map(|slot| match slot.place {
            Place::Read(read, _) => Some(read),
            _ => None,
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    for read in all {
        let passes = program.passes.iter().enumerate().filter(|(_, pass)| reads(pass, read));
        if let Some((longest, _)) = passes.max_by_key(|(_, pass)| pass.tile.iter().map(cost).sum::<usize>()) {
            fetched[longest].push(Fetched { stream: Stream::Read(read), rows });
        }
    }
    if program.kept > 0 {
        // Beside the operands' rows, results would take more than memory gives meanwhile.
        return fetched;
    }
    let costs: Vec<usize> = program.passes.iter().map(|pass| pass.tile.iter().map(cost).sum()).collect();
    let last = program.passes.len() - 1;
    let longest = (0..=last).max_by_key(|&pass| costs[pass]).unwrap_or(last);
    for slot in program.passes.iter().flat_map(|pass| &pass.tile).filter_map(Instruction::target) {
        let Place::Write(write, _) = program.slots[slot as usize].place else { continue };
        let stream = Stream::Write(write);
        if costs[longest] >= EXPENSIVE && longest < last {
            // Those of this strip: there is time until they are written.
            if !program.large_results.contains(&write) {
                fetched[longest].push(Fetched { stream, rows: 0 });
            }
        } else {
            fetched[last].push(Fetched { stream, rows });
        }
    }
    fetched
}

/// Whether a program is so short that it waits for memory, where its operands are large. Longer ones lose by
/// writing past the caches, unless rows are so long that some are kept: those fill the second-level cache by
/// themselves.
pub(super) fn is_bound_by_memory(program: &Program) -> bool {
    /// Where the two ways took the same time: between a normalisation's gradient and GELU.
    const SHORT: usize = 24;
    program.kept > 0 || program.passes.iter().flat_map(|pass| &pass.tile).map(cost).sum::<usize>() < SHORT
}

/// The cost of a function such as an exponential; see [`cost`].
const EXPENSIVE: usize = 20;

/// The approximate time of an instruction, in additions.
fn cost(instruction: &Instruction) -> usize {
    match instruction {
        Instruction::Map { op: MapOp::Unary(op, _), .. } if op.cost_class() > CostClass::Simple => EXPENSIVE,
        Instruction::Map { op: MapOp::Binary(BinaryOp::Div, _), .. } => 5,
        _ => 1,
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

#[cfg(test)]
impl Native {
    /// Numbers of the instructions of each pass's tiles that stay interpreted.
    pub(super) fn interpreted(&self) -> Vec<Vec<usize>> {
        let number = |step: &Step| match step {
            Step::Interpreted(number) => Some(*number),
            Step::Compiled(_) => None,
        };
        self.passes.iter().map(|pass| pass.tile.iter().filter_map(number).collect()).collect()
    }
}
