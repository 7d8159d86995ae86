//! Elementwise identities.

use super::super::{definition, splat_of};
use super::emit;
use crate::ir::{BinaryOp, Builder, DType, Number, OpKind, UnaryOp, ValueId};

pub(super) fn unary(b: &mut Builder<'_>, op: UnaryOp, x: ValueId) -> Option<ValueId> {
    use UnaryOp::{Abs, Detach, Floor, Neg, Not, Sign};
    let inner = match definition(b.graph, x) {
        Some((OpKind::Unary(inner), operands)) => Some((*inner, operands[0])),
        _ => None,
    };
    match (op, inner) {
        // Passes run after differentiation, so `Detach` has no effect any more.
        (Detach, _) => Some(x),
        (Neg, Some((Neg, y))) | (Not, Some((Not, y))) => Some(y),
        (Abs, Some((Abs, _))) | (Sign, Some((Sign, _))) | (Floor, Some((Floor, _))) => Some(x),
        (Abs, Some((Neg, y))) => Some(emit(b, OpKind::Unary(Abs), &[y])),
        _ => None,
    }
}

pub(super) fn binary(b: &mut Builder<'_>, op: BinaryOp, x: ValueId, y: ValueId) -> Option<ValueId> {
    let (left, right) = (splat_of(b.graph, x), splat_of(b.graph, y));
    // A neutral right operand can be removed, and so can a neutral left operand of a commutative op.
    let removed = right
        .filter(|n| is_right_neutral(op, *n))
        .map(|_| x)
        .or_else(|| left.filter(|n| op.is_commutative() && is_right_neutral(op, *n)).map(|_| y));
    if removed.is_some() {
        return removed;
    }
    let number = right.or(left.filter(|_| op.is_commutative()));
    let other = if right.is_some() { x } else { y };
    match op {
        BinaryOp::Add => match (negated(b, x), negated(b, y)) {
            (_, Some(y)) => Some(emit(b, OpKind::Binary(BinaryOp::Sub), &[x, y])),
            (Some(x), None) => Some(emit(b, OpKind::Binary(BinaryOp::Sub), &[y, x])),
            (None, None) => None,
        },
        BinaryOp::Sub => {
            let y = negated(b, y)?;
            Some(emit(b, OpKind::Binary(BinaryOp::Add), &[x, y]))
        }
        BinaryOp::Mul | BinaryOp::Div => {
            // Exclude integer division, because -(i32::MIN) wraps to itself.
            let exact = op == BinaryOp::Mul || b.ty(x).dtype.is_float();
            if let (true, Some(nx), Some(ny)) = (exact, negated(b, x), negated(b, y)) {
                return Some(emit(b, OpKind::Binary(op), &[nx, ny]));
            }
            match number? {
                Number::Float(-1.0) | Number::Int(-1) => Some(emit(b, OpKind::Unary(UnaryOp::Neg), &[other])),
                Number::Float(divisor) if op == BinaryOp::Div => {
                    let factor = exact_reciprocal(divisor)?;
                    let factor = b.splat_like(y, factor);
                    Some(b.mul(x, factor))
                }
                _ => None,
            }
        }
        BinaryOp::Min | BinaryOp::Max => (x == y).then_some(x),
        BinaryOp::Pow => match right? {
            Number::Float(2.0) => Some(b.mul(x, x)),
            // This also holds if the base is NaN.
            Number::Float(0.0) => Some(b.splat_like(x, 1.0)),
            _ => None,
        },
        BinaryOp::And | BinaryOp::Or => match number {
            _ if x == y => Some(x),
            // A number that is not neutral determines the result.
            Some(Number::Bool(_)) => Some(if right.is_some() { y } else { x }),
            _ => None,
        },
        BinaryOp::Rem | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => None,
    }
}

/// Returns `true` if `x op number` equals `x` for all x.
fn is_right_neutral(op: BinaryOp, number: Number) -> bool {
    let zero = number == Number::Float(0.0) || number == Number::Int(0) || number == Number::Bool(false);
    let one = number == Number::Float(1.0) || number == Number::Int(1);
    match op {
        // 0 + -0 is 0, so only -0 is neutral for addition. 0 - 0 is 0 and -0 - 0 is -0.
        BinaryOp::Add => number == Number::Float(-0.0) || number == Number::Int(0),
        BinaryOp::Sub | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => zero,
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Pow => one,
        BinaryOp::And => number == Number::Bool(true),
        BinaryOp::Min | BinaryOp::Max | BinaryOp::Rem => false,
    }
}

/// Returns `1 / number` for powers of two, where multiplying by it returns the same result as the division.
fn exact_reciprocal(number: f64) -> Option<f64> {
    let reciprocal = 1.0 / number;
    let power_of_two = number.is_normal() && number.to_bits().trailing_zeros() >= f64::MANTISSA_DIGITS - 1;
    (power_of_two && (reciprocal as f32).is_normal() && (number as f32).is_normal()).then_some(reciprocal)
}

/// Returns the operand of a negation.
fn negated(b: &Builder<'_>, value: ValueId) -> Option<ValueId> {
    match definition(b.graph, value)? {
        (OpKind::Unary(UnaryOp::Neg), x) => Some(x[0]),
        _ => None,
    }
}

pub(super) fn select(b: &mut Builder<'_>, condition: ValueId, yes: ValueId, no: ValueId) -> Option<ValueId> {
    if yes == no {
        return Some(yes);
    }
    if let Some(Number::Bool(holds)) = splat_of(b.graph, condition) {
        return Some(if holds { yes } else { no });
    }
    match definition(b.graph, condition)? {
        (OpKind::Unary(UnaryOp::Not), x) => {
            let opposite = x[0];
            Some(emit(b, OpKind::Select, &[opposite, no, yes]))
        }
        _ => None,
    }
}

pub(super) fn cast(b: &mut Builder<'_>, dtype: DType, x: ValueId) -> Option<ValueId> {
    (b.graph.ty(x).dtype == dtype).then_some(x)
}
