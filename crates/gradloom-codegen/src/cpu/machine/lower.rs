//! Lowers elementwise ops to vector instructions of the IR.
//!
//! In: an op by name, and its operands. Out: the instructions that compute it. The IR has no instructions for
//! sines, cosines, powers, remainders and divisions of integers, which stay loops over memory. Invariant: the
//! bits are those of the op's formula ([`functions`]), except for the bits of NaNs.

use super::ir::{Builder, Op, VectorOperand};
use crate::cpu::functions::{self, MapOp};
use crate::cpu::lanes::{BinaryInst, LaneKind, Lanes, MaskOp, UnaryInst};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, ReduceOp};

fn no_lines(op: &str, dtype: DType) -> ! {
    unreachable!("{op} of {dtype} has no lines")
}

impl Builder {
    /// Returns `true` if [`Builder::map`] supports an op.
    pub fn can_map(op: MapOp) -> bool {
        match op {
            MapOp::Unary(op, dtype) => functions::unary_has_formula(op, dtype),
            MapOp::Binary(op, dtype) => functions::binary_has_formula(op, dtype),
            MapOp::Pair { .. } | MapOp::Compare(..) | MapOp::Select(_) | MapOp::Cast(..) => true,
        }
    }

    /// Appends the instructions of an op, and returns its result.
    ///
    /// # Panics
    /// Panics if the IR does not support the op, or the op takes another number of operands.
    pub fn map(&mut self, op: MapOp, operands: &[VectorOperand]) -> VectorOperand {
        match (op, operands) {
            (MapOp::Unary(op, dtype), &[a]) => {
                functions::unary_formula(self, op, dtype, [a]).unwrap_or_else(|| no_lines(op.name(), dtype))
            }
            (MapOp::Binary(op, dtype), &[a, b]) => self.binary(op, dtype, a, b),
            (MapOp::Pair { first, second, reversed }, &[a, b, c]) => {
                let inner = self.binary(first, DType::F32, a, b);
                let [a, b] = if reversed { [c, inner] } else { [inner, c] };
                self.binary(second, DType::F32, a, b)
            }
            (MapOp::Compare(op, dtype), &[a, b]) => self.comparison(op, dtype, a, b),
            (MapOp::Select(DType::Bool), &[condition, a, b]) => {
                let a = self.mask(MaskOp::And, condition, a);
                let b = self.mask(MaskOp::Without, condition, b);
                self.mask(MaskOp::Or, a, b)
            }
            (MapOp::Select(_), &[condition, a, b]) => self.select(condition, a, b),
            (MapOp::Cast(from, to), &[a]) => self.cast(from, to, a),
            _ => panic!("gradloom compiled {op:?} of {} operands; please report this", operands.len()),
        }
    }

    /// Appends the instructions that combine two results of a reduction.
    pub fn combine(
        &mut self,
        op: ReduceOp,
        dtype: DType,
        a: VectorOperand,
        b: VectorOperand,
    ) -> VectorOperand {
        self.binary(op.combiner(), dtype, a, b)
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        dtype: DType,
        a: VectorOperand,
        b: VectorOperand,
    ) -> VectorOperand {
        functions::binary_formula(self, op, dtype, [a, b]).unwrap_or_else(|| no_lines(op.name(), dtype))
    }

    fn comparison(
        &mut self,
        op: CompareOp,
        dtype: DType,
        a: VectorOperand,
        b: VectorOperand,
    ) -> VectorOperand {
        let lane = match dtype {
            DType::F32 => LaneKind::Float,
            DType::I32 => LaneKind::Signed,
            DType::U32 => LaneKind::Unsigned,
            DType::F16 | DType::BF16 | DType::U8 | DType::I64 => no_lines(op.name(), dtype),
            DType::Bool => {
                let none = self.mask(MaskOp::Xor, a, a);
                let mut is = |op, a, b| self.mask(op, a, b);
                return match op {
                    CompareOp::Eq => is(MaskOp::Same, a, b),
                    CompareOp::Ne => is(MaskOp::Xor, a, b),
                    CompareOp::Lt => is(MaskOp::Without, a, b),
                    CompareOp::Gt => is(MaskOp::Without, b, a),
                    // `a <= b` is the negation of `a > b`, and `a >= b` that of `a < b`.
                    CompareOp::Le => {
                        let greater = is(MaskOp::Without, b, a);
                        is(MaskOp::Same, greater, none)
                    }
                    CompareOp::Ge => {
                        let less = is(MaskOp::Without, a, b);
                        is(MaskOp::Same, less, none)
                    }
                };
            }
        };
        self.compare(op, lane, a, b)
    }

    fn cast(&mut self, from: DType, to: DType, a: VectorOperand) -> VectorOperand {
        use DType::{BF16, Bool, F16, F32, I32, I64, U8, U32};
        let zero = self.bits(0);
        match (from, to) {
            (F32, F32) | (I32 | U32, I32 | U32) | (Bool, Bool) => a,
            // These conversions are only implemented as loops over memory.
            (F16 | BF16 | U8 | I64, _) | (_, F16 | BF16 | U8 | I64) => no_lines("cast", to),
            (F32, I32) => {
                let (high, most) = (self.float(2_147_483_648.0), self.bits(i32::MAX.cast_unsigned()));
                let inside = self.one(UnaryInst::SignedOfFloat, a);
                let above = self.compare(CompareOp::Ge, LaneKind::Float, a, high);
                let limited = self.select(above, most, inside);
                let nan = self.is_nan(a);
                self.select(nan, zero, limited)
            }
            (F32, U32) => {
                // Converts NaN and negative numbers to 0.
                let positive = self.two(BinaryInst::Max, a, zero);
                self.one(UnaryInst::UnsignedOfFloat, positive)
            }
            (F32, Bool) => self.compare(CompareOp::Ne, LaneKind::Float, a, zero),
            (I32 | U32, Bool) => self.value(Op::NotZero, [a]),
            (I32, F32) => self.one(UnaryInst::FloatOfSigned, a),
            (U32, F32) => self.one(UnaryInst::FloatOfUnsigned, a),
            (Bool, F32) => {
                let one = self.float(1.0);
                self.select(a, one, zero)
            }
            (Bool, I32 | U32) => {
                let one = self.bits(1);
                self.select(a, one, zero)
            }
        }
    }
}
