//! Compiles consecutive instructions into one routine.
//!
//! In: a list of instructions. Out: segments, with the operands for calling them on a tile. Invariant: the IR
//! instructions of a segment are in the order of its instructions, so at each position, an operand that a
//! result may overwrite is read before the result is written. Values that nothing outside the segment reads
//! are not written.

use super::native::{Fetched, Positions, Step, Stream};
use super::program::{Instruction, NONE, Program, Slot, SlotInfo, SlotPlace, slot_number};
use crate::cpu::machine::{
    Assembler, Builder, Fetch, MOST_LINES, MachineCode, OperandNumber, Pick, REDUCTIONS, Reduction, Routine,
    VectorOperand,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of columns that a reduction processes at a time.
const LONG: usize = 256;
/// Maximum number of instructions of a segment. Longer lists are several segments, which exchange values
/// through memory.
const MOST_INSTRUCTIONS: usize = 4096;

/// Number of reads of each slot by the program's instructions and uniform results.
pub(super) struct Uses(Vec<usize>);

impl Uses {
    pub(super) fn new(program: &Program) -> Self {
        let mut uses = vec![0; program.slots.len()];
        let passes = program.passes.iter().flat_map(|pass| pass.tile.iter().chain(&pass.rows));
        let lists = program.uniform.iter().chain(&program.rows).chain(passes).chain(&program.row_stores);
        lists.flat_map(Instruction::operands).for_each(|slot| uses[slot as usize] += 1);
        program.uniform_results.iter().for_each(|result| uses[result.operand as usize] += 1);
        Self(uses)
    }
}

/// The memory of a routine's operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoutineOperand {
    Slot(Slot),
    /// Partial results of columns, from this byte offset on.
    Partials(usize),
}

/// Consecutive instructions as machine code.
#[derive(Clone, Debug)]
pub struct Segment {
    pub code: Arc<MachineCode>,
    pub streaming: Option<Streaming>,
    pub operands: Vec<RoutineOperand>,
    pub positions: Positions,
    /// True if consecutive rows without gaps can be processed as one row.
    pub flat: bool,
    pub counts_columns: bool,
}

impl Segment {
    /// Returns the slots that the segment reads from memory or writes to it.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.operands.iter().filter_map(|operand| match operand {
            RoutineOperand::Slot(slot) => Some(*slot),
            RoutineOperand::Partials(_) => None,
        })
    }
}

/// Code that writes some results past the caches, which requires their rows to be aligned to vectors.
#[derive(Clone, Debug)]
pub struct Streaming {
    pub code: Arc<MachineCode>,
    /// Operands that are written past the caches.
    pub operands: Vec<OperandNumber>,
}

/// Returns the steps of a list.
pub(super) fn segments(
    program: &Program,
    list: &[Instruction],
    positions: Positions,
    uses: &Uses,
    fetched: &[Fetched],
    assembler: &mut Assembler,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut first = 0;
    while first < list.len() {
        let end = first + extent(program, &list[first..]);
        // Only the first segment prefetches, on behalf of all segments.
        let fetched = if steps.iter().any(|step| matches!(step, Step::Compiled(_))) { &[] } else { fetched };
        let segment = (end > first).then(|| {
            Draft::new(program, positions, uses, &list[first..end], assembler.builder())
                .finish(fetched, assembler)
        });
        match segment.flatten() {
            Some(segment) => steps.push(Step::Compiled(segment)),
            None => steps.extend((first..end.max(first + 1)).map(Step::Interpreted)),
        }
        first = end.max(first + 1);
    }
    steps
}

/// Returns the number of instructions at the start of a list that can form one segment.
fn extent(program: &Program, list: &[Instruction]) -> usize {
    let mut sizes: HashMap<usize, usize> = HashMap::new();
    let mut reductions = 0;
    let mut fits = |instruction: &Instruction| {
        reductions += usize::from(matches!(instruction, Instruction::Reduce { .. }));
        // Reject a tile register with elements of two sizes, in which different positions would share bytes.
        let mut keeps_size = |slot: Slot| match program.slots[slot as usize] {
            // Reject 16-bit floats, which only the interpreter converts.
            SlotInfo { bytes: 2, .. } => false,
            SlotInfo { place: SlotPlace::Register(register), bytes } => {
                *sizes.entry(register).or_insert(bytes) == bytes
            }
            _ => true,
        };
        reductions <= REDUCTIONS
            && can_compile(program, instruction)
            && instruction.operands().into_iter().chain(instruction.target()).all(&mut keeps_size)
    };
    let list = &list[..list.len().min(MOST_INSTRUCTIONS)];
    list.iter().position(|instruction| !fits(instruction)).unwrap_or(list.len())
}

/// Returns `true` if an instruction can be part of a routine.
fn can_compile(program: &Program, instruction: &Instruction) -> bool {
    match *instruction {
        Instruction::Map { op, .. } => Builder::can_map(op),
        // Reject rows that start one element apart: if there is a single column, the interpreter processes
        // them as one row.
        Instruction::Columns { operand, .. } => {
            !matches!(program.slots[operand as usize].place, SlotPlace::Read(_, grid) if grid.row_stride == 1)
        }
        Instruction::Spread { .. }
        | Instruction::Number { .. }
        | Instruction::Pick { .. }
        | Instruction::Picked { .. }
        | Instruction::Reduce { .. } => true,
        Instruction::Gather(_) | Instruction::Check(_) | Instruction::Scatter(_) => false,
    }
}

/// A segment in progress.
struct Draft<'a> {
    program: &'a Program,
    positions: Positions,
    uses: &'a Uses,
    list: &'a [Instruction],
    builder: Builder,
    homes: HashMap<Slot, VectorOperand>,
    operands: Vec<RoutineOperand>,
    numbers: HashMap<RoutineOperand, OperandNumber>,
    bytes: Vec<u8>,
    reductions: Vec<Reduction>,
    /// Index operand, picked value and target operand of each pick.
    picks: Vec<(OperandNumber, VectorOperand, OperandNumber)>,
    flat: bool,
}

impl<'a> Draft<'a> {
    fn new(
        program: &'a Program,
        positions: Positions,
        uses: &'a Uses,
        list: &'a [Instruction],
        builder: Builder,
    ) -> Self {
        Self {
            program,
            positions,
            uses,
            list,
            builder,
            homes: HashMap::new(),
            operands: Vec::new(),
            numbers: HashMap::new(),
            bytes: Vec::new(),
            reductions: Vec::new(),
            picks: Vec::new(),
            flat: true,
        }
    }

    /// Returns the segment of the instructions, or `None` if it would be too long, its columns do not fit in
    /// i32, or the machine has no code for it.
    fn finish(mut self, fetched: &[Fetched], assembler: &mut Assembler) -> Option<Segment> {
        self.list.iter().for_each(|instruction| self.add(instruction));
        self.fetch(fetched);
        let streams = self.streams();
        let all = self.builder.finish();
        let counts_columns = all.counts_columns() || !self.picks.is_empty();
        // Reject columns whose indices do not fit in i32.
        let is_countable = !counts_columns || i32::try_from(self.program.columns).is_ok();
        if all.len() > MOST_LINES || !is_countable {
            return None;
        }
        let pick = |&(index, source, target): &(OperandNumber, VectorOperand, OperandNumber)| Pick {
            index,
            lines: all.adding(source, target),
        };
        let routine = Routine {
            lines: all.used(),
            picks: self.picks.iter().map(pick).collect(),
            operands: self.bytes,
            reductions: self.reductions,
            long: self.program.columns.min(self.program.capacity) >= LONG,
            streams: Vec::new(),
        };
        let can_stream = assembler.isa().streams() && !streams.is_empty();
        let streaming = can_stream.then(|| Routine {
            lines: routine.lines.without_fetches(&streams),
            streams: streams.clone(),
            ..routine.clone()
        });
        let streaming = streaming.and_then(|routine| assembler.assemble(routine));
        Some(Segment {
            code: assembler.assemble(routine)?,
            streaming: streaming.map(|code| Streaming { code, operands: streams }),
            operands: self.operands,
            positions: self.positions,
            flat: self.flat && !counts_columns,
            counts_columns,
        })
    }

    /// Appends IR instructions that prefetch the memory of `fetched`.
    fn fetch(&mut self, fetched: &[Fetched]) {
        for fetch in fetched {
            let place = self.program.slots.iter().enumerate().find_map(|(slot, info)| match info.place {
                SlotPlace::Read(read, grid) if fetch.stream == Stream::Read(read) => {
                    Some((slot, grid, info.bytes))
                }
                SlotPlace::Write(write, grid) if fetch.stream == Stream::Write(write) => {
                    Some((slot, grid, info.bytes))
                }
                _ => None,
            });
            let Some((slot, grid, 4)) = place else { continue };
            let Ok(distance) = i32::try_from(4 * fetch.rows * grid.row_stride) else { continue };
            if !grid.repeated && grid.row_stride > 0 {
                let operand = self.operand(RoutineOperand::Slot(slot_number(slot)), 4);
                let writes = matches!(fetch.stream, Stream::Write(_));
                self.builder.fetch(Fetch { operand, distance, writes });
            }
        }
    }

    /// Returns the large results with 4-byte elements that nothing outside the segment reads.
    fn streams(&self) -> Vec<OperandNumber> {
        let is_stream = |&(_, operand): &(usize, &RoutineOperand)| {
            let RoutineOperand::Slot(slot) = *operand else { return false };
            let info = &self.program.slots[slot as usize];
            let SlotPlace::Write(write, _) = info.place else { return false };
            let is_read = self.uses.0[slot as usize] > self.own_uses(slot);
            info.bytes == 4 && !is_read && self.program.large_results.contains(&write)
        };
        let streams = self.operands.iter().enumerate().filter(is_stream);
        streams.map(|(number, _)| OperandNumber::new(number)).collect()
    }

    /// Returns the number of reads of a slot by the segment's instructions.
    fn own_uses(&self, slot: Slot) -> usize {
        self.list.iter().flat_map(Instruction::operands).filter(|&used| used == slot).count()
    }

    fn operand(&mut self, operand: RoutineOperand, bytes: usize) -> OperandNumber {
        let (operands, sizes) = (&mut self.operands, &mut self.bytes);
        *self.numbers.entry(operand).or_insert_with(|| {
            operands.push(operand);
            sizes.push(u8::try_from(bytes).expect("elements have 1 or 4 bytes"));
            OperandNumber::new(operands.len() - 1)
        })
    }

    /// Returns `true` if a slot has one element for all columns of a row.
    fn is_repeated(&self, slot: Slot) -> bool {
        let one_column = self.program.columns == 1;
        match (&self.program.slots[slot as usize].place, self.positions) {
            (SlotPlace::Uniform(_), _) => true,
            (SlotPlace::RowRegister(_), Positions::Tile) => !one_column,
            (SlotPlace::Read(_, grid), Positions::Tile) => {
                grid.repeated && !(one_column && grid.row_stride > 0)
            }
            (SlotPlace::Read(_, grid), Positions::Rows) => grid.repeated && grid.row_stride == 0,
            _ => false,
        }
    }

    /// Returns the value of a slot, which is loaded at its first use.
    fn source(&mut self, slot: Slot) -> VectorOperand {
        if let Some(&home) = self.homes.get(&slot) {
            return home;
        }
        let info = &self.program.slots[slot as usize];
        let source = match info.place {
            SlotPlace::Constant(number) => {
                let bits = self.program.constants[number];
                self.builder.constant(if info.bytes == 1 { bits & 0xff } else { bits }, info.bytes)
            }
            _ if self.is_repeated(slot) => {
                let operand = self.operand(RoutineOperand::Slot(slot), info.bytes);
                self.flat &= match info.place {
                    SlotPlace::Uniform(_) => true,
                    SlotPlace::Read(_, grid) => grid.row_stride == 0,
                    _ => false,
                };
                self.builder.row(operand, info.bytes)
            }
            _ => {
                let operand = self.operand(RoutineOperand::Slot(slot), info.bytes);
                self.builder.load(operand, info.bytes)
            }
        };
        self.homes.insert(slot, source);
        source
    }

    /// Records the value of a slot, and writes it to memory if it is a result or is read outside the segment.
    fn define(&mut self, slot: Slot, source: VectorOperand) {
        let info = &self.program.slots[slot as usize];
        self.homes.insert(slot, source);
        if matches!(info.place, SlotPlace::Write(..)) || self.own_uses(slot) < self.uses.0[slot as usize] {
            let operand = self.operand(RoutineOperand::Slot(slot), info.bytes);
            self.builder.store(operand, info.bytes, source);
        }
    }

    fn add(&mut self, instruction: &Instruction) {
        match *instruction {
            Instruction::Map { op, operands, target, .. } => {
                let sources: Vec<VectorOperand> =
                    operands.iter().filter(|&&slot| slot != NONE).map(|&slot| self.source(slot)).collect();
                let result = self.builder.map(op, &sources);
                self.define(target, result);
            }
            Instruction::Spread { operand, target } => {
                let source = self.source(operand);
                self.define(target, source);
            }
            Instruction::Number { target } => {
                let columns = self.builder.columns();
                self.define(target, columns);
            }
            Instruction::Pick { index, chosen, others, target } => {
                let [index, chosen, others] = [index, chosen, others].map(|slot| self.source(slot));
                let picked = self.builder.pick(index, chosen, others);
                self.define(target, picked);
            }
            Instruction::Reduce { reduction, operand, target } => {
                let source = self.source(operand);
                let target = self.operand(RoutineOperand::Slot(target), 4);
                let super::program::Reduction { op, dtype, identity, .. } = reduction;
                self.builder.reduce(self.reductions.len(), source);
                self.reductions.push(Reduction { op, dtype, identity, target });
                self.flat = false;
            }
            Instruction::Picked { index, operand, target } => {
                let source = self.source(operand);
                let [index, target] = [index, target].map(|slot| self.operand(RoutineOperand::Slot(slot), 4));
                self.picks.push((index, source, target));
                self.flat = false;
            }
            Instruction::Columns { reduction, operand, offset } => {
                let source = self.source(operand);
                let partials = self.operand(RoutineOperand::Partials(offset), 4);
                let running = self.builder.load(partials, 4);
                let combined = self.builder.combine(reduction.op, reduction.dtype, running, source);
                self.builder.store(partials, 4, combined);
                self.flat = false;
            }
            Instruction::Gather(_) | Instruction::Check(_) | Instruction::Scatter(_) => {
                unreachable!("a segment has what can be compiled")
            }
        }
    }
}
