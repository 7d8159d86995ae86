//! Encodes IR instructions over registers.
//!
//! In: an IR instruction, and the locations of its sources and target. Out: machine instructions. Invariants
//! without a register are read from memory.

use super::assembler::{Assembler, displacement};
use super::avx512::{
    COLUMN, FRAME, LAST, POOL, SCRATCH, SCRATCH_MASK, UNORDERED, Vector, at, code_of_compare, code_of_one,
    code_of_two, compare, emit, low, mask, push, push_under, two, vector,
};
use super::registers::{Location, Step};
use crate::cpu::lanes::{BinaryInst, LaneKind, MaskOp};
use crate::cpu::machine::frame::Frame;
use crate::cpu::machine::ir::{Builder, Fetch, Line, Op, SOURCES};
use crate::cpu::machine::isa::VectorIsa;
use crate::cpu::machine::numbers::{InvariantNumber, OperandNumber};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, ReduceOp};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

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
