//! Formulas of the elementwise ops on the CPU: one table for interpreted loops and for machine code.
//!
//! In: an elementwise op and the dtype of its operand. Out: a formula over [`Lanes`]. Invariant: an
//! integer division by zero returns 0 here; the caller checks for zero divisors and traps.

use super::lanes::BinaryInst::{
    self, AddInt, MaxSigned, MaxUnsigned, MinSigned, MinUnsigned, MulInt, ShiftLeft, ShiftRightSigned,
    ShiftRightUnsigned, SubInt,
};
use super::lanes::UnaryInst::{self, AbsInt};
use super::lanes::{LaneKind, Lanes, MaskOp};
use super::math;
use gradloom_core::ir::DType::{self, Bool, F32, I32, U32};
use gradloom_core::ir::{BinaryOp, CompareOp, UnaryOp};

/// An elementwise function, identified by name. The name selects a loop, or the machine code to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapOp {
    /// A function of one operand, with the dtype of its elements.
    Unary(UnaryOp, DType),
    /// A function of two operands, with the dtype of their elements.
    Binary(BinaryOp, DType),
    /// Two functions of f32 in sequence, for which [`is_pair`] returns `true`.
    Pair { first: BinaryOp, second: BinaryOp, reversed: bool },
    /// A comparison, with the dtype of the elements that are compared.
    Compare(CompareOp, DType),
    /// A selection between elements of this dtype.
    Select(DType),
    /// A conversion from the first dtype to the second.
    Cast(DType, DType),
}

/// Returns `true` if there is a loop that computes two functions of f32 in sequence. The loop rounds the
/// result of each function.
pub fn is_pair(first: BinaryOp, second: BinaryOp) -> bool {
    let of = |op| matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul);
    of(first) && of(second)
}

/// Calls a macro with the table of functions of one operand, and with that of functions of two operands. The
/// tables contain the CPU's computation for each op and dtype.
///
/// `lanes` is a formula over numbers, and `masks` one over bools. `scalar` and `angle` are loops without an
/// equivalent in machine code.
#[doc(hidden)]
#[macro_export]
macro_rules! cpu_functions {
    ($callback:ident) => {
        $callback! { UnaryOp, 1, unary, unary_formula, unary_has_formula {
            Neg {
                F32 => lanes (l, a) { l.negated(a) }
                I32 => lanes (l, a) {
                    let zero = l.bits(0);
                    l.two(SubInt, zero, a)
                }
            }
            Abs {
                F32 => lanes (l, a) { l.magnitude(a) }
                I32 => lanes (l, a) { l.one(AbsInt, a) }
            }
            Sign {
                F32 => lanes (l, a) {
                    let (magnitude, zero, one) = (l.magnitude(a), l.bits(0), l.float(1.0));
                    let signed = l.with_sign(one, a);
                    let is_signed = l.compare(CompareOp::Gt, LaneKind::Float, magnitude, zero);
                    l.select(is_signed, signed, a)
                }
                I32 => lanes (l, a) {
                    let (low, high) = (l.bits(u32::MAX), l.bits(1));
                    let limited = l.two(MinSigned, a, high);
                    l.two(MaxSigned, limited, low)
                }
            }
            Floor { F32 => lanes (l, a) { l.one(UnaryInst::Floor, a) } }
            Exp { F32 => lanes (l, a) { math::exp(l, a) } }
            Expm1 { F32 => lanes (l, a) { math::expm1(l, a) } }
            Log { F32 => lanes (l, a) { math::log(l, a) } }
            Log1p { F32 => lanes (l, a) { math::log1p(l, a) } }
            Sqrt { F32 => lanes (l, a) { l.one(UnaryInst::Sqrt, a) } }
            Rsqrt {
                F32 => lanes (l, a) {
                    let (root, one) = (l.one(UnaryInst::Sqrt, a), l.float(1.0));
                    l.div(one, root)
                }
            }
            Sin { F32 => angle (math::sin, libm::sinf) {} }
            Cos { F32 => angle (math::cos, libm::cosf) {} }
            Tanh { F32 => lanes (l, a) { math::tanh(l, a) } }
            Sigmoid { F32 => lanes (l, a) { math::sigmoid(l, a) } }
            Erf { F32 => lanes (l, a) { math::erf(l, a) } }
            Not {
                I32 | U32 => lanes (l, a) {
                    let all = l.bits(u32::MAX);
                    l.two(BinaryInst::Xor, a, all)
                }
                Bool => masks (l, a) {
                    let none = l.mask(MaskOp::Xor, a, a);
                    l.mask(MaskOp::Same, a, none)
                }
            }
            Detach {
                F32 | I32 | U32 => lanes (_l, a) { a }
                Bool => masks (_l, a) { a }
            }
        } }
        $callback! { BinaryOp, 2, binary, binary_formula, binary_has_formula {
            Add {
                F32 => lanes (l, a, b) { l.add(a, b) }
                // In two's complement, the bits are the same for signed and unsigned numbers.
                I32 | U32 => lanes (l, a, b) { l.two(AddInt, a, b) }
            }
            Sub {
                F32 => lanes (l, a, b) { l.sub(a, b) }
                I32 | U32 => lanes (l, a, b) { l.two(SubInt, a, b) }
            }
            Mul {
                F32 => lanes (l, a, b) { l.mul(a, b) }
                I32 | U32 => lanes (l, a, b) { l.two(MulInt, a, b) }
            }
            Div {
                F32 => lanes (l, a, b) { l.div(a, b) }
                I32 => scalar (a: i32, b: i32) { if b == 0 { 0 } else { a.wrapping_div(b) } }
                U32 => scalar (a: u32, b: u32) { a.checked_div(b).unwrap_or(0) }
            }
            Min {
                F32 => lanes (l, a, b) {
                    let (least, nan) = (l.two(BinaryInst::Min, a, b), l.is_nan(a));
                    l.select(nan, a, least)
                }
                I32 => lanes (l, a, b) { l.two(MinSigned, a, b) }
                U32 => lanes (l, a, b) { l.two(MinUnsigned, a, b) }
            }
            Max {
                F32 => lanes (l, a, b) {
                    let (greatest, nan) = (l.two(BinaryInst::Max, a, b), l.is_nan(a));
                    l.select(nan, a, greatest)
                }
                I32 => lanes (l, a, b) { l.two(MaxSigned, a, b) }
                U32 => lanes (l, a, b) { l.two(MaxUnsigned, a, b) }
            }
            Pow { F32 => scalar (a: f32, b: f32) { math::pow(a, b) } }
            Rem {
                F32 => scalar (a: f32, b: f32) { a % b }
                I32 => scalar (a: i32, b: i32) { if b == 0 { 0 } else { a.wrapping_rem(b) } }
                U32 => scalar (a: u32, b: u32) { a.checked_rem(b).unwrap_or(0) }
            }
            And {
                I32 | U32 => lanes (l, a, b) { l.two(BinaryInst::And, a, b) }
                Bool => masks (l, a, b) { l.mask(MaskOp::And, a, b) }
            }
            Or {
                I32 | U32 => lanes (l, a, b) { l.two(BinaryInst::Or, a, b) }
                Bool => masks (l, a, b) { l.mask(MaskOp::Or, a, b) }
            }
            Xor {
                I32 | U32 => lanes (l, a, b) { l.two(BinaryInst::Xor, a, b) }
                Bool => masks (l, a, b) { l.mask(MaskOp::Xor, a, b) }
            }
            Shl {
                I32 | U32 => lanes (l, a, b) {
                    let count = low_bits(l, b);
                    l.two(ShiftLeft, a, count)
                }
            }
            Shr {
                I32 => lanes (l, a, b) {
                    let count = low_bits(l, b);
                    l.two(ShiftRightSigned, a, count)
                }
                U32 => lanes (l, a, b) {
                    let count = low_bits(l, b);
                    l.two(ShiftRightUnsigned, a, count)
                }
            }
        } }
    };
}

/// Expands to the formula of a row of the table over any lanes, or to `None` for a row that only has loops.
macro_rules! row_formula {
    ($lanes:ident, $operands:ident, lanes ($l:ident, $($a:ident),*) $body:tt) => {{
        let ($l, [$($a),*]) = ($lanes, $operands);
        Some($body)
    }};
    ($lanes:ident, $operands:ident, masks $args:tt $body:tt) => {
        row_formula!($lanes, $operands, lanes $args $body)
    };
    ($lanes:ident, $operands:ident, $other:ident $args:tt $body:tt) => {
        None
    };
}

macro_rules! has_formula {
    (lanes) => {
        true
    };
    (masks) => {
        true
    };
    ($other:ident) => {
        false
    };
}

macro_rules! formulas {
    ($Op:ident, $count:literal, $function:ident, $formula:ident, $has_formula:ident {
        $($op:ident { $($dtype:pat => $kind:ident $args:tt $body:tt)* })*
    }) => {
        /// Returns the result of an op on lanes whose masks are values too, or `None` if the op only has
        /// loops.
        #[allow(unused_braces)]
        pub fn $formula<V: Copy, L: Lanes<Value = V, Mask = V>>(
            l: &mut L,
            op: $Op,
            dtype: DType,
            operands: [V; $count],
        ) -> Option<V> {
            match op {
                $($Op::$op => match dtype {
                    $($dtype => row_formula!(l, operands, $kind $args $body),)*
                    #[allow(unreachable_patterns)]
                    _ => None,
                })*
            }
        }

        /// Returns `true` if an op on elements of this dtype has a formula.
        pub fn $has_formula(op: $Op, dtype: DType) -> bool {
            match op {
                $($Op::$op => match dtype {
                    $($dtype => has_formula!($kind),)*
                    #[allow(unreachable_patterns)]
                    _ => false,
                })*
            }
        }
    };
}
cpu_functions!(formulas);

/// Returns a shift count modulo 32.
#[inline(always)]
pub fn low_bits<L: Lanes>(l: &mut L, count: L::Value) -> L::Value {
    let low = l.bits(31);
    l.two(BinaryInst::And, count, low)
}
