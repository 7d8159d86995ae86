//! Elementwise functions of two operands.

use super::{CostClass, table};
use crate::float;
use crate::ir::DType::{self, Bool, F32, I32, U32};
use crate::ir::{Builder, CompareOp, UnaryOp, ValueId};

struct Properties {
    name: &'static str,
    /// Dtypes of the operands and of the result.
    dtypes: &'static [DType],
    /// Cost per element, for floats if the op accepts them.
    cost: CostClass,
    /// Function of two floats.
    float: fn(f64, f64) -> f64,
    /// Function of two integers. Only the low 32 bits of its result are significant. Returns `None` for a
    /// division by zero.
    int: fn(i64, i64) -> Option<i64>,
    bool: fn(bool, bool) -> bool,
    /// True if `a op b` always equals `b op a`.
    commutes: bool,
    /// Functions for the cotangents of both operands. `None` if no gradient flows through the op, as through
    /// an op on integers.
    gradients: Option<[Gradient; 2]>,
}

/// Appends the cotangent of one operand, computed from the result's cotangent `g`, both operands and the
/// result `y`.
type Gradient = fn(b: &mut Builder<'_>, g: ValueId, x: [ValueId; 2], y: ValueId) -> ValueId;

const NUMBERS: &[DType] = &[F32, I32, U32];
const INTEGERS: &[DType] = &[I32, U32];

impl Properties {
    const DEFAULT: Properties = Properties {
        name: "",
        dtypes: NUMBERS,
        cost: CostClass::Simple,
        float: |_, _| unreachable!("the op takes no floats"),
        int: |_, _| unreachable!("the op takes no integers"),
        bool: |_, _| unreachable!("the op takes no bools"),
        commutes: false,
        gradients: None,
    };
}

table! {
    /// Elementwise functions of two operands of the same type.
    pub enum BinaryOp: Properties {
        Add {
            name: "add",
            float: |a, b| a + b,
            int: |a, b| Some(a + b),
            commutes: true,
            gradients: Some([|_, g, _, _| g, |_, g, _, _| g]),
        }
        Sub {
            name: "sub",
            float: |a, b| a - b,
            int: |a, b| Some(a - b),
            gradients: Some([|_, g, _, _| g, |b, g, _, _| b.neg(g)]),
        }
        Mul {
            name: "mul",
            float: |a, b| a * b,
            // The product of two u32 factors can exceed 63 bits, but its low 32 bits are correct.
            int: |a, b| Some(a.wrapping_mul(b)),
            commutes: true,
            gradients: Some([|b, g, [_, right], _| b.mul(g, right), |b, g, [left, _], _| b.mul(g, left)]),
        }
        /// Integer division rounds towards zero; division by zero traps, and the step fails.
        Div {
            name: "div",
            cost: CostClass::Divide,
            float: |a, b| a / b,
            int: i64::checked_div,
            gradients: Some([
                |b, g, [_, divisor], _| b.div(g, divisor),
                // -g · y / divisor
                |b, g, [_, divisor], y| {
                    let slope = b.div(y, divisor);
                    let product = b.mul(g, slope);
                    b.neg(product)
                },
            ]),
        }
        /// Returns NaN if either operand is NaN. Equal operands each receive half of the gradient.
        Min {
            name: "min",
            float: |a, b| if a.is_nan() || a < b { a } else { b },
            int: |a, b| Some(a.min(b)),
            commutes: true,
            gradients: Some([
                |b, g, [left, right], _| chosen(b, g, CompareOp::Gt, left, right),
                |b, g, [left, right], _| chosen(b, g, CompareOp::Gt, right, left),
            ]),
        }
        /// Returns NaN if either operand is NaN. Equal operands each receive half of the gradient.
        Max {
            name: "max",
            float: |a, b| if a.is_nan() || a > b { a } else { b },
            int: |a, b| Some(a.max(b)),
            commutes: true,
            gradients: Some([
                |b, g, [left, right], _| chosen(b, g, CompareOp::Lt, left, right),
                |b, g, [left, right], _| chosen(b, g, CompareOp::Lt, right, left),
            ]),
        }
        Pow {
            name: "pow",
            dtypes: &[F32],
            cost: CostClass::Branches,
            float: float::pow,
            gradients: Some([
                // g · exponent · base^(exponent - 1), and 0 where exponent and base are 0. The value that the
                // select discards there is finite, so its own derivatives are also 0.
                |b, g, [base, exponent], _| {
                    let zeros = b.splat_like(base, 0.0);
                    let constant = b.compare(CompareOp::Eq, exponent, zeros);
                    let size = b.unary(UnaryOp::Abs, base);
                    let sloped = b.compare(CompareOp::Gt, size, zeros);
                    let level = b.unary(UnaryOp::Not, sloped);
                    let flat = b.binary(BinaryOp::And, constant, level);
                    let lower = b.add_number(exponent, -1.0);
                    let lower = b.select(flat, zeros, lower);
                    let power = b.binary(BinaryOp::Pow, base, lower);
                    let slope = b.mul(exponent, power);
                    let product = b.mul(g, slope);
                    b.select(flat, zeros, product)
                },
                // g · y · log(base), and the limit 0 where the base is 0 and the exponent is not negative.
                |b, g, [base, exponent], y| {
                    let (zeros, ones) = (b.splat_like(base, 0.0), b.splat_like(base, 1.0));
                    let at_zero = b.compare(CompareOp::Eq, base, zeros);
                    let tame = b.compare(CompareOp::Ge, exponent, zeros);
                    let limit = b.binary(BinaryOp::And, at_zero, tame);
                    let base = b.select(limit, ones, base);
                    let log = b.unary(UnaryOp::Log, base);
                    let slope = b.mul(y, log);
                    let product = b.mul(g, slope);
                    b.select(limit, zeros, product)
                },
            ]),
        }
        /// Remainder with the sign of the dividend, for integers and floats. An integer divisor of zero
        /// traps.
        Rem {
            name: "rem",
            cost: CostClass::Loop,
            float: float::rem,
            int: i64::checked_rem,
            gradients: Some([
                |_, g, _, _| g,
                // -g · trunc(x / divisor). The quotient is computed as (x - y) / divisor, which does not
                // round past an integer.
                |b, g, [x, divisor], y| {
                    let multiple = b.sub(x, y);
                    let quotient = b.div(multiple, divisor);
                    let product = b.mul(g, quotient);
                    b.neg(product)
                },
            ]),
        }
        /// Logical on bools, bitwise on integers.
        And {
            name: "and",
            dtypes: &[I32, U32, Bool],
            int: |a, b| Some(a & b),
            bool: |a, b| a && b,
            commutes: true,
        }
        Or { name: "or", dtypes: &[I32, U32, Bool], int: |a, b| Some(a | b), bool: |a, b| a || b, commutes: true }
        Xor {
            name: "xor",
            dtypes: &[I32, U32, Bool],
            int: |a, b| Some(a ^ b),
            bool: |a, b| a != b,
            commutes: true,
        }
        /// Shift left. The count is taken modulo 32.
        Shl { name: "shl", dtypes: INTEGERS, int: |a, count| Some(a << (count & 31)) }
        /// Shift right, logical for `u32` and arithmetic for `i32`. The count is taken modulo 32.
        // The operand is within the range of its dtype, so an i64 shift is correct for both dtypes.
        Shr { name: "shr", dtypes: INTEGERS, int: |a, count| Some(a >> (count & 31)) }
    }
}

impl BinaryOp {
    /// Returns `true` if the op accepts elements of this dtype.
    pub fn accepts(self, dtype: DType) -> bool {
        self.row().dtypes.contains(&dtype)
    }

    /// Returns the cost per element, for floats if the op accepts them.
    pub fn cost_class(self) -> CostClass {
        self.row().cost
    }

    /// Returns `true` if the op divides integers, and therefore traps on a divisor of 0.
    pub fn divides_integers(self, dtype: DType) -> bool {
        matches!(self, BinaryOp::Div | BinaryOp::Rem) && dtype.is_integer()
    }

    /// Returns `true` if `a op b` always equals `b op a`.
    pub fn is_commutative(self) -> bool {
        self.row().commutes
    }

    /// Computes the op on floats, in float64.
    pub fn float(self, a: f64, b: f64) -> f64 {
        (self.row().float)(a, b)
    }

    /// Computes the op on integers. Only the low 32 bits of the result are significant. Returns `None` for a
    /// division by zero.
    pub fn int(self, a: i64, b: i64) -> Option<i64> {
        (self.row().int)(a, b)
    }

    /// Computes the op on bools.
    pub fn bool(self, a: bool, b: bool) -> bool {
        (self.row().bool)(a, b)
    }

    /// Returns the functions that append the operands' cotangents, or `None` if no gradient flows through the
    /// op.
    pub(crate) fn gradients(self) -> Option<[Gradient; 2]> {
        self.row().gradients
    }
}

/// Appends the cotangent of `a` in a selection between `a` and `b`: zero where `a loses b` holds, half of `g`
/// where they are equal, `g` elsewhere. If either is NaN, both receive `g`.
fn chosen(builder: &mut Builder<'_>, g: ValueId, loses: CompareOp, a: ValueId, b: ValueId) -> ValueId {
    let tie = builder.compare(CompareOp::Eq, a, b);
    let lost = builder.compare(loses, a, b);
    let half = builder.mul_number(g, 0.5);
    let zeros = builder.splat_like(g, 0.0);
    let whole = builder.select(lost, zeros, g);
    builder.select(tie, half, whole)
}
