//! Decides which instructions of a program run as machine code.
//!
//! In: a finished program. Out: for each of its lists, steps in the order of the instructions: segments of
//! consecutive instructions, and instructions that stay interpreted. Values that a segment computes for other
//! instructions go through the program's registers in memory, as those of interpreted instructions do, so the
//! two kinds of steps can be mixed. Invariant: results are those of the interpreted program.

use super::program::{Instruction, Pass, Program, SlotPlace};
use super::segment::{Segment, Uses, segments};
use crate::cpu::functions::MapOp;
use crate::cpu::machine::Assembler;
use gradloom_core::ir::{BinaryOp, CostClass};

/// The lists of a program as steps.
#[derive(Clone, Debug)]
pub struct Native<S = Segment> {
    pub uniform: Vec<Step<S>>,
    pub rows: Vec<Step<S>>,
    pub passes: Vec<PassSteps<S>>,
    pub row_stores: Vec<Step<S>>,
}

/// The lists of a pass as steps.
#[derive(Clone, Debug)]
pub struct PassSteps<S = Segment> {
    pub tile: Vec<Step<S>>,
    pub rows: Vec<Step<S>>,
}

/// One step of a list.
#[derive(Clone, Debug)]
pub enum Step<S = Segment> {
    /// Consecutive instructions as machine code.
    Compiled(S),
    /// The instruction with this index.
    Interpreted(usize),
}

/// The positions that a list is executed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// The positions of a tile.
    Tile,
    /// The rows of a tile, or a single position for uniform values.
    Rows,
}

impl Native {
    /// Returns the steps of a program, or `None` if no instruction can be compiled.
    pub fn new(program: &Program, assembler: &mut Assembler) -> Option<Self> {
        let uses = Uses::new(program);
        let mut steps = |list: &[Instruction], positions, fetched: &[Fetched]| {
            segments(program, list, positions, &uses, fetched, assembler)
        };
        let uniform = steps(&program.uniform, Positions::Rows, &[]);
        let rows = steps(&program.rows, Positions::Rows, &[]);
        let fetched = fetched(program);
        let passes = program.passes.iter().zip(&fetched).map(|(pass, fetched)| PassSteps {
            tile: steps(&pass.tile, Positions::Tile, fetched),
            rows: steps(&pass.rows, Positions::Rows, &[]),
        });
        let passes = passes.collect();
        let native =
            Self { uniform, rows, passes, row_stores: steps(&program.row_stores, Positions::Rows, &[]) };
        let has_any = native.segments().next().is_some();
        has_any.then_some(native)
    }
}

impl<S> Native<S> {
    /// Returns all compiled segments.
    pub fn segments(&self) -> impl Iterator<Item = &S> {
        let passes = self.passes.iter().flat_map(|pass| pass.tile.iter().chain(&pass.rows));
        let steps = self.uniform.iter().chain(&self.rows).chain(passes).chain(&self.row_stores);
        steps.filter_map(|step| match step {
            Step::Compiled(segment) => Some(segment),
            Step::Interpreted(_) => None,
        })
    }

    /// Converts the segments, or returns `None` if one cannot be converted.
    pub fn map<T>(&self, mut segment: impl FnMut(&S) -> Option<T>) -> Option<Native<T>> {
        let mut list = |steps: &[Step<S>]| -> Option<Vec<Step<T>>> {
            let step = |step: &Step<S>| match step {
                Step::Interpreted(number) => Some(Step::Interpreted(*number)),
                Step::Compiled(old) => segment(old).map(Step::Compiled),
            };
            steps.iter().map(step).collect()
        };
        let (uniform, rows) = (list(&self.uniform)?, list(&self.rows)?);
        let mut passes = Vec::with_capacity(self.passes.len());
        for pass in &self.passes {
            passes.push(PassSteps { tile: list(&pass.tile)?, rows: list(&pass.rows)? });
        }
        Some(Native { uniform, rows, passes, row_stores: list(&self.row_stores)? })
    }
}

/// An operand or a result of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Read(usize),
    Write(usize),
}

/// Memory that a pass prefetches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetched {
    pub stream: Stream,
    /// Number of rows from the current ones to those that are prefetched.
    pub rows: usize,
}

/// Returns the memory that each pass prefetches: operands of the next strip, and results. Without prefetches,
/// memory would only be busy during the first pass that reads an operand, and idle during the other passes,
/// such as the longest one.
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
        slots.any(|slot| matches!(program.slots[slot as usize].place, SlotPlace::Read(r, _) if r == read))
    };
    let mut all: Vec<usize> = program
        .slots
        .iter()
        .filter_map(|slot| match slot.place {
            SlotPlace::Read(read, _) => Some(read),
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
        // Prefetch no results, because in addition to the operands' rows, they would exceed the memory
        // bandwidth.
        return fetched;
    }
    let costs: Vec<usize> = program.passes.iter().map(|pass| pass.tile.iter().map(cost).sum()).collect();
    let last = program.passes.len() - 1;
    let longest = (0..=last).max_by_key(|&pass| costs[pass]).unwrap_or(last);
    for slot in program.passes.iter().flat_map(|pass| &pass.tile).filter_map(Instruction::target) {
        let SlotPlace::Write(write, _) = program.slots[slot as usize].place else { continue };
        let stream = Stream::Write(write);
        if costs[longest] >= EXPENSIVE && longest < last {
            // Prefetches the results of this strip, which are written later.
            if !program.large_results.contains(&write) {
                fetched[longest].push(Fetched { stream, rows: 0 });
            }
        } else {
            fetched[last].push(Fetched { stream, rows });
        }
    }
    fetched
}

/// Returns `true` if a program is so short that it is memory-bound for large operands. Longer programs are
/// slower if they write past the caches, unless rows are so long that some are kept, because kept rows alone
/// fill the second-level cache.
pub(super) fn is_bound_by_memory(program: &Program) -> bool {
    /// Cost at which writing past the caches takes as long as writing to them. It lies between the cost of a
    /// normalization's gradient and that of GELU.
    const SHORT: usize = 24;
    program.kept > 0 || program.passes.iter().flat_map(|pass| &pass.tile).map(cost).sum::<usize>() < SHORT
}

/// Cost of a function such as an exponential (see [`cost`]).
const EXPENSIVE: usize = 20;

/// Returns the approximate time of an instruction, as a number of additions.
fn cost(instruction: &Instruction) -> usize {
    match instruction {
        Instruction::Map { op: MapOp::Unary(op, _), .. } if op.cost_class() > CostClass::Simple => EXPENSIVE,
        Instruction::Map { op: MapOp::Binary(BinaryOp::Div, _), .. } => 5,
        _ => 1,
    }
}
