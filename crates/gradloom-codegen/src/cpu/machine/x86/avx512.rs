//! Encodes IR instructions over registers as AVX-512 instructions.
//!
//! In: an IR instruction, and the locations of its sources and target. Out: machine instructions. zmm0, zmm1
//! and k7 are scratch registers, k1 contains the lanes of a row's last elements, and zmm2 and up and k2 to k6
//! are assigned to values. Invariants without a register are read from memory as embedded broadcasts.
//! Invariant: no IR instruction changes a register that it does not name, except for zmm0, zmm1, k7 and rax.

use super::assembler::{Assembler, displacement};
use super::registers::{Location, Step};
use crate::cpu::lanes::{BinaryInst, LaneKind, MaskOp, UnaryInst};
use crate::cpu::machine::frame::Frame;
use crate::cpu::machine::ir::{Builder, Fetch, Line, Op, SOURCES};
use crate::cpu::machine::isa::VectorIsa;
use crate::cpu::machine::numbers::{InvariantNumber, OperandNumber};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, ReduceOp};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// Number of vector registers that can be assigned.
pub(super) const VECTORS: usize = 30;
/// Number of mask registers that can be assigned.
pub(super) const MASKS: usize = 5;
/// Register that contains the address of the frame.
pub(super) const FRAME: Register = Register::RDI;
/// Register that contains the address of the pool of constants.
pub(super) const POOL: Register = Register::RSI;
/// Register that contains the index of the current column.
pub(super) const COLUMN: Register = Register::RCX;
/// Mask of the lanes of a row's last elements.
pub(super) const LAST: Register = Register::K1;
const SCRATCH: [Register; 2] = [Register::ZMM0, Register::ZMM1];
const SCRATCH_MASK: Register = Register::K7;

/// Returns the vector register with this number.
pub(super) fn vector(number: u8) -> Register {
    Register::ZMM2 + u32::from(number)
}

pub(super) fn mask(number: u8) -> Register {
    Register::K2 + u32::from(number)
}

fn low(register: Register) -> Register {
    Register::XMM0 + (register as u32 - Register::ZMM0 as u32)
}

/// A register, or an element in memory that is broadcast to all lanes.
#[derive(Clone, Copy)]
pub(super) enum Vector {
    Register(Register),
    Repeated(Register, usize),
    /// Base, index (scaled by 4), and offset in bytes.
    RepeatedAt(Register, Register, usize),
}

/// The part of a row that an IR instruction processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RowPart {
    /// Number of vectors from the current column to the part.
    pub ahead: usize,
    /// True if there are fewer elements than lanes. [`LAST`] then contains the lanes with elements.
    pub last: bool,
}

/// The registers and the memory that IR instructions refer to.
pub(super) struct Places<'a> {
    pub frame: Frame,
    /// Register with the address of each operand's row, if the operand has such a register.
    pub pointers: &'a [Option<Register>],
    /// Index in the pool of each invariant, if the pool contains the invariant.
    pub pool: &'a [Option<usize>],
    /// Operands that are written past the caches.
    pub streams: &'a [OperandNumber],
}

fn memory(base: Register, bytes: usize, is_broadcast: bool) -> MemoryOperand {
    MemoryOperand::new(base, Register::None, 1, displacement(bytes), 1, is_broadcast, Register::None)
}

/// Returns `base + displacement`.
pub(super) fn at(base: Register, displacement: usize) -> MemoryOperand {
    memory(base, displacement, false)
}

macro_rules! emit {
    ($asm:expr, $code:ident $(, $operand:expr)*) => {{
        let instruction = emit!(@make $code $(, $operand)*);
        $asm.push(&instruction);
    }};
    (@make $code:ident, $a:expr) => {
        Instruction::with1(Code::$code, $a).expect("operands of the instruction")
    };
    (@make $code:ident, $a:expr, $b:expr) => {
        Instruction::with2(Code::$code, $a, $b).expect("operands of the instruction")
    };
    (@make $code:ident, $a:expr, $b:expr, $c:expr) => {
        Instruction::with3(Code::$code, $a, $b, $c).expect("operands of the instruction")
    };
    (@make $code:ident, $a:expr, $b:expr, $c:expr, $d:expr) => {
        Instruction::with4(Code::$code, $a, $b, $c, $d).expect("operands of the instruction")
    };
    (@make $code:ident) => { Instruction::with(Code::$code) };
}
pub(super) use emit;

fn push(asm: &mut Assembler, instruction: Result<Instruction, iced_x86::IcedError>) {
    asm.push(&instruction.expect("operands of the instruction"));
}

fn push_under(asm: &mut Assembler, instruction: Instruction, mask: Option<Register>, zeroes: bool) {
    let mut instruction = instruction;
    if let Some(mask) = mask {
        instruction.set_op_mask(mask);
        instruction.set_zeroing_masking(zeroes);
    }
    asm.push(&instruction);
}

impl Vector {
    fn memory(self) -> Option<MemoryOperand> {
        match self {
            Vector::Register(_) => None,
            Vector::Repeated(base, displacement) => Some(memory(base, displacement, true)),
            Vector::RepeatedAt(base, index, bytes) => {
                Some(MemoryOperand::new(base, index, 4, displacement(bytes), 1, true, Register::None))
            }
        }
    }

    /// Returns the register that contains the vector, which is loaded to `scratch` if it is in memory.
    fn in_register(self, asm: &mut Assembler, scratch: Register) -> Register {
        match self {
            Vector::Register(register) => register,
            _ => {
                load_repeated(asm, scratch, self);
                scratch
            }
        }
    }
}

/// Broadcasts an element to all lanes, or copies a register.
pub(super) fn load_repeated(asm: &mut Assembler, to: Register, from: Vector) {
    match from.memory() {
        Some(mut memory) => {
            memory.is_broadcast = false;
            emit!(asm, EVEX_Vbroadcastss_zmm_k1z_xmmm32, to, memory);
        }
        None => {
            let Vector::Register(from) = from else { unreachable!("what is not in memory is a register") };
            if from != to {
                emit!(asm, EVEX_Vmovaps_zmm_k1z_zmmm512, to, from);
            }
        }
    }
}

fn code_of_two(op: BinaryInst) -> Code {
    match op {
        BinaryInst::Add => Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
        BinaryInst::Sub => Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
        BinaryInst::Mul => Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
        BinaryInst::Div => Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
        BinaryInst::Min => Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
        BinaryInst::Max => Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
        BinaryInst::Scale => Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er,
        BinaryInst::And => Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::Or => Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::Xor => Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::AddInt => Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::SubInt => Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::MulInt => Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::MinSigned => Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::MinUnsigned => Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::MaxSigned => Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::MaxUnsigned => Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::ShiftLeft => Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::ShiftRightSigned => Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::ShiftRightUnsigned => Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
    }
}

/// Returns the machine instruction for a function of one lane, and its immediate operand, if any.
fn code_of_one(op: UnaryInst) -> (Code, Option<i32>) {
    match op {
        UnaryInst::Sqrt => (Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, None),
        // Rounds down, without an exception for numbers that are not integers.
        UnaryInst::Floor => (Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, Some(9)),
        UnaryInst::AbsInt => (Code::EVEX_Vpabsd_zmm_k1z_zmmm512b32, None),
        UnaryInst::FloatOfSigned => (Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, None),
        UnaryInst::FloatOfUnsigned => (Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er, None),
        UnaryInst::SignedOfFloat => (Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae, None),
        UnaryInst::UnsignedOfFloat => (Code::EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae, None),
        UnaryInst::ShiftLeftBy(count) => (Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, Some(count.into())),
        UnaryInst::ShiftRightBy(count) => (Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, Some(count.into())),
    }
}

/// Returns the machine instruction for a comparison, and the immediate operand that selects the comparison.
fn code_of_compare(op: CompareOp, lane: LaneKind) -> (Code, i32) {
    let code = match lane {
        LaneKind::Float => Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
        LaneKind::Signed => Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
        LaneKind::Unsigned => Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
    };
    // The predicates for floats are quiet, and only `Ne` holds for NaN.
    let [float, int] = match op {
        CompareOp::Eq => [0x00, 0],
        CompareOp::Ne => [0x04, 4],
        CompareOp::Lt => [0x11, 1],
        CompareOp::Le => [0x12, 2],
        CompareOp::Gt => [0x1e, 6],
        CompareOp::Ge => [0x1d, 5],
    };
    (code, if lane == LaneKind::Float { float } else { int })
}

const UNORDERED: i32 = 3;
const ORDERED: i32 = 7;

/// Clears the bits of the mask `ordered` where either of two vectors is NaN.
pub(super) fn keep_ordered(asm: &mut Assembler, ordered: Register, a: Register, b: Register) {
    let code = code_of_compare(CompareOp::Eq, LaneKind::Float).0;
    let compare = Instruction::with4(code, ordered, a, b, ORDERED).expect("operands of the instruction");
    push_under(asm, compare, Some(ordered), false);
}

/// Emits `to = a op b` for the maximum or minimum of two floats. The result is unspecified where either is
/// NaN.
pub(super) fn extreme(asm: &mut Assembler, op: ReduceOp, to: Register, a: Register, b: Register) {
    two(asm, code_of_extreme(op), to, a, Vector::Register(b));
}

/// Returns `true` if a reduction computes the maximum or minimum of floats, and must handle NaN.
pub(super) fn is_float_extreme(op: ReduceOp, dtype: DType) -> bool {
    matches!(op.combiner(), BinaryOp::Max | BinaryOp::Min) && dtype == DType::F32
}

/// Returns the machine instruction for the maximum or minimum of two floats, whose result is the second one
/// if either is NaN.
fn code_of_extreme(op: ReduceOp) -> Code {
    code_of_two(if op.combiner() == BinaryOp::Max { BinaryInst::Max } else { BinaryInst::Min })
}

/// Emits `to = op(a, b)`; `b` may be in memory.
fn two(asm: &mut Assembler, code: Code, to: Register, a: Register, b: Vector) {
    push(
        asm,
        match (b, b.memory()) {
            (_, Some(memory)) => Instruction::with3(code, to, a, memory),
            (Vector::Register(b), None) => Instruction::with3(code, to, a, b),
            _ => unreachable!("what is not in memory is a register"),
        },
    );
}

fn compare(asm: &mut Assembler, code: Code, to: Register, a: Register, b: Vector, which: i32) {
    push(
        asm,
        match (b, b.memory()) {
            (_, Some(memory)) => Instruction::with4(code, to, a, memory, which),
            (Vector::Register(b), None) => Instruction::with4(code, to, a, b, which),
            _ => unreachable!("what is not in memory is a register"),
        },
    );
}

/// Returns the instruction that computes an op, if a single one suffices.
fn only_instruction(op: BinaryOp, dtype: DType) -> Option<BinaryInst> {
    let mut builder = Builder::new(VectorIsa::Avx512);
    let [a, b] = [0, 1].map(|number| builder.load(OperandNumber::new(number), 4));
    builder.binary(op, dtype, a, b);
    match builder.finish().all[..] {
        [_, _, Line { op: Op::Two(instruction), .. }] => Some(instruction),
        _ => None,
    }
}

/// Emits `to = a op b` for the operator of a reduction. `to` may be `a`, but not zmm0.
pub(super) fn combine(
    asm: &mut Assembler,
    (op, dtype): (ReduceOp, DType),
    to: Register,
    a: Register,
    b: Vector,
) {
    if is_float_extreme(op, dtype) {
        let nan = code_of_compare(CompareOp::Eq, LaneKind::Float).0;
        compare(asm, nan, SCRATCH_MASK, a, Vector::Register(a), UNORDERED);
        two(asm, code_of_extreme(op), SCRATCH[0], a, b);
        let keep = emit!(@make EVEX_Vmovaps_zmm_k1z_zmmm512, SCRATCH[0], a);
        push_under(asm, keep, Some(SCRATCH_MASK), false);
        emit!(asm, EVEX_Vmovaps_zmm_k1z_zmmm512, to, SCRATCH[0]);
        return;
    }
    let instruction = only_instruction(op.combiner(), dtype).expect("other reductions take one instruction");
    two(asm, code_of_two(instruction), to, a, b);
}

impl Places<'_> {
    fn vector(&self, place: Location) -> Vector {
        match place {
            Location::Vector(number) => Vector::Register(vector(number)),
            Location::Invariant(number) => self.invariant(number),
            Location::Mask(_) => unreachable!("a mask is no vector"),
        }
    }

    /// Returns the location of an invariant without a register.
    pub(super) fn invariant(&self, number: InvariantNumber) -> Vector {
        match self.pool[number.index()] {
            Some(constant) => Vector::Repeated(POOL, 4 * constant),
            None => Vector::Repeated(FRAME, self.frame.invariant(number)),
        }
    }

    /// Returns the memory operand for an operand's elements.
    fn elements(
        &self,
        asm: &mut Assembler,
        operand: OperandNumber,
        bytes: usize,
        part: RowPart,
    ) -> MemoryOperand {
        let base = self.pointers[operand.index()].unwrap_or_else(|| {
            emit!(asm, Mov_r64_rm64, Register::RAX, at(FRAME, Frame::operand(operand)));
            Register::RAX
        });
        let ahead = displacement(16 * part.ahead * bytes);
        let scale = u32::try_from(bytes).expect("elements have 1 or 4 bytes");
        MemoryOperand::new(base, COLUMN, scale, ahead, 1, false, Register::None)
    }

    /// Emits a step. `reduce` emits the instructions for a reduction, given its index, the register with the
    /// vector, and the number of vectors ahead.
    pub(super) fn step(
        &self,
        asm: &mut Assembler,
        step: &Step,
        part: RowPart,
        reduce: &mut dyn FnMut(&mut Assembler, usize, Register, usize),
    ) {
        match *step {
            Step::Spill { register, to } => {
                let to = at(FRAME, self.frame.spill(to));
                emit!(asm, EVEX_Vmovaps_zmmm512_k1z_zmm, to, vector(register));
            }
            Step::Reload { register, from } => {
                let from = at(FRAME, self.frame.spill(from));
                emit!(asm, EVEX_Vmovaps_zmm_k1z_zmmm512, vector(register), from);
            }
            Step::Line { op, sources, target, ahead } => {
                let part = RowPart { ahead: part.ahead + ahead, ..part };
                self.line(asm, op, sources, target, part, reduce);
            }
        }
    }

    fn line(
        &self,
        asm: &mut Assembler,
        op: Op,
        sources: [Option<Location>; SOURCES],
        target: Option<u8>,
        part: RowPart,
        reduce: &mut dyn FnMut(&mut Assembler, usize, Register, usize),
    ) {
        let place = |i: usize| sources[i].expect("a line has its sources");
        let source = |i: usize| self.vector(place(i));
        let source_mask = |i: usize| match place(i) {
            Location::Mask(number) => mask(number),
            _ => unreachable!("a mask is in a mask register"),
        };
        let to = || vector(target.expect("the line makes a vector"));
        let to_mask = || mask(target.expect("the line makes a mask"));
        let last = part.last.then_some(LAST);
        match op {
            Op::Two(op) => {
                let (mut a, mut b) = (source(0), source(1));
                // The order of operands only affects which NaN is the result.
                let commutes = matches!(
                    op,
                    BinaryInst::Add
                        | BinaryInst::Mul
                        | BinaryInst::And
                        | BinaryInst::Or
                        | BinaryInst::Xor
                        | BinaryInst::AddInt
                        | BinaryInst::MulInt
                );
                if commutes && matches!(b, Vector::Register(_)) && !matches!(a, Vector::Register(_)) {
                    (a, b) = (b, a);
                }
                let a = a.in_register(asm, SCRATCH[0]);
                two(asm, code_of_two(op), to(), a, b);
            }
            Op::One(op) => {
                let a = source(0).in_register(asm, SCRATCH[0]);
                push(
                    asm,
                    match code_of_one(op) {
                        (code, Some(number)) => Instruction::with3(code, to(), a, number),
                        (code, None) => Instruction::with2(code, to(), a),
                    },
                );
            }
            Op::Compare(op, lane) => {
                let a = source(0).in_register(asm, SCRATCH[0]);
                let (code, which) = code_of_compare(op, lane);
                compare(asm, code, to_mask(), a, source(1), which);
            }
            Op::Unordered => {
                let a = source(0).in_register(asm, SCRATCH[0]);
                let code = code_of_compare(CompareOp::Eq, LaneKind::Float).0;
                compare(asm, code, to_mask(), a, source(1), UNORDERED);
            }
            Op::NotZero => {
                let a = source(0).in_register(asm, SCRATCH[0]);
                emit!(asm, EVEX_Vptestmd_kr_k1_zmm_zmmm512b32, to_mask(), a, a);
            }
            Op::Mask(op) => {
                let (to, a, b) = (to_mask(), source_mask(0), source_mask(1));
                match op {
                    MaskOp::And => emit!(asm, VEX_Kandw_kr_kr_kr, to, a, b),
                    MaskOp::Or => emit!(asm, VEX_Korw_kr_kr_kr, to, a, b),
                    MaskOp::Xor => emit!(asm, VEX_Kxorw_kr_kr_kr, to, a, b),
                    MaskOp::Same => emit!(asm, VEX_Kxnorw_kr_kr_kr, to, a, b),
                    MaskOp::Without => emit!(asm, VEX_Kandnw_kr_kr_kr, to, a, b),
                }
            }
            Op::Select => {
                let otherwise = source(2).in_register(asm, SCRATCH[0]);
                let code = Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
                let instruction = match (source(1), source(1).memory()) {
                    (_, Some(memory)) => Instruction::with3(code, to(), otherwise, memory),
                    (Vector::Register(a), None) => Instruction::with3(code, to(), otherwise, a),
                    _ => unreachable!("what is not in memory is a register"),
                };
                let instruction = instruction.expect("operands of the instruction");
                push_under(asm, instruction, Some(source_mask(0)), false);
            }
            Op::Columns => {
                let here = MemoryOperand::with_base_displ_size(COLUMN, displacement(16 * part.ahead), 1);
                emit!(asm, Lea_r32_m, Register::EAX, here);
                emit!(asm, EVEX_Vpbroadcastd_zmm_k1z_r32, SCRATCH[0], Register::EAX);
                let numbers = at(FRAME, Frame::NUMBERS);
                emit!(asm, EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, to(), SCRATCH[0], numbers);
            }
            Op::Load(operand) => {
                let from = self.elements(asm, operand, 4, part);
                let load = emit!(@make EVEX_Vmovups_zmm_k1z_zmmm512, to(), from);
                push_under(asm, load, last, true);
            }
            Op::LoadBytes(operand) => {
                let from = self.elements(asm, operand, 1, part);
                let load = emit!(@make EVEX_Vpmovzxbd_zmm_k1z_xmmm128, to(), from);
                push_under(asm, load, last, true);
            }
            Op::Store(operand) => {
                let from = source(0).in_register(asm, SCRATCH[0]);
                let elements = self.elements(asm, operand, 4, part);
                if self.streams.contains(&operand) {
                    if part.last {
                        let store = emit!(@make EVEX_Vmovups_zmmm512_k1z_zmm, elements, from);
                        push_under(asm, store, last, false);
                    } else {
                        emit!(asm, EVEX_Vmovntps_m512_zmm, elements, from);
                    }
                    return;
                }
                let store = emit!(@make EVEX_Vmovups_zmmm512_k1z_zmm, elements, from);
                push_under(asm, store, last, false);
            }
            Op::StoreBytes(operand) => {
                let (bytes, low) = (SCRATCH[0], low(SCRATCH[0]));
                emit!(asm, Mov_r32_imm32, Register::EAX, 0x0101_0101);
                emit!(asm, EVEX_Vpbroadcastd_zmm_k1z_r32, bytes, Register::EAX);
                let ones = emit!(@make EVEX_Vmovdqu8_xmm_k1z_xmmm128, low, low);
                push_under(asm, ones, Some(source_mask(0)), true);
                let elements = self.elements(asm, operand, 1, part);
                let store = emit!(@make EVEX_Vmovdqu8_xmmm128_k1z_xmm, elements, low);
                push_under(asm, store, last, false);
            }
            Op::Fetch(Fetch { operand, distance, writes }) => {
                let mut elements = self.elements(asm, operand, 4, part);
                elements.displacement += i64::from(distance);
                match writes {
                    true => emit!(asm, Prefetchw_m8, elements),
                    false => emit!(asm, Prefetcht1_m8, elements),
                }
            }
            Op::AddFirst(operand) => {
                let from = low(source(0).in_register(asm, SCRATCH[1]));
                emit!(asm, Mov_r64_rm64, Register::RAX, at(FRAME, Frame::operand(operand)));
                let (sum, element) = (low(SCRATCH[0]), MemoryOperand::with_base(Register::RAX));
                emit!(asm, EVEX_Vaddss_xmm_k1z_xmm_xmmm32_er, sum, from, element);
                emit!(asm, EVEX_Vmovss_m32_k1_xmm, element, sum);
            }
            Op::Reduce(reduction) => {
                let from = source(0).in_register(asm, SCRATCH[1]);
                reduce(asm, reduction, from, part.ahead);
            }
        }
    }
}
