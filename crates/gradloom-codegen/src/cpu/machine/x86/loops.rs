//! Assembly of a routine: rows of elements, each of which is processed a vector at a time.
//!
//! In: IR instructions, and the operands that they read, write and reduce. Out: machine code for `fn(frame)`.
//! Invariant: a row is reduced in the order of the runtime's reductions: 64 running results, four elements at
//! a time while there are enough, then a tree, then the last elements one by one. The code accesses no
//! operand outside of a row's elements, and preserves all callee-saved registers.

use super::assembler::{Assembler, Label, displacement};
use super::avx2::Avx2;
use super::avx512::Avx512;
use super::bounds::Window;
use super::check::check;
use super::encoding::{COLUMN, END, Encoding, FRAME, POOL, Vector, at, emit, load_vector, low};
use super::lines::{Places, RowPart, combine, extreme, is_float_extreme};
use super::registers::{Allocation, Registers, Step, allocate, allocate_beside, register_number};
use crate::cpu::machine::frame::Frame;
use crate::cpu::machine::ir::{Fetch, Invariant, Lines, Op};
use crate::cpu::machine::isa::VectorIsa;
use crate::cpu::machine::numbers::{InvariantNumber, OperandNumber};
use crate::cpu::machine::routine::{Pick, REDUCTIONS, Reduction, Routine};
use gradloom_core::ir::{DType, ReduceOp};
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;

/// Number of running results of a reduction.
const RUNNING: usize = 64;
/// Number of elements that are combined with the first running results at a time when fewer than 64 remain.
const GROUP: usize = 16;
/// Minimum number of IR instructions for which vectors are interleaved.
const LONG: usize = 16;
/// Minimum number of IR instructions for each spill or reload of two interleaved vectors.
const MOVED: usize = 8;
/// Number of columns that are reduced at a time.
const CHUNK: usize = 256;
/// Number of vector registers of a reduction, which combine four elements.
const HELD: usize = 2;
/// Number of the frame's buffers for each reduction: one for the last elements, and four for the running
/// results.
const BUFFERS: usize = 5;
/// Register that contains the number of columns of a row.
const COLUMNS: Register = Register::RDX;
/// Registers for addresses. Those from the third on are callee-saved.
const POINTERS: [Register; 8] = [
    Register::R10,
    Register::R11,
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// Returns the code of a routine and the size of its frame in bytes, or `None` if the routine needs more mask
/// registers than there are. An error is a bug in this compiler that `check` or `bounds` has found.
///
/// # Panics
/// Panics if the instruction set is none of x86-64.
pub fn assemble(routine: &Routine, isa: VectorIsa) -> Option<Result<(Vec<u8>, usize), String>> {
    match isa {
        VectorIsa::Avx2 => assemble_for::<Avx2>(routine),
        VectorIsa::Avx512 => assemble_for::<Avx512>(routine),
        VectorIsa::Simd128 => panic!("gradloom assembled WebAssembly for x86-64; please report this"),
    }
}

fn assemble_for<I: Encoding>(routine: &Routine) -> Option<Result<(Vec<u8>, usize), String>> {
    assert!(routine.reductions.len() <= REDUCTIONS, "a routine with too many reductions");
    let lines = &routine.lines;
    let flags = flags::<I>(routine);
    let given = flags.iter().flatten().flatten().collect::<HashSet<_>>().len();
    let vectors = I::VECTORS - HELD * routine.reductions.len();
    let registers = match I::MASKS {
        Some(masks) => Registers { vectors, masks: Some(masks - given) },
        None => Registers { vectors: vectors - given, masks: None },
    };
    let wide = interleaved::<I>(routine, registers);
    let allocation = match &wide {
        Some(wide) => allocate_beside(lines, registers, wide.allocation.invariants.clone())?,
        None => allocate(lines, picked(routine), registers)?,
    };
    let pick = |pick: &Pick| allocate_beside(&pick.lines, registers, allocation.invariants.clone());
    let picks = routine.picks.iter().map(pick).collect::<Option<Vec<Allocation>>>()?;
    let all = picks.iter().chain(wide.as_ref().map(|wide| &wide.allocation)).chain([&allocation]);
    let spills = all.map(|allocation| allocation.spills).max().unwrap_or(0);
    let mut pool = Pool::new::<I>();
    let constants: Vec<Option<usize>> = lines
        .invariants
        .iter()
        .map(|invariant| match invariant {
            Invariant::Constant(bits) => Some(pool.offset(*bits)),
            Invariant::Row(_) => None,
        })
        .collect();
    let identities: Vec<usize> =
        routine.reductions.iter().map(|reduction| pool.offset(reduction.identity)).collect();
    let nan = pool.offset(f32::NAN.to_bits());
    let buffers = BUFFERS * routine.reductions.len();
    let frame = Frame::new(routine.operands.len(), buffers, spills, I::INVARIANT);
    if let Err(what) = check_all(routine, wide.as_ref(), &allocation, &picks, registers) {
        return Some(Err(what));
    }
    let pointers = pointers(routine);
    let frame_bytes = frame.bytes(lines.invariants.len());
    let places = Places::<I> {
        frame,
        pointers: &pointers,
        pool: &constants,
        streams: &routine.streams,
        encoding: PhantomData,
    };
    let asm = Assembler::new(pool.words, frame_bytes, &routine.operands);
    let vectors = registers.vectors;
    let mut emitter =
        Emitter { asm, routine, allocation, wide, picks, vectors, flags, places, identities, nan };
    emitter.function();
    Some(emitter.asm.finish().map(|code| (code, frame_bytes)))
}

/// Constants in memory.
struct Pool {
    words: Vec<u32>,
    offsets: HashMap<u32, usize>,
    /// Number of words of a constant.
    repeated: usize,
}

impl Pool {
    fn new<I: Encoding>() -> Self {
        Self { words: I::POOL_START.to_vec(), offsets: HashMap::new(), repeated: I::INVARIANT / 4 }
    }

    /// Returns the offset of a constant in bytes.
    fn offset(&mut self, bits: u32) -> usize {
        *self.offsets.entry(bits).or_insert_with(|| {
            self.words.extend(std::iter::repeat_n(bits, self.repeated));
            4 * (self.words.len() - self.repeated)
        })
    }
}

/// Checks all steps of a routine against its IR instructions.
fn check_all(
    routine: &Routine,
    wide: Option<&Wide>,
    one: &Allocation,
    picks: &[Allocation],
    registers: Registers,
) -> Result<(), String> {
    if let Some(wide) = wide {
        check(&wide.lines, &wide.allocation, registers)?;
    }
    check(&routine.lines, one, registers)?;
    routine.picks.iter().zip(picks).try_for_each(|(pick, steps)| check(&pick.lines, steps, registers))
}

/// Returns the instructions of each pick of a routine.
fn picked(routine: &Routine) -> impl Iterator<Item = &Lines> {
    routine.picks.iter().map(|pick| &pick.lines)
}

/// Steps for several vectors at a time.
struct Wide {
    lines: Lines,
    allocation: Allocation,
    vectors: usize,
}

/// Interleaves the instructions of a long routine for four vectors if they fit in registers, or for two if
/// few of them are spilled. Returns `None` if the routine is too short or too many would be spilled.
fn interleaved<I: Encoding>(routine: &Routine, registers: Registers) -> Option<Wide> {
    let reduces = !routine.reductions.is_empty();
    let computing = routine.lines.all.iter().filter(|line| !matches!(line.op, Op::Fetch(_))).count();
    if computing < LONG || (reduces && !routine.long) {
        return None;
    }
    // A reduction processes four elements, which are 64 columns apart.
    let (choices, apart): (&[usize], usize) = if reduces { (&[4], RUNNING / I::LANES) } else { (&[4, 2], 1) };
    choices.iter().find_map(|&vectors| {
        let lines = routine.lines.interleaved(vectors, apart);
        let allocation = allocate(&lines, picked(routine), registers)?;
        let moved = allocation.steps.len() - lines.len();
        let fits = if vectors == 2 { MOVED * moved <= lines.len() } else { moved == 0 };
        fits.then_some(Wide { lines, allocation, vectors })
    })
}

/// Returns, for each reduction to the maximum or minimum of floats, two flag registers, which may be the same
/// one. They contain the lanes that have had no NaN. They are mask registers if there are any, otherwise
/// vector registers before those of the reductions.
fn flags<I: Encoding>(routine: &Routine) -> Vec<Option<[Register; 2]>> {
    let extremes =
        routine.reductions.iter().filter(|reduction| is_float_extreme(reduction.op, reduction.dtype)).count();
    // Uses two registers if only one reduction needs them, because each change of a register depends on the
    // previous one.
    let each = if extremes == 1 { 2 } else { 1 };
    let registers = I::MASKS.unwrap_or(I::VECTORS - HELD * routine.reductions.len());
    let mut free = (0..registers).rev().map(|number| I::mask(register_number(number)));
    let mut flags = |reduction: &Reduction| {
        is_float_extreme(reduction.op, reduction.dtype).then(|| {
            let first = free.next().expect("as many masks as reductions");
            [first, if each == 2 { free.next().expect("two masks") } else { first }]
        })
    };
    routine.reductions.iter().map(&mut flags).collect()
}

/// Returns the registers for the addresses of operands with an element for each column, in order of first
/// use.
fn pointers(routine: &Routine) -> Vec<Option<Register>> {
    let mut pointers = vec![None; routine.operands.len()];
    let mut free = POINTERS.into_iter();
    for line in &routine.lines.all {
        if let Op::Load(operand)
        | Op::LoadBytes(operand)
        | Op::Store(operand)
        | Op::StoreBytes(operand)
        | Op::Fetch(Fetch { operand, .. }) = line.op
            && pointers[operand.index()].is_none()
        {
            pointers[operand.index()] = free.next();
        }
    }
    pointers
}

struct Emitter<'a, I> {
    asm: Assembler,
    routine: &'a Routine,
    allocation: Allocation,
    wide: Option<Wide>,
    picks: Vec<Allocation>,
    /// Number of vector registers of values and invariants.
    vectors: usize,
    flags: Vec<Option<[Register; 2]>>,
    places: Places<'a, I>,
    /// Offset in the pool of each reduction's identity, in bytes.
    identities: Vec<usize>,
    /// Offset in the pool of a NaN, in bytes.
    nan: usize,
}

/// Method of reducing the vectors of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reducing {
    /// As one of four vectors that are combined first: those 0, 64, 128 and 192 columns ahead, in this order.
    Fourths,
    /// Combined with the running results of the current column, modulo this number of columns.
    Each(usize),
    /// Stored, to be combined later, element by element.
    Last,
}

/// Returns one of the two registers of a reduction.
fn held<I: Encoding>(reduction: usize, part: usize) -> Register {
    I::vector(register_number(I::VECTORS - HELD * (reduction + 1) + part))
}

/// Converts a number of elements to the type of immediate operands.
fn immediate(elements: usize) -> i32 {
    i32::try_from(elements).expect("a few vectors")
}

/// Emits `rax = COLUMN` modulo a power of two, and returns the memory operand for the element with this index
/// of the frame's buffer at `buffer`.
fn buffered(asm: &mut Assembler, buffer: usize, modulus: usize) -> MemoryOperand {
    emit!(asm, Mov_r32_rm32, Register::EAX, Register::ECX);
    emit!(asm, And_rm32_imm8, Register::EAX, immediate(modulus - 1));
    MemoryOperand::with_base_index_scale_displ_size(FRAME, Register::RAX, 4, displacement(buffer), 1)
}

/// Emits `to = to op from` for the operator of a reduction. If flags record which lanes are NaN
/// (`is_flagged`), the result in those lanes is unspecified.
fn combine_ordered<I: Encoding>(
    asm: &mut Assembler,
    (op, dtype): (ReduceOp, DType),
    is_flagged: bool,
    to: Register,
    from: Register,
) {
    match is_flagged {
        true => extreme::<I>(asm, op, to, to, from),
        false => combine::<I>(asm, (op, dtype), to, to, from),
    }
}

impl<I: Encoding> Emitter<'_, I> {
    /// Window of code that processes a whole vector of columns.
    const VECTOR_WINDOW: Window = Window::Columns(I::LANES);
    /// Window of the code that reduces a chunk, which also runs for all vectors of the chunk's first 64
    /// columns.
    const CHUNK_WINDOW: Window = Window::Columns(CHUNK - (RUNNING - I::LANES));

    fn function(&mut self) {
        let kept: Vec<Register> =
            self.places.pointers.iter().flatten().copied().filter(|r| POINTERS[2..].contains(r)).collect();
        kept.iter().for_each(|&register| emit!(self.asm, Push_r64, register));
        self.asm.load_pool(POOL);
        emit!(self.asm, Mov_r64_rm64, COLUMNS, at(FRAME, Frame::COLUMNS));
        for number in 0..self.routine.lines.invariants.len() {
            if let (Some(register), Some(_)) = (self.allocation.invariants[number], self.places.pool[number])
            {
                let register = self.invariant_register(register);
                let invariant = self.places.invariant(InvariantNumber::new(number));
                load_vector::<I>(&mut self.asm, register, invariant);
            }
        }
        let (row, end) = (self.asm.label(), self.asm.label());
        self.asm.place(row);
        self.row();
        emit!(self.asm, Dec_rm64, at(FRAME, Frame::ROWS));
        self.asm.jump(Code::Je_rel32_64, end);
        for operand in 0..self.routine.operands.len() {
            let address = Frame::operand(OperandNumber::new(operand));
            emit!(self.asm, Mov_r64_rm64, Register::RAX, at(FRAME, address + 8));
            emit!(self.asm, Add_rm64_r64, at(FRAME, address), Register::RAX);
        }
        self.asm.jump(Code::Jmp_rel32_64, row);
        self.asm.place(end);
        if !self.routine.streams.is_empty() {
            emit!(self.asm, Sfence);
        }
        emit!(self.asm, VEX_Vzeroupper);
        kept.iter().rev().for_each(|&register| emit!(self.asm, Pop_r64, register));
        emit!(self.asm, Retnq);
    }

    /// Returns the register of an invariant. These registers follow those of values.
    fn invariant_register(&self, number: u8) -> Register {
        let held = self.allocation.invariants.iter().flatten().count();
        I::vector(register_number(self.vectors - held + usize::from(number)))
    }

    fn row(&mut self) {
        for (number, invariant) in self.routine.lines.invariants.iter().enumerate() {
            let Invariant::Row(operand) = *invariant else { continue };
            emit!(self.asm, Mov_r64_rm64, Register::RAX, at(FRAME, Frame::operand(operand)));
            let element = MemoryOperand::with_base(Register::RAX);
            match self.routine.operands[operand.index()] {
                1 => emit!(self.asm, Movzx_r32_rm8, Register::EAX, element),
                _ => emit!(self.asm, Mov_r32_rm32, Register::EAX, element),
            }
            match self.allocation.invariants[number] {
                Some(register) => {
                    let register = self.invariant_register(register);
                    I::broadcast_eax(&mut self.asm, register);
                }
                None => {
                    let place = at(FRAME, self.places.frame.invariant(InvariantNumber::new(number)));
                    I::store_invariant(&mut self.asm, place);
                }
            }
        }
        for (operand, pointer) in self.places.pointers.iter().enumerate() {
            if let Some(pointer) = pointer {
                let address = Frame::operand(OperandNumber::new(operand));
                emit!(self.asm, Mov_r64_rm64, *pointer, at(FRAME, address));
            }
        }
        (0..self.picks.len()).for_each(|pick| self.pick(pick));
        if self.routine.lines.is_empty() {
            return;
        }
        for &flag in self.flags.iter().flatten().flatten() {
            I::set_flag(&mut self.asm, flag);
        }
        for (reduction, &identity) in self.identities.iter().enumerate() {
            let register = held::<I>(reduction, 0);
            load_vector::<I>(&mut self.asm, register, Vector::Invariant(POOL, identity));
            for vector in 0..RUNNING / I::LANES {
                let running = self.running(reduction) + 4 * I::LANES * vector;
                emit!(self.asm, [I::WRITE], at(FRAME, running), register);
            }
        }
        emit!(self.asm, Xor_r32_rm32, Register::ECX, Register::ECX);
        if self.routine.reductions.is_empty() {
            self.mapped_row();
        } else {
            self.reduced_row();
        }
    }

    /// Returns the offset in the frame of a reduction's buffer for the last elements.
    fn last(&self, reduction: usize) -> usize {
        self.places.frame.buffer(BUFFERS * reduction)
    }

    /// Returns the offset in the frame of a reduction's running results.
    fn running(&self, reduction: usize) -> usize {
        self.places.frame.buffer(BUFFERS * reduction + 1)
    }

    /// Emits the instructions of a pick, for a single lane in the column that the row's index selects.
    fn pick(&mut self, number: usize) {
        let end = self.asm.label();
        let index = Frame::operand(self.routine.picks[number].index);
        emit!(self.asm, Mov_r64_rm64, Register::RAX, at(FRAME, index));
        // Clears the upper half of the register, so that a negative index exceeds the number of columns.
        emit!(self.asm, Mov_r32_rm32, Register::ECX, MemoryOperand::with_base(Register::RAX));
        emit!(self.asm, Sub_r32_rm32, Register::ECX, at(FRAME, Frame::NUMBERS));
        self.jump_if(Code::Jae_rel32_64, [COLUMN, COLUMNS], end);
        emit!(self.asm, Mov_r32_imm32, Register::R8D, 1);
        I::mask_last(&mut self.asm);
        let steps = std::mem::take(&mut self.picks[number].steps);
        self.steps(&steps, RowPart { ahead: 0, last: true }, Reducing::Last, Window::Last);
        self.asm.place(end);
    }

    /// Emits the instructions of the routine once.
    fn step(&mut self, part: RowPart, reducing: Reducing, window: Window) {
        let steps = std::mem::take(&mut self.allocation.steps);
        self.steps(&steps, part, reducing, window);
        self.allocation.steps = steps;
    }

    /// Emits steps. `window` describes the columns that the row has wherever the steps run.
    fn steps(&mut self, steps: &[Step], part: RowPart, reducing: Reducing, window: Window) {
        let (routine, flags) = (self.routine, &self.flags);
        let buffers = |reduction: usize| (self.last(reduction), self.running(reduction));
        let buffers: Vec<(usize, usize)> = (0..routine.reductions.len()).map(buffers).collect();
        let mut reduce = |asm: &mut Assembler, reduction: usize, from: Register, ahead: usize| {
            let Reduction { op, dtype, .. } = routine.reductions[reduction];
            let [first, second] = [0, 1].map(|part| held::<I>(reduction, part));
            let (last, running) = buffers[reduction];
            let is_flagged = flags[reduction].is_some();
            let copy = |asm: &mut Assembler, to| load_vector::<I>(asm, to, Vector::Register(from));
            match (reducing, ahead * I::LANES / RUNNING) {
                (Reducing::Fourths, 0) => copy(asm, first),
                (Reducing::Fourths, 2) => copy(asm, second),
                (Reducing::Fourths, fourth) => {
                    let (to, flag) = if fourth == 1 { (first, 0) } else { (second, 1) };
                    if let Some(flags) = flags[reduction] {
                        I::keep_ordered(asm, flags[flag], to, from);
                    }
                    combine_ordered::<I>(asm, (op, dtype), is_flagged, to, from);
                    if fourth == 3 {
                        combine_ordered::<I>(asm, (op, dtype), is_flagged, first, second);
                        let running = buffered(asm, running, RUNNING);
                        emit!(asm, [I::COPY], second, running);
                        combine_ordered::<I>(asm, (op, dtype), is_flagged, second, first);
                        emit!(asm, [I::WRITE], running, second);
                    }
                }
                (Reducing::Each(modulus), _) => {
                    let running = buffered(asm, running, modulus);
                    emit!(asm, [I::COPY], first, running);
                    combine::<I>(asm, (op, dtype), first, first, from);
                    emit!(asm, [I::WRITE], running, first);
                }
                (Reducing::Last, _) => {
                    let last = buffered(asm, last, GROUP);
                    emit!(asm, [I::WRITE], last, from);
                }
            }
        };
        self.asm.bounds.window = window;
        for step in steps {
            self.places.step(&mut self.asm, step, part, &mut reduce);
        }
        self.asm.bounds.window = Window::None;
    }

    /// Emits `end = COLUMNS`, rounded down to a multiple of `multiple`.
    fn round_down(&mut self, end: Register, multiple: usize) {
        emit!(self.asm, Mov_r64_rm64, end, COLUMNS);
        emit!(self.asm, And_rm64_imm32, end, -immediate(multiple));
    }

    fn jump_if(&mut self, code: Code, [a, b]: [Register; 2], to: Label) {
        emit!(self.asm, Cmp_r64_rm64, a, b);
        self.asm.jump(code, to);
    }

    /// Emits the loops over a row without reductions, for which any [`Reducing`] does.
    fn mapped_row(&mut self) {
        if let Some(wide) = self.wide.take() {
            let (several, one) = (self.asm.label(), self.asm.label());
            let elements = I::LANES * wide.vectors;
            self.round_down(END, elements);
            self.asm.jump(Code::Je_rel32_64, one);
            self.asm.place(several);
            self.steps(
                &wide.allocation.steps,
                RowPart { ahead: 0, last: false },
                Reducing::Last,
                Window::Columns(elements),
            );
            emit!(self.asm, Add_rm64_imm8, COLUMN, immediate(elements));
            self.jump_if(Code::Jb_rel32_64, [COLUMN, END], several);
            self.asm.place(one);
        }
        self.vectors_until(I::LANES, Reducing::Last);
        self.last_elements();
    }

    /// Emits a loop over the whole vectors of a row, up to the last multiple of `multiple` columns.
    fn vectors_until(&mut self, multiple: usize, reducing: Reducing) {
        let (next, end) = (self.asm.label(), self.asm.label());
        self.round_down(END, multiple);
        self.jump_if(Code::Jae_rel32_64, [COLUMN, END], end);
        self.asm.place(next);
        self.step(RowPart { ahead: 0, last: false }, reducing, Self::VECTOR_WINDOW);
        emit!(self.asm, Add_rm64_imm8, COLUMN, immediate(I::LANES));
        self.jump_if(Code::Jb_rel32_64, [COLUMN, END], next);
        self.asm.place(end);
    }

    /// Emits the instructions for the last elements, which do not fill a vector.
    fn last_elements(&mut self) {
        let end = self.asm.label();
        emit!(self.asm, Mov_r64_rm64, END, COLUMNS);
        emit!(self.asm, Sub_r64_rm64, END, COLUMN);
        self.asm.jump(Code::Je_rel32_64, end);
        I::mask_last(&mut self.asm);
        self.step(RowPart { ahead: 0, last: true }, Reducing::Last, Window::Last);
        self.asm.place(end);
    }

    fn reduced_row(&mut self) {
        if self.routine.long {
            let (next, rest) = (self.asm.label(), self.asm.label());
            self.round_down(END, CHUNK);
            self.asm.jump(Code::Je_rel32_64, rest);
            self.asm.place(next);
            let whole = RowPart { ahead: 0, last: false };
            if let Some(wide) = self.wide.take() {
                self.steps(&wide.allocation.steps, whole, Reducing::Fourths, Self::CHUNK_WINDOW);
            } else {
                for fourth in 0..4 {
                    let part = RowPart { ahead: fourth * RUNNING / I::LANES, last: false };
                    self.step(part, Reducing::Fourths, Self::CHUNK_WINDOW);
                }
            }
            emit!(self.asm, Add_rm64_imm8, COLUMN, immediate(I::LANES));
            // Repeats these instructions for 64 columns, then advances to the next chunk.
            emit!(self.asm, Test_rm32_imm32, Register::ECX, immediate(RUNNING) - 1);
            self.asm.jump(Code::Jne_rel32_64, next);
            emit!(self.asm, Add_rm64_imm32, COLUMN, immediate(CHUNK - RUNNING));
            self.jump_if(Code::Jb_rel32_64, [COLUMN, END], next);
            self.asm.place(rest);
        }
        self.vectors_until(RUNNING, Reducing::Each(RUNNING));
        self.vectors_until(GROUP, Reducing::Each(GROUP));
        if I::LANES < GROUP {
            self.vectors_until(I::LANES, Reducing::Last);
        }
        self.last_elements();
        for reduction in 0..self.routine.reductions.len() {
            self.reduced(reduction);
        }
    }

    /// Emits code that combines the running results of every `step`-th vector, starting at `start`. The
    /// result is in the first of the given registers, of which each level of the tree takes one.
    fn tree(&mut self, reduction: usize, start: usize, step: usize, registers: &[Register]) {
        let vectors = RUNNING / I::LANES;
        let Reduction { op, dtype, .. } = self.routine.reductions[reduction];
        if step == vectors {
            let place = at(FRAME, self.running(reduction) + 4 * I::LANES * start);
            return emit!(self.asm, [I::COPY], registers[0], place);
        }
        self.tree(reduction, start, 2 * step, registers);
        self.tree(reduction, start + step, 2 * step, &registers[1..]);
        let [a, b] = [registers[0], registers[1]];
        let flags = self.flags[reduction];
        if let Some(flags) = flags.filter(|_| 2 * step == vectors) {
            I::keep_ordered(&mut self.asm, flags[start % 2], a, b);
        }
        combine_ordered::<I>(&mut self.asm, (op, dtype), flags.is_some(), a, b);
    }

    /// Emits code that combines the running results with each other, then with the last elements, then with
    /// the row's result.
    fn reduced(&mut self, reduction: usize) {
        let Reduction { op, dtype, target, .. } = self.routine.reductions[reduction];
        let of = (op, dtype);
        let ([result, second], [scratch, other]) =
            ([0, 1].map(|part| held::<I>(reduction, part)), I::SCRATCH);
        self.tree(reduction, 0, 1, &[result, second, other, scratch]);
        let last = displacement(self.last(reduction));
        let (asm, flags) = (&mut self.asm, self.flags[reduction]);
        let mut distance = I::LANES / 2;
        while distance > 0 {
            I::swap(asm, other, result, distance);
            combine_ordered::<I>(asm, of, flags.is_some(), result, other);
            distance /= 2;
        }
        if let Some(flags) = flags {
            // Replaces the result by a NaN unless all lanes were ordered. It does not matter which NaN it is.
            let ordered = asm.label();
            I::jump_if_set(asm, flags, ordered);
            load_vector::<I>(asm, result, Vector::Invariant(POOL, self.nan));
            asm.place(ordered);
        }
        let (next, end) = (asm.label(), asm.label());
        emit!(asm, Mov_r64_rm64, END, COLUMNS);
        emit!(asm, And_rm64_imm32, END, immediate(GROUP) - 1);
        emit!(asm, Xor_r32_rm32, Register::EAX, Register::EAX);
        asm.place(next);
        emit!(asm, Cmp_r64_rm64, Register::RAX, END);
        asm.jump(Code::Jae_rel32_64, end);
        let element = MemoryOperand::with_base_index_scale_displ_size(FRAME, Register::RAX, 4, last, 1);
        emit!(asm, [I::BROADCAST], other, element);
        combine::<I>(asm, of, result, result, other);
        emit!(asm, Inc_rm32, Register::EAX);
        asm.jump(Code::Jmp_rel32_64, next);
        asm.place(end);
        emit!(asm, Mov_r64_rm64, Register::RAX, at(FRAME, Frame::operand(target)));
        let element = MemoryOperand::with_base(Register::RAX);
        emit!(asm, [I::BROADCAST], other, element);
        combine::<I>(asm, of, other, other, result);
        emit!(asm, [I::STORE_FIRST], element, low(other));
    }
}
