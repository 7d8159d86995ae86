//! Several tensors as one.

use super::Tensor;
use super::reduce::resolve_axis;
use super::tensor::{emit, fail, fail_with_help, placeholder};
use crate::ir::{DType, OpKind, Shape};

/// Joins tensors along an axis; the other extents agree.
#[track_caller]
pub fn concat(axis: isize, parts: &[Tensor]) -> Tensor {
    let Some(first) = parts.first() else {
        fail("concat", "`concat` of no tensors", Some("give at least one".into()));
        return placeholder(DType::F32, Shape::scalar());
    };
    match resolve_axis("concat", axis, &first.shape()) {
        Some(axis) => emit(OpKind::Concat { axis }, parts, "concat"),
        None => *first,
    }
}

/// Joins tensors of one dtype and shape along a new axis: `stack(1, &[a, b])` of two `[A, B]` gives
/// `[A, 2, B]`. A negative axis counts from the last one of the result. `torch.stack`, `numpy.stack`.
#[track_caller]
pub fn stack(axis: isize, parts: &[Tensor]) -> Tensor {
    let Some(first) = parts.first() else {
        fail_with_help("stack", "`stack` of no tensors".into(), "give at least one");
        return placeholder(DType::F32, Shape::scalar());
    };
    let ty = first.ty();
    let rank = ty.shape.rank() as isize + 1;
    let at = if axis < 0 { axis + rank } else { axis };
    if !(0..rank).contains(&at) {
        fail_with_help(
            "stack",
            format!("`stack`: axis {axis} is out of range for a new axis of {}", ty.shape),
            &format!("axes of the result are 0 to {}, or -{rank} to -1", rank - 1),
        );
        return *first;
    }
    // Not closures, so that errors and ops stand at the caller's line.
    let mut rows = Vec::with_capacity(parts.len());
    for part in parts {
        let other = part.ty();
        if other != ty {
            fail_with_help(
                "stack",
                format!("`stack` of {ty} and {other}: the dtypes and shapes must be the same"),
                "`concat` joins along an axis that the tensors have",
            );
            return *first;
        }
        rows.push(part.unsqueeze(at as usize));
    }
    concat(at, &rows)
}
