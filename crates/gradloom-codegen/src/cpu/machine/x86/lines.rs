//! Encodes IR instructions over registers.
//!
//! In: an IR instruction, and the locations of its sources and target. Out: machine instructions of an
//! [`Encoding`]. Invariants without a register are read from memory.

use super::assembler::{Assembler, displacement};
use super::encoding::{COLUMN, Encoding, FRAME, POOL, Vector, at, emit, low, two};
use super::registers::{Location, Step};
use crate::cpu::lanes::BinaryInst;
use crate::cpu::machine::frame::Frame;
use crate::cpu::machine::ir::{Builder, Fetch, Line, Op, SOURCES};
use crate::cpu::machine::isa::VectorIsa;
use crate::cpu::machine::numbers::{InvariantNumber, OperandNumber};
use gradloom_core::ir::{BinaryOp, DType, ReduceOp};
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use std::marker::PhantomData;

/// The part of a row that an IR instruction processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RowPart {
    /// Number of vectors from the current column to the part.
    pub ahead: usize,
    /// True if there are fewer elements than lanes.
    pub last: bool,
}

/// The registers and the memory that IR instructions refer to.
pub(super) struct Places<'a, I> {
    pub frame: Frame,
    /// Register with the address of each operand's row, if the operand has such a register.
    pub pointers: &'a [Option<Register>],
    /// Offset in the pool of each invariant, in bytes, if the pool contains the invariant.
    pub pool: &'a [Option<usize>],
    /// Operands that are written past the caches.
    pub streams: &'a [OperandNumber],
    pub encoding: PhantomData<I>,
}

/// Returns `true` if a reduction computes the maximum or minimum of floats, and must handle NaN.
pub(super) fn is_float_extreme(op: ReduceOp, dtype: DType) -> bool {
    matches!(op.combiner(), BinaryOp::Max | BinaryOp::Min) && dtype == DType::F32
}

/// Returns the instruction for the maximum or minimum of two floats, whose result is the second one if either
/// is NaN.
fn extreme_of(op: ReduceOp) -> BinaryInst {
    if op.combiner() == BinaryOp::Max { BinaryInst::Max } else { BinaryInst::Min }
}

/// Emits `to = a op b` for the maximum or minimum of two floats. The result is unspecified where either is
/// NaN.
pub(super) fn extreme<I: Encoding>(
    asm: &mut Assembler,
    op: ReduceOp,
    to: Register,
    a: Register,
    b: Register,
) {
    emit!(asm, [I::two(extreme_of(op))], to, a, b);
}

/// Returns the instruction that computes an op, if a single one suffices.
fn only_instruction(op: BinaryOp, dtype: DType) -> Option<BinaryInst> {
    let mut builder = Builder::new(VectorIsa::Avx2);
    let [a, b] = [0, 1].map(|number| builder.load(OperandNumber::new(number), 4));
    builder.binary(op, dtype, a, b);
    match builder.finish().all[..] {
        [_, _, Line { op: Op::Two(instruction), .. }] => Some(instruction),
        _ => None,
    }
}

/// Emits `to = a op b` for the operator of a reduction. `to` may be `a`, but not the first scratch register.
pub(super) fn combine<I: Encoding>(
    asm: &mut Assembler,
    (op, dtype): (ReduceOp, DType),
    to: Register,
    a: Register,
    b: Register,
) {
    if is_float_extreme(op, dtype) {
        return I::extreme_or_nan(asm, extreme_of(op), to, a, b);
    }
    let instruction = only_instruction(op.combiner(), dtype).expect("other reductions take one instruction");
    emit!(asm, [I::two(instruction)], to, a, b);
}

impl<I: Encoding> Places<'_, I> {
    fn vector(&self, place: Location) -> Vector {
        match place {
            Location::Vector(number) => Vector::Register(I::vector(number)),
            Location::Invariant(number) => self.invariant(number),
            Location::Mask(_) => unreachable!("a mask is no vector"),
        }
    }

    /// Returns the location of an invariant without a register.
    pub(super) fn invariant(&self, number: InvariantNumber) -> Vector {
        match self.pool[number.index()] {
            Some(offset) => Vector::Invariant(POOL, offset),
            None => Vector::Invariant(FRAME, self.frame.invariant(number)),
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
        let ahead = displacement(I::LANES * part.ahead * bytes);
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
                emit!(asm, [I::WRITE], at(FRAME, self.frame.spill(to)), I::vector(register));
            }
            Step::Reload { register, from } => {
                emit!(asm, [I::COPY], I::vector(register), at(FRAME, self.frame.spill(from)));
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
        let [first, second] = I::SCRATCH;
        let place = |i: usize| sources[i].expect("a line has its sources");
        let source = |i: usize| self.vector(place(i));
        let in_register =
            |asm: &mut Assembler, i: usize, scratch: Register| source(i).in_register::<I>(asm, scratch);
        let source_mask = |i: usize| match place(i) {
            Location::Mask(number) if I::MASKS.is_some() => I::mask(number),
            Location::Vector(number) if I::MASKS.is_none() => I::mask(number),
            other => unreachable!("a mask in {other:?}"),
        };
        let to = || I::vector(target.expect("the line makes a vector"));
        let to_mask = || I::mask(target.expect("the line makes a mask"));
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
                let a = a.in_register::<I>(asm, first);
                two::<I>(asm, I::two(op), to(), a, b);
            }
            Op::One(op) => {
                let a = in_register(asm, 0, first);
                match I::one(op) {
                    (code, Some(number)) => emit!(asm, [code], to(), a, number),
                    (code, None) => emit!(asm, [code], to(), a),
                }
            }
            Op::Compare(op, lane) => {
                let a = in_register(asm, 0, first);
                I::compare(asm, (op, lane), to_mask(), a, source(1));
            }
            Op::Unordered => {
                let a = in_register(asm, 0, first);
                I::unordered(asm, to_mask(), a, source(1));
            }
            Op::NotZero => {
                let a = in_register(asm, 0, first);
                I::not_zero(asm, to_mask(), a);
            }
            Op::Mask(op) => I::combine_masks(asm, op, to_mask(), source_mask(0), source_mask(1)),
            Op::Select => {
                let otherwise = in_register(asm, 2, first);
                I::select(asm, to(), source_mask(0), source(1), otherwise);
            }
            Op::Columns => {
                let ahead = displacement(I::LANES * part.ahead);
                let here = MemoryOperand::with_base_displ_size(COLUMN, ahead, 1);
                emit!(asm, Lea_r32_m, Register::EAX, here);
                I::broadcast_eax(asm, first);
                emit!(asm, [I::two(BinaryInst::AddInt)], to(), first, at(FRAME, Frame::NUMBERS));
            }
            Op::Load(operand) => {
                let from = self.elements(asm, operand, 4, part);
                I::load(asm, to(), from, part.last);
            }
            Op::LoadBytes(operand) => {
                let from = self.elements(asm, operand, 1, part);
                I::load_bytes(asm, to(), from, part.last);
            }
            Op::Store(operand) => {
                let from = in_register(asm, 0, first);
                let elements = self.elements(asm, operand, 4, part);
                match self.streams.contains(&operand) && !part.last {
                    true => emit!(asm, [I::STREAM], elements, from),
                    false => I::store(asm, elements, from, part.last),
                }
            }
            Op::StoreBytes(operand) => {
                let elements = |asm: &mut Assembler| self.elements(asm, operand, 1, part);
                I::store_bytes(asm, &elements, source_mask(0), part.last);
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
                let from = low(in_register(asm, 0, second));
                emit!(asm, Mov_r64_rm64, Register::RAX, at(FRAME, Frame::operand(operand)));
                let (sum, element) = (low(first), MemoryOperand::with_base(Register::RAX));
                emit!(asm, [I::ADD_FIRST], sum, from, element);
                emit!(asm, [I::STORE_FIRST], element, sum);
            }
            Op::Reduce(reduction) => {
                let from = in_register(asm, 0, second);
                reduce(asm, reduction, from, part.ahead);
            }
        }
    }
}
