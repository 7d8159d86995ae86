//! Elementwise f32 functions that are composed of other ops but have their own derivatives.
//!
//! Differentiating the composition would lose digits, or produce NaN where an untaken branch overflows. These
//! ops stay in the graph until the gradients are built. The pass `expand` then replaces them, so devices do
//! not implement them. In float32, the error of a composition is a few units in the last place.

use super::{CompareOp, UnaryOp, table};
use crate::float;
use crate::ir::{Builder, ValueId};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

struct Properties {
    name: &'static str,
    /// Function of a float, computed in float64.
    float: fn(f64) -> f64,
    /// Appends the value, composed of other ops.
    expansion: fn(b: &mut Builder<'_>, x: ValueId) -> ValueId,
    /// Appends the derivative at the operand `x`, where the value is `y`.
    slope: fn(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> ValueId,
}

impl Properties {
    const DEFAULT: Properties = Properties {
        name: "",
        float: |_| unreachable!("every row has a value"),
        expansion: |_, _| unreachable!("every row has an expansion"),
        slope: |_, _, _| unreachable!("every row has a slope"),
    };
}

table! {
    /// Elementwise f32 functions that are composed of other ops.
    pub enum CompositeOp: Properties {
        Tan {
            name: "tan",
            float: float::tan,
            expansion: |b, x| {
                let (sin, cos) = (b.unary(UnaryOp::Sin, x), b.unary(UnaryOp::Cos, x));
                b.div(sin, cos)
            },
            // 1 + y²
            slope: |b, _, y| {
                let square = b.mul(y, y);
                b.add_number(square, 1.0)
            },
        }
        /// Returns NaN outside -1..=1.
        Asin {
            name: "asin",
            float: float::asin,
            expansion: |b, x| {
                let (far, arc) = arc_sine(b, x);
                // π/2 - arc where x is far from 0
                let rest = less(b, FRAC_PI_2, arc);
                let size = b.select(far, rest, arc);
                with_sign(b, size, x)
            },
            slope: root_slope,
        }
        /// Returns NaN outside -1..=1.
        Acos {
            name: "acos",
            float: float::acos,
            expansion: |b, x| {
                let (far, arc) = arc_sine(b, x);
                let zeros = b.splat_like(x, 0.0);
                let negative = b.compare(CompareOp::Lt, x, zeros);
                let opposite = less(b, PI, arc);
                let far_value = b.select(negative, opposite, arc);
                let signed = with_sign(b, arc, x);
                let near = less(b, FRAC_PI_2, signed);
                b.select(far, far_value, near)
            },
            slope: |b, x, y| {
                let slope = root_slope(b, x, y);
                b.neg(slope)
            },
        }
        Atan {
            name: "atan",
            float: float::atan,
            expansion: arc_tangent,
            // 1 / (1 + x²)
            slope: |b, x, _| {
                let square = b.mul(x, x);
                let sum = b.add_number(square, 1.0);
                reciprocal(b, sum)
            },
        }
        Sinh {
            name: "sinh",
            float: float::sinh,
            // Near 0, (e + e / (e + 1)) / 2 with e = exp(|x|) - 1, which does not cancel.
            expansion: |b, x| {
                let size = b.unary(UnaryOp::Abs, x);
                let e = b.unary(UnaryOp::Expm1, size);
                let above = b.add_number(e, 1.0);
                let ratio = b.div(e, above);
                let sum = b.add(e, ratio);
                let near = b.mul_number(sum, 0.5);
                let [grown, shrunk] = half_exponentials(b, size);
                let far = b.sub(grown, shrunk);
                let one = b.splat_like(x, 1.0);
                let is_near = b.compare(CompareOp::Lt, size, one);
                let size = b.select(is_near, near, far);
                with_sign(b, size, x)
            },
            slope: |b, x, _| b.op(CompositeOp::Cosh.into(), &[x]),
        }
        Cosh {
            name: "cosh",
            float: float::cosh,
            expansion: |b, x| {
                let size = b.unary(UnaryOp::Abs, x);
                let [grown, shrunk] = half_exponentials(b, size);
                b.add(grown, shrunk)
            },
            slope: |b, x, _| b.op(CompositeOp::Sinh.into(), &[x]),
        }
        Asinh {
            name: "asinh",
            float: float::asinh,
            // log1p(a + a² / (1 + sqrt(1 + a²))) with a = |x|, which does not cancel.
            expansion: |b, x| {
                let size = b.unary(UnaryOp::Abs, x);
                let square = b.mul(size, size);
                let sum = b.add_number(square, 1.0);
                let root = b.unary(UnaryOp::Sqrt, sum);
                let below = b.add_number(root, 1.0);
                let ratio = b.div(square, below);
                let excess = b.add(size, ratio);
                let value = log_of_double(b, size, excess);
                with_sign(b, value, x)
            },
            // 1 / sqrt(1 + x²)
            slope: |b, x, _| {
                let square = b.mul(x, x);
                let sum = b.add_number(square, 1.0);
                b.unary(UnaryOp::Rsqrt, sum)
            },
        }
        /// Returns NaN below 1.
        Acosh {
            name: "acosh",
            float: float::acosh,
            // log1p(t + sqrt(t) sqrt(t + 2)) with t = x - 1, which is exact near 1.
            expansion: |b, x| {
                let t = b.add_number(x, -1.0);
                let above = b.add_number(t, 2.0);
                let (root, other) = (b.unary(UnaryOp::Sqrt, t), b.unary(UnaryOp::Sqrt, above));
                let product = b.mul(root, other);
                let excess = b.add(t, product);
                log_of_double(b, x, excess)
            },
            // 1 / sqrt((x - 1)(x + 1))
            slope: |b, x, _| {
                let (below, above) = (b.add_number(x, -1.0), b.add_number(x, 1.0));
                let product = b.mul(below, above);
                b.unary(UnaryOp::Rsqrt, product)
            },
        }
        /// Returns NaN outside -1..=1.
        Atanh {
            name: "atanh",
            float: float::atanh,
            // log1p(2a / (1 - a)) / 2 with a = |x|
            expansion: |b, x| {
                let size = b.unary(UnaryOp::Abs, x);
                let twice = b.mul_number(size, 2.0);
                let rest = less(b, 1.0, size);
                let ratio = b.div(twice, rest);
                let log = b.unary(UnaryOp::Log1p, ratio);
                let half = b.mul_number(log, 0.5);
                with_sign(b, half, x)
            },
            // 1 / ((1 - x)(1 + x))
            slope: |b, x, _| {
                let product = one_minus_square(b, x);
                reciprocal(b, product)
            },
        }
    }
}

impl CompositeOp {
    /// Computes the function in float64.
    pub fn float(self, x: f64) -> f64 {
        (self.row().float)(x)
    }

    /// Appends the value, composed of other ops.
    pub(crate) fn expand(self, b: &mut Builder<'_>, x: ValueId) -> ValueId {
        (self.row().expansion)(b, x)
    }

    /// Appends the derivative at `x`, where the value is `y`.
    pub(crate) fn slope(self, b: &mut Builder<'_>, x: ValueId, y: ValueId) -> ValueId {
        (self.row().slope)(b, x, y)
    }
}

/// Appends `number - x`.
fn less(b: &mut Builder<'_>, number: f64, x: ValueId) -> ValueId {
    let number = b.splat_like(x, number);
    b.sub(number, x)
}

fn reciprocal(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    let one = b.splat_like(x, 1.0);
    b.div(one, x)
}

/// Appends `size` with the sign of `x`: NaN if `x` is NaN, and zero if `x` is zero.
fn with_sign(b: &mut Builder<'_>, size: ValueId, x: ValueId) -> ValueId {
    let sign = b.unary(UnaryOp::Sign, x);
    b.mul(size, sign)
}

/// Appends `(1 - x)(1 + x)`, which does not cancel near 1.
fn one_minus_square(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    let (below, above) = (less(b, 1.0, x), b.add_number(x, 1.0));
    b.mul(below, above)
}

/// Appends `1 / sqrt(1 - x²)`.
fn root_slope(b: &mut Builder<'_>, x: ValueId, _: ValueId) -> ValueId {
    let product = one_minus_square(b, x);
    b.unary(UnaryOp::Rsqrt, product)
}

/// Appends `exp(a) / 2` and `exp(-a) / 2` for nonnegative `a`. Squares `exp(a / 2)`, which overflows only if
/// the result does.
fn half_exponentials(b: &mut Builder<'_>, a: ValueId) -> [ValueId; 2] {
    let half = b.mul_number(a, 0.5);
    let root = b.unary(UnaryOp::Exp, half);
    let half_root = b.mul_number(root, 0.5);
    let grown = b.mul(half_root, root);
    let quarter = b.splat_like(a, 0.25);
    [grown, b.div(quarter, grown)]
}

/// Appends `log1p(excess)`, or `log(2x)` where `x` is so large that the two agree. This avoids the overflow
/// of x².
fn log_of_double(b: &mut Builder<'_>, x: ValueId, excess: ValueId) -> ValueId {
    let near = b.unary(UnaryOp::Log1p, excess);
    let log = b.unary(UnaryOp::Log, x);
    let far = b.add_number(log, LN_2);
    let bound = b.splat_like(x, 1e10);
    let is_far = b.compare(CompareOp::Gt, x, bound);
    b.select(is_far, far, near)
}

/// Appends `x + x · z · P(z)`, where z = x².
fn odd_polynomial(b: &mut Builder<'_>, x: ValueId, z: ValueId, coefficients: &[f64]) -> ValueId {
    let (last, others) = coefficients.split_last().expect("a polynomial has coefficients");
    let mut sum = b.splat_like(x, *last);
    for coefficient in others.iter().rev() {
        let product = b.mul(sum, z);
        sum = b.add_number(product, *coefficient);
    }
    let product = b.mul(sum, z);
    let tail = b.mul(product, x);
    b.add(x, tail)
}

/// Appends the condition |x| > 1/2 and the value `asin(|x|)`. Where the condition holds, the value is instead
/// `2 asin(sqrt((1 - |x|) / 2))`, which equals `acos(|x|)`.
fn arc_sine(b: &mut Builder<'_>, x: ValueId) -> (ValueId, ValueId) {
    // Coefficients computed by `cpu/math/coefficients.py` of `gradloom-codegen`.
    const ASIN: [f64; 5] =
        [0.166_667_526_8, 0.074_952_886_73, 0.045_471_606_79, 0.024_172_953_98, 0.042_178_225_47];
    let size = b.unary(UnaryOp::Abs, x);
    let bound = b.splat_like(x, 0.5);
    let far = b.compare(CompareOp::Gt, size, bound);
    let rest = less(b, 1.0, size);
    let folded = b.mul_number(rest, 0.5);
    let square = b.mul(size, size);
    let z = b.select(far, folded, square);
    let root = b.unary(UnaryOp::Sqrt, folded);
    let s = b.select(far, root, size);
    let arc = odd_polynomial(b, s, z, &ASIN);
    let twice = b.mul_number(arc, 2.0);
    (far, b.select(far, twice, arc))
}

fn arc_tangent(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    // Coefficients computed by `cpu/math/coefficients.py` of `gradloom-codegen`.
    const ATAN: [f64; 4] = [-0.333_329_489_97, 0.199_777_040_03, -0.138_776_080_57, 0.080_534_775_1];
    let size = b.unary(UnaryOp::Abs, x);
    let one = b.splat_like(x, 1.0);
    // Reduce |x| to 0..=1 by the reciprocal.
    let beyond = b.compare(CompareOp::Gt, size, one);
    let inverse = reciprocal(b, size);
    let t = b.select(beyond, inverse, size);
    // Reduce to ±tan(π/8) by atan(t) = π/4 + atan((t - 1) / (t + 1)).
    let bound = b.splat_like(x, 0.414_213_56);
    let upper = b.compare(CompareOp::Gt, t, bound);
    let (below, above) = (b.add_number(t, -1.0), b.add_number(t, 1.0));
    let turned = b.div(below, above);
    let t = b.select(upper, turned, t);
    let z = b.mul(t, t);
    let arc = odd_polynomial(b, t, z, &ATAN);
    let quarter = b.add_number(arc, FRAC_PI_4);
    let arc = b.select(upper, quarter, arc);
    let rest = less(b, FRAC_PI_2, arc);
    let arc = b.select(beyond, rest, arc);
    with_sign(b, arc, x)
}

impl From<CompositeOp> for crate::ir::OpKind {
    fn from(op: CompositeOp) -> Self {
        crate::ir::OpKind::Composite(op)
    }
}
