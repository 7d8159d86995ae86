//! Elementwise ops: unary, composite, binary, compare, select and cast.

use super::error::trap;
use super::{HostData, HostTensor};
use crate::error::Result;
use crate::ir::{BinaryOp, CompareOp, CompositeOp, DType, Type, UnaryOp};

/// Wraps `value` to the range of an integer `dtype`.
pub(super) fn wrap(dtype: DType, value: i64) -> i64 {
    match dtype {
        DType::U32 => i64::from(value as u32),
        DType::U8 => i64::from(value as u8),
        DType::I64 => value,
        _ => i64::from(value as i32),
    }
}

fn tensor(ty: &Type, data: HostData) -> HostTensor {
    HostTensor { ty: ty.clone(), data }
}

pub(super) fn unary(op: UnaryOp, x: &HostTensor) -> HostTensor {
    let dtype = x.ty.dtype;
    let data = match &x.data {
        HostData::Float(v) => HostData::Float(v.iter().map(|&v| op.float(v)).collect()),
        HostData::Int(v) => HostData::Int(v.iter().map(|&v| wrap(dtype, op.int(v))).collect()),
        HostData::Bool(v) => HostData::Bool(v.iter().map(|&v| op.bool(v)).collect()),
    };
    tensor(&x.ty, data)
}

pub(super) fn composite(op: CompositeOp, x: &HostTensor) -> HostTensor {
    let HostData::Float(values) = &x.data else { unreachable!("composite functions take floats") };
    tensor(&x.ty, HostData::Float(values.iter().map(|&v| op.float(v)).collect()))
}

pub(super) fn binary(op: BinaryOp, a: &HostTensor, b: &HostTensor) -> Result<HostTensor> {
    let dtype = a.ty.dtype;
    let data = match (&a.data, &b.data) {
        (HostData::Float(a), HostData::Float(b)) => {
            HostData::Float(a.iter().zip(b).map(|(&a, &b)| op.float(a, b)).collect())
        }
        (HostData::Int(a), HostData::Int(b)) => {
            let mut values = Vec::with_capacity(a.len());
            for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
                let Some(value) = op.int(a, b) else {
                    let name = op.name();
                    return Err(trap(format!("{name} of {a} by zero at element {i}")));
                };
                values.push(wrap(dtype, value));
            }
            HostData::Int(values)
        }
        (HostData::Bool(a), HostData::Bool(b)) => {
            HostData::Bool(a.iter().zip(b).map(|(&a, &b)| op.bool(a, b)).collect())
        }
        _ => unreachable!("operands of {} have one dtype", op.name()),
    };
    Ok(tensor(&a.ty, data))
}

pub(super) fn compare(op: CompareOp, a: &HostTensor, b: &HostTensor) -> HostTensor {
    fn each<T: PartialOrd + Copy>(op: CompareOp, a: &[T], b: &[T]) -> Vec<bool> {
        a.iter().zip(b).map(|(a, b)| op.holds(a, b)).collect()
    }
    let data = match (&a.data, &b.data) {
        (HostData::Float(a), HostData::Float(b)) => each(op, a, b),
        (HostData::Int(a), HostData::Int(b)) => each(op, a, b),
        (HostData::Bool(a), HostData::Bool(b)) => each(op, a, b),
        _ => unreachable!("operands of {} have one dtype", op.name()),
    };
    tensor(&Type::new(DType::Bool, a.ty.shape.clone()), HostData::Bool(data))
}

/// Returns `a` where the condition is true, and `b` elsewhere.
pub(super) fn select(condition: &HostTensor, a: &HostTensor, b: &HostTensor) -> HostTensor {
    let chosen = (0..a.len()).map(|i| if condition.get(i).as_f64() != 0.0 { a.get(i) } else { b.get(i) });
    HostTensor::from_numbers(a.ty.clone(), chosen)
}

/// Converts the elements to another dtype.
///
/// # Errors
/// Returns an error if an i64 element is out of the range of an integer dtype.
pub(super) fn cast(x: &HostTensor, dtype: DType) -> Result<HostTensor> {
    if x.ty.dtype == DType::I64
        && let Some(i) = (0..x.len()).find(|&i| wrap(dtype, x.integer(i)) != x.integer(i))
    {
        return Err(trap(format!("the i64 {} at element {i} is not in {dtype}'s range", x.integer(i))));
    }
    let data = match dtype {
        DType::F32 => HostData::Float(x.to_f64()),
        DType::F16 | DType::BF16 => {
            HostData::Float(x.to_f64().into_iter().map(|v| dtype.rounded(v)).collect())
        }
        DType::I32 | DType::U32 | DType::U8 | DType::I64 => HostData::Int(match &x.data {
            // Rust's `as` rounds towards zero, saturates and converts NaN to 0, as the IR specifies.
            HostData::Float(v) if dtype == DType::I32 => v.iter().map(|&v| i64::from(v as i32)).collect(),
            HostData::Float(v) => v.iter().map(|&v| i64::from(v as u32)).collect(),
            HostData::Int(v) => v.iter().map(|&v| wrap(dtype, v)).collect(),
            HostData::Bool(v) => v.iter().map(|&v| i64::from(v)).collect(),
        }),
        DType::Bool => HostData::Bool(x.to_f64().into_iter().map(|v| v != 0.0).collect()),
    };
    Ok(tensor(&Type::new(dtype, x.ty.shape.clone()), data))
}
