//! Elementwise ops: unary, binary, compare, select, cast.

use super::error::trap;
use super::{HostData, HostTensor};
use crate::error::Result;
use crate::ir::{BinaryOp, CompareOp, DType, Type, UnaryOp};
use std::cmp::Ordering;

/// The low 32 bits of `value`, read as `dtype`.
pub(super) fn wrap(dtype: DType, value: i64) -> i64 {
    match dtype {
        DType::U32 => i64::from(value as u32),
        _ => i64::from(value as i32),
    }
}

fn tensor(ty: &Type, data: HostData) -> HostTensor {
    HostTensor { ty: ty.clone(), data }
}

/// Applies a function of one operand.
pub(super) fn unary(op: UnaryOp, x: &HostTensor) -> HostTensor {
    let dtype = x.ty.dtype;
    let data = match &x.data {
        HostData::Float(v) => HostData::Float(v.iter().map(|&v| unary_float(op, v)).collect()),
        HostData::Int(v) => HostData::Int(v.iter().map(|&v| wrap(dtype, unary_int(op, v))).collect()),
        HostData::Bool(v) if op == UnaryOp::Not => HostData::Bool(v.iter().map(|v| !v).collect()),
        HostData::Bool(v) => HostData::Bool(v.clone()),
    };
    tensor(&x.ty, data)
}

fn unary_float(op: UnaryOp, x: f64) -> f64 {
    match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Sign if x == 0.0 || x.is_nan() => x,
        UnaryOp::Sign => x.signum(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Exp => libm::exp(x),
        UnaryOp::Expm1 => libm::expm1(x),
        UnaryOp::Log => libm::log(x),
        UnaryOp::Log1p => libm::log1p(x),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Sin => libm::sin(x),
        UnaryOp::Cos => libm::cos(x),
        UnaryOp::Tanh => libm::tanh(x),
        // The form whose exponential cannot overflow.
        UnaryOp::Sigmoid if x < 0.0 => libm::exp(x) / (1.0 + libm::exp(x)),
        UnaryOp::Sigmoid => 1.0 / (1.0 + libm::exp(-x)),
        UnaryOp::Erf => libm::erf(x),
        UnaryOp::Detach => x,
        UnaryOp::Not => unreachable!("not of floats is ill-typed"),
    }
}

fn unary_int(op: UnaryOp, x: i64) -> i64 {
    match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Sign => x.signum(),
        UnaryOp::Not => !x,
        UnaryOp::Detach => x,
        UnaryOp::Floor
        | UnaryOp::Exp
        | UnaryOp::Expm1
        | UnaryOp::Log
        | UnaryOp::Log1p
        | UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Tanh
        | UnaryOp::Sigmoid
        | UnaryOp::Erf => unreachable!("{} of integers is ill-typed", op.name()),
    }
}

/// Two operands of one type.
pub(super) fn binary(op: BinaryOp, a: &HostTensor, b: &HostTensor) -> Result<HostTensor> {
    let dtype = a.ty.dtype;
    let data = match (&a.data, &b.data) {
        (HostData::Float(a), HostData::Float(b)) => {
            HostData::Float(a.iter().zip(b).map(|(&a, &b)| binary_float(op, a, b)).collect())
        }
        (HostData::Int(a), HostData::Int(b)) => {
            let mut values = Vec::with_capacity(a.len());
            for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
                let Some(value) = binary_int(op, dtype, a, b) else {
                    let name = op.name();
                    return Err(trap(format!("{name} of {a} by zero at element {i}")));
                };
                values.push(wrap(dtype, value));
            }
            HostData::Int(values)
        }
        (HostData::Bool(a), HostData::Bool(b)) => {
            HostData::Bool(a.iter().zip(b).map(|(&a, &b)| binary_bool(op, a, b)).collect())
        }
        _ => unreachable!("operands of {} have one dtype", op.name()),
    };
    Ok(tensor(&a.ty, data))
}

/// The greater one; NaN if either is.
pub(super) fn max_float(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// The lesser one; NaN if either is.
pub(super) fn min_float(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

fn binary_float(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Min => min_float(a, b),
        BinaryOp::Max => max_float(a, b),
        BinaryOp::Pow => libm::pow(a, b),
        BinaryOp::Rem => a % b,
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => {
            unreachable!("{} of floats is ill-typed", op.name())
        }
    }
}

/// Without the final wrap; `None` for a division by zero.
fn binary_int(op: BinaryOp, dtype: DType, a: i64, b: i64) -> Option<i64> {
    let count = (b & 31) as u32;
    Some(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        // Two u32 factors can pass the 63 bits of an i64, but the low 32 bits are right.
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div => return a.checked_div(b),
        BinaryOp::Rem => return a.checked_rem(b),
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Shl => a << count,
        // The operand is in its dtype's range, so the shift is logical for u32 and arithmetic for i32.
        BinaryOp::Shr => a >> count,
        BinaryOp::Pow => unreachable!("pow of {dtype} is ill-typed"),
    })
}

fn binary_bool(op: BinaryOp, a: bool, b: bool) -> bool {
    match op {
        BinaryOp::And => a && b,
        BinaryOp::Or => a || b,
        BinaryOp::Xor => a != b,
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::Pow
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr => unreachable!("{} of bools is ill-typed", op.name()),
    }
}

/// Bools that say how the elements compare.
pub(super) fn compare(op: CompareOp, a: &HostTensor, b: &HostTensor) -> HostTensor {
    fn each<T: PartialOrd + Copy>(op: CompareOp, a: &[T], b: &[T]) -> Vec<bool> {
        a.iter().zip(b).map(|(a, b)| holds(op, a.partial_cmp(b))).collect()
    }
    let data = match (&a.data, &b.data) {
        (HostData::Float(a), HostData::Float(b)) => each(op, a, b),
        (HostData::Int(a), HostData::Int(b)) => each(op, a, b),
        (HostData::Bool(a), HostData::Bool(b)) => each(op, a, b),
        _ => unreachable!("operands of {} have one dtype", op.name()),
    };
    tensor(&Type::new(DType::Bool, a.ty.shape.clone()), HostData::Bool(data))
}

/// `order` is `None` when a NaN is compared.
fn holds(op: CompareOp, order: Option<Ordering>) -> bool {
    match op {
        CompareOp::Eq => order.is_some_and(Ordering::is_eq),
        CompareOp::Ne => order.is_none_or(Ordering::is_ne),
        CompareOp::Lt => order.is_some_and(Ordering::is_lt),
        CompareOp::Le => order.is_some_and(Ordering::is_le),
        CompareOp::Gt => order.is_some_and(Ordering::is_gt),
        CompareOp::Ge => order.is_some_and(Ordering::is_ge),
    }
}

/// `a` where the condition holds, `b` elsewhere.
pub(super) fn select(condition: &HostTensor, a: &HostTensor, b: &HostTensor) -> HostTensor {
    let chosen = (0..a.len()).map(|i| if condition.get(i).as_f64() != 0.0 { a.get(i) } else { b.get(i) });
    HostTensor::from_numbers(a.ty.clone(), chosen)
}

/// Converts the elements to another dtype.
pub(super) fn cast(x: &HostTensor, dtype: DType) -> HostTensor {
    let data = match dtype {
        DType::F32 => HostData::Float(x.to_f64()),
        DType::I32 | DType::U32 => HostData::Int(match &x.data {
            // Rust's `as` rounds towards zero, saturates, and makes 0 of NaN, as the IR does.
            HostData::Float(v) if dtype == DType::I32 => v.iter().map(|&v| i64::from(v as i32)).collect(),
            HostData::Float(v) => v.iter().map(|&v| i64::from(v as u32)).collect(),
            HostData::Int(v) => v.iter().map(|&v| wrap(dtype, v)).collect(),
            HostData::Bool(v) => v.iter().map(|&v| i64::from(v)).collect(),
        }),
        DType::Bool => HostData::Bool(x.to_f64().into_iter().map(|v| v != 0.0).collect()),
    };
    tensor(&Type::new(dtype, x.ty.shape.clone()), data)
}
