//! Elementwise functions of one operand.

use super::{CostClass, table};
use crate::float;
use crate::ir::DType::{self, Bool, F32, I32, U32};
use crate::ir::{Builder, ValueId};
use std::f64::consts::FRAC_2_SQRT_PI;

struct Properties {
    name: &'static str,
    /// Dtypes of the operand and of the result.
    dtypes: &'static [DType],
    /// Cost per element, for floats if the op accepts them.
    cost: CostClass,
    /// Function of a float.
    float: fn(f64) -> f64,
    /// Function of an integer. Only the low 32 bits of its result are significant.
    int: fn(i64) -> i64,
    bool: fn(bool) -> bool,
    /// Function for the cotangent of the operand. `None` if no gradient flows through the op.
    gradient: Option<Gradient>,
}

/// Appends the cotangent of the operand `x`, computed from the result's cotangent `g`, `x` and the result
/// `y`.
type Gradient = fn(b: &mut Builder<'_>, g: ValueId, x: ValueId, y: ValueId) -> ValueId;

impl Properties {
    const DEFAULT: Properties = Properties {
        name: "",
        dtypes: &[F32],
        cost: CostClass::Simple,
        float: |_| unreachable!("the op takes no floats"),
        int: |_| unreachable!("the op takes no integers"),
        bool: |_| unreachable!("the op takes no bools"),
        gradient: None,
    };
}

table! {
    /// Elementwise functions of one operand.
    pub enum UnaryOp: Properties {
        Neg {
            name: "neg",
            dtypes: &[F32, I32],
            float: |x| -x,
            int: |x| -x,
            gradient: Some(|b, g, _, _| b.neg(g)),
        }
        /// The gradient at 0 is 0.
        Abs {
            name: "abs",
            dtypes: &[F32, I32],
            float: f64::abs,
            int: i64::abs,
            // g · sign(x)
            gradient: Some(|b, g, x, _| {
                let sign = b.unary(UnaryOp::Sign, x);
                b.mul(g, sign)
            }),
        }
        /// Returns -1, 0 or 1. NaN stays NaN, and a zero keeps its sign. Piecewise constant, so its gradient
        /// is zero.
        Sign {
            name: "sign",
            dtypes: &[F32, I32],
            float: |x| if x == 0.0 || x.is_nan() { x } else { x.signum() },
            int: i64::signum,
        }
        /// Piecewise constant, so its gradient is zero.
        Floor { name: "floor", float: f64::floor }
        Exp {
            name: "exp",
            cost: CostClass::Function,
            float: float::exp,
            // g · y
            gradient: Some(|b, g, _, y| b.mul(g, y)),
        }
        /// `exp(x) - 1` without cancellation near 0.
        Expm1 {
            name: "expm1",
            cost: CostClass::Function,
            float: float::expm1,
            // g · exp(x) = g · (y + 1)
            gradient: Some(|b, g, _, y| {
                let exp = b.add_number(y, 1.0);
                b.mul(g, exp)
            }),
        }
        Log {
            name: "log",
            cost: CostClass::Function,
            float: float::log,
            // g / x
            gradient: Some(|b, g, x, _| b.div(g, x)),
        }
        /// `log(1 + x)` without cancellation near 0.
        Log1p {
            name: "log1p",
            cost: CostClass::Function,
            float: float::log1p,
            // g / (x + 1)
            gradient: Some(|b, g, x, _| {
                let argument = b.add_number(x, 1.0);
                b.div(g, argument)
            }),
        }
        Sqrt {
            name: "sqrt",
            cost: CostClass::Divide,
            float: f64::sqrt,
            // g / (2 y)
            gradient: Some(|b, g, _, y| {
                let twice = b.mul_number(y, 2.0);
                b.div(g, twice)
            }),
        }
        /// `1 / sqrt(x)`.
        Rsqrt {
            name: "rsqrt",
            cost: CostClass::Divide,
            float: |x| 1.0 / x.sqrt(),
            // -g · y³ / 2
            gradient: Some(|b, g, _, y| {
                let square = b.mul(y, y);
                let cube = b.mul(square, y);
                let slope = b.mul_number(cube, -0.5);
                b.mul(g, slope)
            }),
        }
        Sin {
            name: "sin",
            cost: CostClass::Function,
            float: float::sin,
            // g · cos(x)
            gradient: Some(|b, g, x, _| {
                let cos = b.unary(UnaryOp::Cos, x);
                b.mul(g, cos)
            }),
        }
        Cos {
            name: "cos",
            cost: CostClass::Function,
            float: float::cos,
            // -g · sin(x)
            gradient: Some(|b, g, x, _| {
                let sin = b.unary(UnaryOp::Sin, x);
                let product = b.mul(g, sin);
                b.neg(product)
            }),
        }
        Tanh {
            name: "tanh",
            cost: CostClass::Function,
            float: float::tanh,
            // g · (1 - y²)
            gradient: Some(|b, g, _, y| {
                let square = b.mul(y, y);
                let slope = one_minus(b, square);
                b.mul(g, slope)
            }),
        }
        /// `1 / (1 + exp(-x))`.
        Sigmoid {
            name: "sigmoid",
            cost: CostClass::Function,
            // Use the form whose exponential cannot overflow.
            float: |x| {
                if x < 0.0 { float::exp(x) / (1.0 + float::exp(x)) } else { 1.0 / (1.0 + float::exp(-x)) }
            },
            // g · y · (1 - y)
            gradient: Some(|b, g, _, y| {
                let complement = one_minus(b, y);
                let slope = b.mul(y, complement);
                b.mul(g, slope)
            }),
        }
        Erf {
            name: "erf",
            cost: CostClass::Function,
            float: float::erf,
            // g · 2/√π · exp(-x²)
            gradient: Some(|b, g, x, _| {
                let square = b.mul(x, x);
                let exponent = b.neg(square);
                let bell = b.unary(UnaryOp::Exp, exponent);
                let slope = b.mul_number(bell, FRAC_2_SQRT_PI);
                b.mul(g, slope)
            }),
        }
        /// Logical on bools, bitwise on integers.
        Not { name: "not", dtypes: &[I32, U32, Bool], int: |x| !x, bool: |x| !x }
        /// Returns the operand, of any dtype on which ops compute, but blocks its gradient. Passes after
        /// differentiation remove this op.
        Detach { name: "detach", dtypes: &DType::COMPUTED, float: |x| x, int: |x| x, bool: |x| x }
    }
}

impl UnaryOp {
    /// Returns `true` if the op accepts elements of this dtype.
    pub fn accepts(self, dtype: DType) -> bool {
        self.row().dtypes.contains(&dtype)
    }

    /// Returns the cost per element, for floats if the op accepts them.
    pub fn cost_class(self) -> CostClass {
        self.row().cost
    }

    /// Computes the op on a float, in float64.
    pub fn float(self, x: f64) -> f64 {
        (self.row().float)(x)
    }

    /// Computes the op on an integer. Only the low 32 bits of the result are significant.
    pub fn int(self, x: i64) -> i64 {
        (self.row().int)(x)
    }

    /// Computes the op on a bool.
    pub fn bool(self, x: bool) -> bool {
        (self.row().bool)(x)
    }

    /// Returns the function that appends the operand's cotangent, or `None` if no gradient flows through the
    /// op.
    pub(crate) fn gradient(self) -> Option<Gradient> {
        self.row().gradient
    }
}

/// Appends `1 - x`.
fn one_minus(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    let one = b.splat_like(x, 1.0);
    b.sub(one, x)
}
