//! Lowers elementwise ops to lines of vector code.
//!
//! In: an op by name, and its operands. Out: the lines that compute it. Sines, powers, remainders and
//! divisions of integers have no lines: they stay loops over memory. Always holds: the bits are those of the
//! op's loop ([`MapOp::function`]), but for which NaN a NaN is.

use super::ir::{Builder, Lane, MaskOp, One, Op, Source, Two};
use crate::cpu::elementwise::functions::MapOp;
use gradloom_core::ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

impl Builder {
    /// Whether [`Builder::map`] takes an op.
    pub(in crate::cpu) fn can_map(op: MapOp) -> bool {
        match op {
            MapOp::Unary(op, _) => !matches!(op, UnaryOp::Sin | UnaryOp::Cos),
            MapOp::Binary(BinaryOp::Div, dtype) => dtype == DType::F32,
            MapOp::Binary(op, _) => !matches!(op, BinaryOp::Rem | BinaryOp::Pow),
            MapOp::Pair { .. } | MapOp::Compare(..) | MapOp::Select(_) | MapOp::Cast(..) => true,
        }
    }

    /// The result of an op.
    ///
    /// # Panics
    /// For an op that has no lowering, and for another number of operands than it takes.
    pub(in crate::cpu) fn map(&mut self, op: MapOp, operands: &[Source]) -> Source {
        match (op, operands) {
            (MapOp::Unary(op, dtype), &[a]) => self.unary(op, dtype, a),
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

    fn unary(&mut self, op: UnaryOp, dtype: DType, a: Source) -> Source {
        match (op, dtype) {
            (UnaryOp::Detach, _) => a,
            (UnaryOp::Not, DType::Bool) => {
                let none = self.mask(MaskOp::Xor, a, a);
                self.mask(MaskOp::Same, a, none)
            }
            (UnaryOp::Not, _) => {
                let all = self.bits(u32::MAX);
                self.two(Two::Xor, a, all)
            }
            (UnaryOp::Neg, DType::F32) => self.negated(a),
            (UnaryOp::Neg, _) => {
                let zero = self.bits(0);
                self.two(Two::SubInt, zero, a)
            }
            (UnaryOp::Abs, DType::F32) => self.magnitude(a),
            (UnaryOp::Abs, _) => self.one(One::AbsInt, a),
            (UnaryOp::Sign, DType::F32) => {
                let (magnitude, zero, one) = (self.magnitude(a), self.bits(0), self.float(1.0));
                let signed = self.with_sign(one, a);
                let any = self.compare(CompareOp::Gt, Lane::Float, magnitude, zero);
                self.select(any, signed, a)
            }
            (UnaryOp::Sign, _) => {
                let (low, high) = (self.bits((-1i32).cast_unsigned()), self.bits(1));
                let limited = self.two(Two::MinSigned, a, high);
                self.two(Two::MaxSigned, limited, low)
            }
            (UnaryOp::Floor, _) => self.one(One::Floor, a),
            (UnaryOp::Exp, _) => self.exp(a),
            (UnaryOp::Expm1, _) => self.expm1(a),
            (UnaryOp::Log, _) => self.log(a),
            (UnaryOp::Log1p, _) => self.log1p(a),
            (UnaryOp::Sqrt, _) => self.one(One::Sqrt, a),
            (UnaryOp::Rsqrt, _) => {
                let (root, one) = (self.one(One::Sqrt, a), self.float(1.0));
                self.div(one, root)
            }
            (UnaryOp::Tanh, _) => self.tanh(a),
            (UnaryOp::Sigmoid, _) => self.sigmoid(a),
            (UnaryOp::Erf, _) => self.erf(a),
            (UnaryOp::Sin | UnaryOp::Cos, _) => unreachable!("{op:?} has no lowering"),
        }
    }

    /// Adds the line that combines two results of a reduction.
    pub(in crate::cpu) fn combine(&mut self, op: ReduceOp, dtype: DType, a: Source, b: Source) -> Source {
        let op = match op {
            ReduceOp::Sum => BinaryOp::Add,
            ReduceOp::Prod => BinaryOp::Mul,
            ReduceOp::Max => BinaryOp::Max,
            ReduceOp::Min => BinaryOp::Min,
        };
        self.binary(op, dtype, a, b)
    }

    fn binary(&mut self, op: BinaryOp, dtype: DType, a: Source, b: Source) -> Source {
        let two = match (op, dtype) {
            (BinaryOp::And, DType::Bool) => return self.mask(MaskOp::And, a, b),
            (BinaryOp::Or, DType::Bool) => return self.mask(MaskOp::Or, a, b),
            (BinaryOp::Xor, DType::Bool) => return self.mask(MaskOp::Xor, a, b),
            (BinaryOp::Min | BinaryOp::Max, DType::F32) => {
                let extreme = self.two(if op == BinaryOp::Min { Two::Min } else { Two::Max }, a, b);
                let nan = self.is_nan(a);
                return self.select(nan, a, extreme);
            }
            (BinaryOp::Shl | BinaryOp::Shr, _) => {
                let low = self.bits(31);
                let count = self.two(Two::And, b, low);
                let shift = match (op, dtype) {
                    (BinaryOp::Shl, _) => Two::ShiftLeft,
                    (_, DType::I32) => Two::ShiftRightSigned,
                    _ => Two::ShiftRightUnsigned,
                };
                return self.two(shift, a, count);
            }
            (BinaryOp::Add, DType::F32) => Two::Add,
            (BinaryOp::Sub, DType::F32) => Two::Sub,
            (BinaryOp::Mul, DType::F32) => Two::Mul,
            (BinaryOp::Div, DType::F32) => Two::Div,
            (BinaryOp::Add, _) => Two::AddInt,
            (BinaryOp::Sub, _) => Two::SubInt,
            (BinaryOp::Mul, _) => Two::MulInt,
            (BinaryOp::And, _) => Two::And,
            (BinaryOp::Or, _) => Two::Or,
            (BinaryOp::Xor, _) => Two::Xor,
            (BinaryOp::Min, DType::I32) => Two::MinSigned,
            (BinaryOp::Min, _) => Two::MinUnsigned,
            (BinaryOp::Max, DType::I32) => Two::MaxSigned,
            (BinaryOp::Max, _) => Two::MaxUnsigned,
            (BinaryOp::Div | BinaryOp::Rem | BinaryOp::Pow, _) => {
                unreachable!("{op:?} of {dtype} has no lowering")
            }
        };
        self.two(two, a, b)
    }

    fn comparison(&mut self, op: CompareOp, dtype: DType, a: Source, b: Source) -> Source {
        let lane = match dtype {
            DType::F32 => Lane::Float,
            DType::I32 => Lane::Signed,
            DType::U32 => Lane::Unsigned,
            DType::Bool => {
                let none = self.mask(MaskOp::Xor, a, a);
                let mut is = |op, a, b| self.mask(op, a, b);
                return match op {
                    CompareOp::Eq => is(MaskOp::Same, a, b),
                    CompareOp::Ne => is(MaskOp::Xor, a, b),
                    CompareOp::Lt => is(MaskOp::Without, a, b),
                    CompareOp::Gt => is(MaskOp::Without, b, a),
                    // Not greater, and not less.
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

    fn cast(&mut self, from: DType, to: DType, a: Source) -> Source {
        use DType::{Bool, F32, I32, U32};
        let zero = self.bits(0);
        match (from, to) {
            (F32, F32) | (I32 | U32, I32 | U32) | (Bool, Bool) => a,
            (F32, I32) => {
                let (high, most) = (self.float(2_147_483_648.0), self.bits(i32::MAX.cast_unsigned()));
                let inside = self.one(One::SignedOfFloat, a);
                let above = self.compare(CompareOp::Ge, Lane::Float, a, high);
                let limited = self.select(above, most, inside);
                let nan = self.is_nan(a);
                self.select(nan, zero, limited)
            }
            (F32, U32) => {
                // NaN becomes 0 here.
                let positive = self.two(Two::Max, a, zero);
                self.one(One::UnsignedOfFloat, positive)
            }
            (F32, Bool) => self.compare(CompareOp::Ne, Lane::Float, a, zero),
            (I32 | U32, Bool) => self.value(Op::NotZero, [a]),
            (I32, F32) => self.one(One::FloatOfSigned, a),
            (U32, F32) => self.one(One::FloatOfUnsigned, a),
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
