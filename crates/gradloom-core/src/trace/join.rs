//! Joining several tensors into one.

use super::reduce::{resolve_axis, resolve_new_axis};
use super::tensor::{emit, placeholder, refused};
use super::{Tensor, op};
use crate::ir::{DType, OpKind, Shape, cast_help};

/// Joins tensors of the same dtype along an axis; the extents of the other axes must be equal.
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// assert_eq!(eval(|| concat(0, &[literal(&[1.0], [1]), literal(&[2.0, 3.0], [2])])), [1.0, 2.0, 3.0]);
/// ```
#[doc(alias = "cat")]
#[track_caller]
#[must_use]
pub fn concat(axis: isize, parts: &[Tensor]) -> Tensor {
    let Some(first) = parts.first() else {
        let help = "give at least one";
        return refused("concat", "`concat` of no tensors", help, placeholder(DType::F32, Shape::scalar()));
    };
    let ty = first.ty();
    let Some(at) = resolve_axis("concat", axis, &ty.shape) else { return *first };
    // A loop instead of closures, so that errors are reported at the caller's line.
    for part in &parts[1..] {
        let other = part.ty();
        if other.dtype != ty.dtype {
            let message = format!("`concat` of {ty} and {other}: the dtypes differ");
            return refused("concat", message, cast_help(ty.dtype, other.dtype), *first);
        }
        let same = |shape: &Shape| (shape.rank(), shape.without(&[at]));
        if same(&other.shape) != same(&ty.shape) {
            let message = format!("`concat` of {} and {} along axis {axis}", ty.shape, other.shape);
            let help = "only the extents of this axis may differ; `stack` joins along a new axis";
            return refused("concat", message, help, *first);
        }
    }
    emit(OpKind::Concat { axis: at }, parts, "concat")
}

/// Joins tensors of the same dtype and shape along a new axis: `stack(1, &[a, b])` of two tensors `[A, B]`
/// returns `[A, 2, B]`. A negative axis counts from the last axis of the result. Corresponds to `torch.stack`
/// and `numpy.stack`.
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// let y = eval(|| stack(-1, &[literal(&[1.0, 2.0], [2]), literal(&[3.0, 4.0], [2])]));
/// assert_eq!(y, [1.0, 3.0, 2.0, 4.0]);
/// ```
#[op]
pub fn stack(axis: isize, parts: &[Tensor]) -> Tensor {
    let Some(first) = parts.first() else {
        let help = "give at least one";
        return refused("stack", "`stack` of no tensors", help, placeholder(DType::F32, Shape::scalar()));
    };
    let ty = first.ty();
    let Some(at) = resolve_new_axis("stack", axis, &ty.shape) else { return *first };
    // A loop instead of closures, so that errors and ops have the caller's line.
    let mut rows = Vec::with_capacity(parts.len());
    for part in parts {
        let other = part.ty();
        if other != ty {
            let message = format!("`stack` of {ty} and {other}: the dtypes and shapes must be the same");
            return refused("stack", message, "`concat` joins along an axis that the tensors have", *first);
        }
        rows.push(part.unsqueeze(at as isize));
    }
    concat(at as isize, &rows)
}
