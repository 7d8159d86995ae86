//! Functions of two operands.

use super::{CostClass, table};
use crate::float;
use crate::ir::DType::{self, Bool, F32, I32, U32};
use crate::ir::{Builder, CompareOp, UnaryOp, ValueId};

/// Properties of an op.
struct Properties {
    name: &'static str,
    /// The dtypes that it takes, and gives.
    dtypes: &'static [DType],
    /// The cost of an element, for floats if it takes floats.
    cost: CostClass,
    /// The value of floats.
    float: fn(f64, f64) -> f64,
    /// The value of integers, of which the low 32 bits count; none for a division by zero.
    int: fn(i64, i64) -> Option<i64>,
    bool: fn(bool, bool) -> bool,
    /// True if `a op b` equals `b op a`.
    commutes: bool,
    /// The cotangents of both operands; none where gradients stop, as they do at integers.
    gradients: Option<[Gradient; 2]>,
}

/// The cotangent of one operand, from that of the result, from both operands, and from the result y.
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
    /// Elementwise functions of two operands of one type.
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
            // Two u32 factors can pass the 63 bits of an i64, but the low 32 bits are right.
            int: |a, b| Some(a.wrapping_mul(b)),
            commutes: true,
            gradients: Some([|b, g, [_, right], _| b.mul(g, right), |b, g, [left, _], _| b.mul(g, left)]),
        }
        /// Integers: rounds towards zero; division by zero traps (the step fails).
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
        /// A NaN in either operand gives NaN. Equal operands share the gradient.
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
        /// A NaN in either operand gives NaN. Equal operands share the gradient.
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
                // g · exponent · base^(exponent - 1), and 0 where exponent and base are 0; what is not taken
                // there is finite, so that its own derivatives are 0, too
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
                // g · y · log(base), and 0 where the base is 0 and the exponent is not negative: the limit
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
        /// Remainder with the sign of the dividend, integers and floats; an integer divisor of zero traps.
        Rem {
            name: "rem",
            cost: CostClass::Loop,
            float: float::rem,
            int: i64::checked_rem,
            gradients: Some([
                |_, g, _, _| g,
                // -g · trunc(x / divisor); the quotient is (x - y) / divisor, which does not round past an
                // integer
                |b, g, [x, divisor], y| {
                    let multiple = b.sub(x, y);
                    let quotient = b.div(multiple, divisor);
                    let product = b.mul(g, quotient);
                    b.neg(product)
                },
            ]),
        }
        /// Bools (logical) and integers (bitwise).
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
        /// `u32` and `i32`; the count is taken modulo 32.
        Shl { name: "shl", dtypes: INTEGERS, int: |a, count| Some(a << (count & 31)) }
        /// Logical for `u32`, arithmetic for `i32`; the count is taken modulo 32.
        // The operand is in its dtype's range, so one shift does for both.
        Shr { name: "shr", dtypes: INTEGERS, int: |a, count| Some(a >> (count & 31)) }
    }
}

impl BinaryOp {
    /// Returns whether the op takes elements of this dtype.
    pub fn accepts(self, dtype: DType) -> bool {
        self.row().dtypes.contains(&dtype)
    }

    /// Returns the cost of an element, for floats if the op takes floats.
    pub fn cost_class(self) -> CostClass {
        self.row().cost
    }

    /// Returns whether `a op b` equals `b op a`.
    pub fn is_commutative(self) -> bool {
        self.row().commutes
    }

    /// Computes the value of floats, in float64.
    pub fn float(self, a: f64, b: f64) -> f64 {
        (self.row().float)(a, b)
    }

    /// Computes the value of integers, of which the low 32 bits count; `None` for a division by zero.
    pub fn int(self, a: i64, b: i64) -> Option<i64> {
        (self.row().int)(a, b)
    }

    /// Computes the value of bools.
    pub fn bool(self, a: bool, b: bool) -> bool {
        (self.row().bool)(a, b)
    }

    /// Returns the functions that append the cotangent of each operand; `None` where gradients stop.
    pub(crate) fn gradients(self) -> Option<[Gradient; 2]> {
        self.row().gradients
    }
}

/// Appends the cotangent of `a` in a choice between `a` and `b`: nothing where `a loses b`, half of `g`
/// where they are equal. A NaN in either passes `g` to both.
fn chosen(builder: &mut Builder<'_>, g: ValueId, loses: CompareOp, a: ValueId, b: ValueId) -> ValueId {
    let tie = builder.compare(CompareOp::Eq, a, b);
    let lost = builder.compare(loses, a, b);
    let half = builder.mul_number(g, 0.5);
    let zeros = builder.splat_like(g, 0.0);
    let whole = builder.select(lost, zeros, g);
    builder.select(tie, half, whole)
}
