//! Assembly of a routine: rows of elements, each of which is processed a vector at a time.
//!
//! In: IR instructions, and the operands that they read, write and reduce. Out: machine code for `fn(frame)`.
//! Invariant: a row is reduced in the order of the runtime's reductions: 64 running results, four elements at
//! a time while there are enough, then a tree, then the last elements one by one. The code accesses no
//! operand outside of a row's elements, and preserves all callee-saved registers.

use super::assembler::{Assembler, Label};
use super::avx512::{
    COLUMN, FRAME, LAST, MASKS, POOL, VECTORS, Vector, at, emit, keep_ordered, load_repeated, mask, vector,
};
use super::bounds::Window;
use super::check::check;
use super::lines::{Places, RowPart, combine, extreme, is_float_extreme};
use super::registers::{Allocation, Registers, Step, allocate, allocate_beside, register_number};
use crate::cpu::machine::frame::Frame;
use crate::cpu::machine::ir::{Fetch, Invariant, Lines, Op};
use crate::cpu::machine::numbers::{InvariantNumber, OperandNumber};
use crate::cpu::machine::routine::{Pick, REDUCTIONS, Reduction, Routine};
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use std::collections::HashSet;

/// Number of elements of a vector, in the type of immediate operands.
const LANES: i32 = 16;
/// [`CHUNK`] in the type of immediate operands.
const CHUNK_LANES: i32 = 256;
/// Minimum number of IR instructions for which vectors are interleaved.
const LONG: usize = 16;
/// Number of columns that are reduced at a time.
const CHUNK: usize = 256;
/// Window of code that processes a whole vector of columns.
const VECTOR_WINDOW: Window = Window::Columns(16);
/// Window of the code that reduces a chunk, which also runs one, two and three vectors after the start of the
/// chunk.
const CHUNK_WINDOW: Window = Window::Columns(CHUNK - 3 * 16);
/// Number of registers of a reduction: four vectors of running results, and two for combining four elements.
const HELD: usize = 6;
/// Register that contains the number of columns of a row.
const COLUMNS: Register = Register::RDX;
/// Register that contains the end of a loop over columns.
const END: Register = Register::R8;
/// Register that contains the end of the row's whole vectors.
const WHOLE: Register = Register::R9;
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
pub fn assemble(routine: &Routine) -> Option<Result<(Vec<u8>, usize), String>> {
    assert!(routine.reductions.len() <= REDUCTIONS, "a routine with too many reductions");
    let lines = &routine.lines;
    let vectors = VECTORS - HELD * routine.reductions.len();
    let flags = flags(routine);
    let masks = MASKS - flags.iter().flatten().flatten().collect::<HashSet<_>>().len();
    let registers = Registers { vectors, masks: Some(masks) };
    let wide = interleaved(routine, registers);
    let allocation = match &wide {
        Some(wide) => allocate_beside(lines, registers, wide.allocation.invariants.clone())?,
        None => allocate(lines, picked(routine), registers)?,
    };
    let pick = |pick: &Pick| allocate_beside(&pick.lines, registers, allocation.invariants.clone());
    let picks = routine.picks.iter().map(pick).collect::<Option<Vec<Allocation>>>()?;
    let spills = picks.iter().map(|pick| pick.spills).fold(allocation.spills, usize::max);
    let mut pool = Vec::new();
    let mut in_pool = |bits: u32| {
        pool.iter().position(|&known| known == bits).unwrap_or_else(|| {
            pool.push(bits);
            pool.len() - 1
        })
    };
    let constants: Vec<Option<usize>> = lines
        .invariants
        .iter()
        .map(|invariant| match invariant {
            Invariant::Constant(bits) => Some(in_pool(*bits)),
            Invariant::Row(_) => None,
        })
        .collect();
    let identities: Vec<usize> =
        routine.reductions.iter().map(|reduction| in_pool(reduction.identity)).collect();
    let nan = in_pool(f32::NAN.to_bits());
    let frame = Frame::new(routine.operands.len(), routine.reductions.len(), spills, 4);
    if let Err(what) = check_all(routine, wide.as_ref(), &allocation, &picks, registers) {
        return Some(Err(what));
    }
    let pointers = pointers(routine);
    let frame_bytes = frame.bytes(lines.invariants.len());
    let places = Places { frame, pointers: &pointers, pool: &constants, streams: &routine.streams };
    let asm = Assembler::new(pool, frame_bytes, &routine.operands);
    let mut emitter = Emitter { asm, routine, allocation, wide, picks, flags, places, identities, nan };
    emitter.function();
    Some(emitter.asm.finish().map(|code| (code, frame_bytes)))
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

/// Interleaves the instructions of a long routine for several vectors, as many as fit in registers. Returns
/// `None` if the routine is too short or the registers only suffice for one vector.
fn interleaved(routine: &Routine, registers: Registers) -> Option<Wide> {
    let reduces = !routine.reductions.is_empty();
    let computing = routine.lines.all.iter().filter(|line| !matches!(line.op, Op::Fetch(_))).count();
    if computing < LONG || (reduces && !routine.long) {
        return None;
    }
    let choices: &[usize] = if reduces { &[4] } else { &[4, 2] };
    choices.iter().find_map(|&vectors| {
        // A reduction processes elements that are four vectors apart.
        let lines = routine.lines.interleaved(vectors, if reduces { 4 } else { 1 });
        let allocation = allocate(&lines, picked(routine), registers)?;
        (allocation.spills == 0).then_some(Wide { lines, allocation, vectors })
    })
}

/// Returns, for each reduction to the maximum or minimum of floats, two mask registers, which may be the same
/// one. They contain the lanes that have had no NaN.
fn flags(routine: &Routine) -> Vec<Option<[Register; 2]>> {
    let extremes =
        routine.reductions.iter().filter(|reduction| is_float_extreme(reduction.op, reduction.dtype)).count();
    // Uses two registers if only one reduction needs them, because each change of a register depends on the
    // previous one.
    let each = if extremes == 1 { 2 } else { 1 };
    let mut free = (0..MASKS).rev().map(|number| mask(register_number(number)));
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

struct Emitter<'a> {
    asm: Assembler,
    routine: &'a Routine,
    allocation: Allocation,
    wide: Option<Wide>,
    picks: Vec<Allocation>,
    flags: Vec<Option<[Register; 2]>>,
    places: Places<'a>,
    /// Index in the pool of each reduction's identity.
    identities: Vec<usize>,
    /// Index in the pool of a NaN.
    nan: usize,
}

/// Method of reducing the vectors of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reducing {
    /// As one of four vectors that are combined first: those 0, 4, 8 and 12 vectors ahead, in this order.
    Fourths,
    /// Combined with the first running results.
    Each,
    /// Stored, to be combined later, element by element.
    Last,
}

/// Returns a register of a reduction. Parts 0 to 3 are the running results, and parts 4 and 5 combine four
/// elements.
fn held(reduction: usize, part: usize) -> Register {
    vector(register_number(VECTORS - HELD * (reduction + 1) + part))
}

impl Emitter<'_> {
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
                load_repeated(&mut self.asm, register, self.places.invariant(InvariantNumber::new(number)));
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
        let given_out = VECTORS - HELD * self.routine.reductions.len() - held;
        vector(register_number(given_out + usize::from(number)))
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
                    emit!(self.asm, EVEX_Vpbroadcastd_zmm_k1z_r32, register, Register::EAX);
                }
                None => {
                    let place = at(FRAME, self.places.frame.invariant(InvariantNumber::new(number)));
                    emit!(self.asm, Mov_rm32_r32, place, Register::EAX);
                }
            }
        }
        for (operand, pointer) in self.places.pointers.iter().enumerate() {
            if let Some(pointer) = pointer {
                emit!(
                    self.asm,
                    Mov_r64_rm64,
                    *pointer,
                    at(FRAME, Frame::operand(OperandNumber::new(operand)))
                );
            }
        }
        (0..self.picks.len()).for_each(|pick| self.pick(pick));
        if self.routine.lines.is_empty() {
            return;
        }
        for &flag in self.flags.iter().flatten().flatten() {
            emit!(self.asm, VEX_Kxnorw_kr_kr_kr, flag, flag, flag);
        }
        for (reduction, &identity) in self.identities.iter().enumerate() {
            load_repeated(&mut self.asm, held(reduction, 0), Vector::Repeated(POOL, 4 * identity));
            for part in 1..4 {
                let to = held(reduction, part);
                load_repeated(&mut self.asm, to, Vector::Register(held(reduction, 0)));
            }
        }
        emit!(self.asm, Xor_r32_rm32, Register::ECX, Register::ECX);
        if self.routine.reductions.is_empty() {
            self.mapped_row();
        } else {
            self.reduced_row();
        }
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
        emit!(self.asm, Mov_r32_imm32, Register::EAX, 1);
        emit!(self.asm, VEX_Kmovw_kr_r32, LAST, Register::EAX);
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
        let (routine, frame, flags) = (self.routine, self.places.frame, &self.flags);
        let mut reduce = |asm: &mut Assembler, reduction: usize, from: Register, ahead: usize| {
            let op = routine.reductions[reduction].op;
            let of = (routine.reductions[reduction].op, routine.reductions[reduction].dtype);
            let [running, first, second] = [0, 4, 5].map(|part| held(reduction, part));
            let from_vector = Vector::Register(from);
            match (reducing, ahead / 4) {
                (Reducing::Fourths, 0) => load_repeated(asm, first, from_vector),
                (Reducing::Fourths, 1) if let Some([ordered, _]) = flags[reduction] => {
                    keep_ordered(asm, ordered, first, from);
                    extreme(asm, op, first, first, from);
                }
                (Reducing::Fourths, 3) if let Some([_, ordered]) = flags[reduction] => {
                    keep_ordered(asm, ordered, second, from);
                    extreme(asm, op, second, second, from);
                    extreme(asm, op, first, first, second);
                    extreme(asm, op, running, running, first);
                }
                (Reducing::Fourths, 1) => combine(asm, of, first, first, from_vector),
                (Reducing::Fourths, 2) => load_repeated(asm, second, from_vector),
                (Reducing::Fourths, _) => {
                    combine(asm, of, second, second, from_vector);
                    combine(asm, of, first, first, Vector::Register(second));
                    combine(asm, of, running, running, Vector::Register(first));
                }
                (Reducing::Each, _) => combine(asm, of, running, running, from_vector),
                (Reducing::Last, _) => {
                    emit!(asm, EVEX_Vmovaps_zmmm512_k1z_zmm, at(FRAME, frame.buffer(reduction)), from);
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
    fn round_down(&mut self, end: Register, multiple: i32) {
        emit!(self.asm, Mov_r64_rm64, end, COLUMNS);
        emit!(self.asm, And_rm64_imm32, end, -multiple);
    }

    fn jump_if(&mut self, code: Code, [a, b]: [Register; 2], to: Label) {
        emit!(self.asm, Cmp_r64_rm64, a, b);
        self.asm.jump(code, to);
    }

    fn mapped_row(&mut self) {
        let (next, last) = (self.asm.label(), self.asm.label());
        if let Some(wide) = self.wide.take() {
            let (several, one) = (self.asm.label(), self.asm.label());
            let elements = 16 * wide.vectors;
            let several_window = Window::Columns(elements);
            let elements = i32::try_from(elements).expect("a few vectors");
            self.round_down(END, elements);
            self.asm.jump(Code::Je_rel32_64, one);
            self.asm.place(several);
            self.steps(
                &wide.allocation.steps,
                RowPart { ahead: 0, last: false },
                Reducing::Each,
                several_window,
            );
            emit!(self.asm, Add_rm64_imm8, COLUMN, elements);
            self.jump_if(Code::Jb_rel32_64, [COLUMN, END], several);
            self.asm.place(one);
            self.round_down(END, LANES);
            self.jump_if(Code::Jae_rel32_64, [COLUMN, END], last);
        } else {
            self.round_down(END, LANES);
            self.asm.jump(Code::Je_rel32_64, last);
        }
        self.asm.place(next);
        self.step(RowPart { ahead: 0, last: false }, Reducing::Each, VECTOR_WINDOW);
        emit!(self.asm, Add_rm64_imm8, COLUMN, LANES);
        self.jump_if(Code::Jb_rel32_64, [COLUMN, END], next);
        self.asm.place(last);
        self.last_elements();
    }

    /// Emits the instructions for the last elements, which do not fill a vector. Leaves their number in
    /// [`END`], which [`Self::reduced`] reads.
    fn last_elements(&mut self) {
        let end = self.asm.label();
        emit!(self.asm, Mov_r64_rm64, END, COLUMNS);
        emit!(self.asm, Sub_r64_rm64, END, COLUMN);
        self.asm.jump(Code::Je_rel32_64, end);
        emit!(self.asm, Xor_r32_rm32, Register::EAX, Register::EAX);
        emit!(self.asm, Bts_rm32_r32, Register::EAX, Register::R8D);
        emit!(self.asm, Dec_rm32, Register::EAX);
        emit!(self.asm, VEX_Kmovw_kr_r32, Register::K1, Register::EAX);
        self.step(RowPart { ahead: 0, last: true }, Reducing::Last, Window::Last);
        self.asm.place(end);
    }

    fn reduced_row(&mut self) {
        if self.routine.long {
            let (next, rest) = (self.asm.label(), self.asm.label());
            self.round_down(END, CHUNK_LANES);
            self.asm.jump(Code::Je_rel32_64, rest);
            self.asm.place(next);
            if let Some(wide) = self.wide.take() {
                self.steps(
                    &wide.allocation.steps,
                    RowPart { ahead: 0, last: false },
                    Reducing::Fourths,
                    CHUNK_WINDOW,
                );
            } else {
                for fourth in 0..4 {
                    self.step(RowPart { ahead: 4 * fourth, last: false }, Reducing::Fourths, CHUNK_WINDOW);
                }
            }
            self.rotate();
            emit!(self.asm, Add_rm64_imm8, COLUMN, LANES);
            // Repeats these instructions four times, then advances to the next chunk.
            emit!(self.asm, Test_rm32_imm32, Register::ECX, 63);
            self.asm.jump(Code::Jne_rel32_64, next);
            emit!(self.asm, Add_rm64_imm32, COLUMN, CHUNK_LANES - 64);
            self.jump_if(Code::Jb_rel32_64, [COLUMN, END], next);
            self.asm.place(rest);
        }
        let (next, stay, last) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.round_down(END, 64);
        self.round_down(WHOLE, LANES);
        self.jump_if(Code::Jae_rel32_64, [COLUMN, WHOLE], last);
        self.asm.place(next);
        self.step(RowPart { ahead: 0, last: false }, Reducing::Each, VECTOR_WINDOW);
        self.jump_if(Code::Jae_rel32_64, [COLUMN, END], stay);
        self.rotate();
        self.asm.place(stay);
        emit!(self.asm, Add_rm64_imm8, COLUMN, LANES);
        self.jump_if(Code::Jb_rel32_64, [COLUMN, WHOLE], next);
        self.asm.place(last);
        self.last_elements();
        for reduction in 0..self.routine.reductions.len() {
            self.reduced(reduction);
        }
    }

    /// Rotates the running results, so that the second ones become the first.
    fn rotate(&mut self) {
        for reduction in 0..self.routine.reductions.len() {
            let first = Register::ZMM0;
            load_repeated(&mut self.asm, first, Vector::Register(held(reduction, 0)));
            for part in 0..3 {
                let from = Vector::Register(held(reduction, part + 1));
                load_repeated(&mut self.asm, held(reduction, part), from);
            }
            load_repeated(&mut self.asm, held(reduction, 3), Vector::Register(first));
        }
    }

    /// Emits code that combines the running results with each other, then with the last elements, then with
    /// the row's result.
    fn reduced(&mut self, reduction: usize) {
        let Reduction { op, dtype, target, .. } = self.routine.reductions[reduction];
        let of = (op, dtype);
        let [a, b, c, d] = [0, 1, 2, 3].map(|part| held(reduction, part));
        let (asm, flags) = (&mut self.asm, self.flags[reduction]);
        if let Some([first, second]) = flags {
            keep_ordered(asm, first, a, c);
            keep_ordered(asm, second, b, d);
        }
        let combine_lanes = |asm: &mut Assembler, to: Register, from: Register| match flags {
            Some(_) => extreme(asm, op, to, to, from),
            None => combine(asm, of, to, to, Vector::Register(from)),
        };
        combine_lanes(asm, a, c);
        combine_lanes(asm, b, d);
        combine_lanes(asm, a, b);
        let other = Register::ZMM1;
        emit!(asm, EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8, other, a, a, 0x4e);
        combine_lanes(asm, a, other);
        emit!(asm, EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8, other, a, a, 0xb1);
        combine_lanes(asm, a, other);
        for swap in [0x4e, 0xb1] {
            emit!(asm, EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8, other, a, swap);
            combine_lanes(asm, a, other);
        }
        if let Some([first, second]) = flags {
            // Replaces the result by a NaN unless all lanes were ordered. It does not matter which NaN it is.
            let ordered = asm.label();
            emit!(asm, VEX_Kandw_kr_kr_kr, Register::K7, first, second);
            emit!(asm, VEX_Kortestw_kr_kr, Register::K7, Register::K7);
            asm.jump(Code::Jb_rel32_64, ordered);
            load_repeated(asm, a, Vector::Repeated(POOL, 4 * self.nan));
            asm.place(ordered);
        }
        let (next, end) = (asm.label(), asm.label());
        emit!(asm, Xor_r32_rm32, Register::EAX, Register::EAX);
        asm.place(next);
        emit!(asm, Cmp_r64_rm64, Register::RAX, END);
        asm.jump(Code::Jae_rel32_64, end);
        let element = Vector::RepeatedAt(FRAME, Register::RAX, self.places.frame.buffer(reduction));
        combine(asm, of, a, a, element);
        emit!(asm, Inc_rm32, Register::EAX);
        asm.jump(Code::Jmp_rel32_64, next);
        asm.place(end);
        emit!(asm, Mov_r64_rm64, Register::RAX, at(FRAME, Frame::operand(target)));
        load_repeated(asm, other, Vector::Repeated(Register::RAX, 0));
        combine(asm, of, other, other, Vector::Register(a));
        emit!(asm, EVEX_Vmovss_m32_k1_xmm, MemoryOperand::with_base(Register::RAX), Register::XMM1);
    }
}
