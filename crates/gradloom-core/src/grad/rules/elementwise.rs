//! Elementwise ops. Conventions at kinks and ties are PyTorch's.

use super::{Rule, Site, both, first, rest_none, some, zeros_like};
use crate::ir::{BinaryOp, Builder, CompareOp, DType, Literal, OpKind, UnaryOp, ValueId};
use std::f64::consts::FRAC_2_SQRT_PI;

/// Functions of one operand.
pub(super) fn unary(op: UnaryOp) -> Option<Rule<'static>> {
    match op {
        // dx = -g
        UnaryOp::Neg => first(|b, s| b.neg(s.g())),
        // dx = g · sign(x), so 0 at 0
        UnaryOp::Abs => first(|b, s| {
            let sign = b.unary(UnaryOp::Sign, s.x(0));
            b.mul(s.g(), sign)
        }),
        // Constant between jumps, not a float, or told to stop.
        UnaryOp::Sign | UnaryOp::Floor | UnaryOp::Not | UnaryOp::Detach => None,
        // dx = g · y
        UnaryOp::Exp => first(|b, s| b.mul(s.g(), s.y())),
        // dx = g · exp(x) = g · (y + 1)
        UnaryOp::Expm1 => first(|b, s| {
            let exp = b.add_number(s.y(), 1.0);
            b.mul(s.g(), exp)
        }),
        // dx = g / x
        UnaryOp::Log => first(|b, s| b.div(s.g(), s.x(0))),
        // dx = g / (x + 1)
        UnaryOp::Log1p => first(|b, s| {
            let argument = b.add_number(s.x(0), 1.0);
            b.div(s.g(), argument)
        }),
        // dx = g / (2 y)
        UnaryOp::Sqrt => first(|b, s| {
            let twice = b.mul_number(s.y(), 2.0);
            b.div(s.g(), twice)
        }),
        // dx = -g · y³ / 2
        UnaryOp::Rsqrt => first(|b, s| {
            let square = b.mul(s.y(), s.y());
            let cube = b.mul(square, s.y());
            let slope = b.mul_number(cube, -0.5);
            b.mul(s.g(), slope)
        }),
        // dx = g · cos(x)
        UnaryOp::Sin => first(|b, s| {
            let cos = b.unary(UnaryOp::Cos, s.x(0));
            b.mul(s.g(), cos)
        }),
        // dx = -g · sin(x)
        UnaryOp::Cos => first(|b, s| {
            let sin = b.unary(UnaryOp::Sin, s.x(0));
            let product = b.mul(s.g(), sin);
            b.neg(product)
        }),
        // dx = g · (1 - y²)
        UnaryOp::Tanh => first(|b, s| {
            let square = b.mul(s.y(), s.y());
            let slope = one_minus(b, square);
            b.mul(s.g(), slope)
        }),
        // dx = g · y · (1 - y)
        UnaryOp::Sigmoid => first(|b, s| {
            let complement = one_minus(b, s.y());
            let slope = b.mul(s.y(), complement);
            b.mul(s.g(), slope)
        }),
        // dx = g · 2/√π · exp(-x²)
        UnaryOp::Erf => first(|b, s| {
            let square = b.mul(s.x(0), s.x(0));
            let exponent = b.neg(square);
            let bell = b.unary(UnaryOp::Exp, exponent);
            let slope = b.mul_number(bell, FRAC_2_SQRT_PI);
            b.mul(s.g(), slope)
        }),
    }
}

/// Functions of two operands. Those on integers are never asked, since integers take no cotangent.
pub(super) fn binary(op: BinaryOp) -> Option<Rule<'static>> {
    match op {
        // da = g, db = g
        BinaryOp::Add => both(|_, s| s.g(), |_, s| s.g()),
        // da = g, db = -g
        BinaryOp::Sub => both(|_, s| s.g(), |b, s| b.neg(s.g())),
        // da = g · b, db = g · a
        BinaryOp::Mul => both(|b, s| b.mul(s.g(), s.x(1)), |b, s| b.mul(s.g(), s.x(0))),
        // da = g / b, db = -g · y / b
        BinaryOp::Div => both(
            |b, s| b.div(s.g(), s.x(1)),
            |b, s| {
                let slope = b.div(s.y(), s.x(1));
                let product = b.mul(s.g(), slope);
                b.neg(product)
            },
        ),
        // The chosen operand gets g; equal operands get g / 2 each.
        BinaryOp::Max => both(
            |b, s| chosen(b, s.g(), CompareOp::Lt, s.x(0), s.x(1)),
            |b, s| chosen(b, s.g(), CompareOp::Lt, s.x(1), s.x(0)),
        ),
        BinaryOp::Min => both(
            |b, s| chosen(b, s.g(), CompareOp::Gt, s.x(0), s.x(1)),
            |b, s| chosen(b, s.g(), CompareOp::Gt, s.x(1), s.x(0)),
        ),
        BinaryOp::Pow => both(
            // da = g · b · a^(b - 1), and 0 where b = 0, also at a = 0
            |b, s| {
                let (a, exponent) = (s.x(0), s.x(1));
                let lower = b.add_number(exponent, -1.0);
                let power = b.binary(BinaryOp::Pow, a, lower);
                let slope = b.mul(exponent, power);
                let product = b.mul(s.g(), slope);
                let zeros = zeros_like(b, a);
                let constant = b.compare(CompareOp::Eq, exponent, zeros);
                b.select(constant, zeros, product)
            },
            // db = g · y · log(a), and 0 where a = 0 and b >= 0, the limit
            |b, s| {
                let (a, exponent) = (s.x(0), s.x(1));
                let log = b.unary(UnaryOp::Log, a);
                let slope = b.mul(s.y(), log);
                let product = b.mul(s.g(), slope);
                let zeros = zeros_like(b, a);
                let at_zero = b.compare(CompareOp::Eq, a, zeros);
                let tame = b.compare(CompareOp::Ge, exponent, zeros);
                let limit = b.binary(BinaryOp::And, at_zero, tame);
                b.select(limit, zeros, product)
            },
        ),
        // da = g, db = -g · trunc(a / b); the quotient is (a - y) / b, which does not round past an integer
        BinaryOp::Rem => both(
            |_, s| s.g(),
            |b, s| {
                let multiple = b.sub(s.x(0), s.y());
                let quotient = b.div(multiple, s.x(1));
                let product = b.mul(s.g(), quotient);
                b.neg(product)
            },
        ),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => None,
    }
}

/// da = g where the condition holds, db = g elsewhere.
pub(super) fn select() -> Option<Rule<'static>> {
    some(|b, s| {
        let zeros = zeros_like(b, s.g());
        if s.needs(1) && !s.needs(2) && is_rectifier(b, s) {
            // The result is kept for what follows; so the condition need not be.
            let positive = b.compare(CompareOp::Gt, s.y(), zeros);
            let da = b.select(positive, s.g(), zeros);
            return Ok(rest_none(s, [None, Some(da), None]));
        }
        let da = s.needs(1).then(|| b.select(s.x(0), s.g(), zeros));
        let db = s.needs(2).then(|| b.select(s.x(0), zeros, s.g()));
        Ok(rest_none(s, [None, da, db]))
    })
}

/// Whether the op is `x > 0 ? x : 0`, whose result is positive exactly where x is.
fn is_rectifier(b: &Builder<'_>, s: &Site<'_>) -> bool {
    let compared = b.graph.defining_op(s.x(0)).is_some_and(|op| {
        op.kind == OpKind::Compare(CompareOp::Gt) && op.operands[0] == s.x(1) && is_zero(b, op.operands[1])
    });
    compared && is_zero(b, s.x(2))
}

/// Whether the value is a constant 0, perhaps repeated.
fn is_zero(b: &Builder<'_>, value: ValueId) -> bool {
    b.graph.defining_op(value).is_some_and(|op| match &op.kind {
        OpKind::Constant { data: Literal::Splat(number), .. } => number.as_f64() == 0.0,
        OpKind::Reshape { .. } | OpKind::Broadcast { .. } => is_zero(b, op.operands[0]),
        _ => false,
    })
}

/// dx = g between floats; integers and bools pass nothing on.
pub(super) fn cast(to: DType) -> Option<Rule<'static>> {
    if !to.is_float() {
        return None;
    }
    first(|b, s| {
        let dtype = b.graph.ty(s.x(0)).dtype;
        b.cast(s.g(), dtype)
    })
}

/// `1 - x`.
fn one_minus(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    let one = b.splat_like(x, 1.0);
    b.sub(one, x)
}

/// The cotangent of `a` in a choice between `a` and `b`: nothing where `a loses b`, half of `g` where they
/// are equal. A NaN in either passes `g` to both.
fn chosen(builder: &mut Builder<'_>, g: ValueId, loses: CompareOp, a: ValueId, b: ValueId) -> ValueId {
    let tie = builder.compare(CompareOp::Eq, a, b);
    let lost = builder.compare(loses, a, b);
    let half = builder.mul_number(g, 0.5);
    let zeros = zeros_like(builder, g);
    let whole = builder.select(lost, zeros, g);
    builder.select(tie, half, whole)
}
