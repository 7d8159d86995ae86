//! Shape checks for functions in which broadcasting would be a mistake: a loss of predictions `[32, 1]` and
//! targets `[32]` would compare each prediction with every target, and train towards the mean of the targets.
//!
//! In: the tensors of a call. Out: `true` if their shapes match; otherwise, an error of the trace that
//! suggests how to make them match. Invariant: accepted tensors yield one term for each prediction.

use super::reduce::resolve_axis;
use super::tensor::{fail, placeholder, refused};
use super::{Operand, Tensor};
use crate::ir::{DType, Shape};

/// Returns `true` if targets have the shape of the predictions, or are one number for all predictions;
/// otherwise, records an error of the function named `token`.
#[track_caller]
pub(super) fn are_targets(token: &str, predictions: Tensor, targets: impl Operand) -> bool {
    if targets.number().is_some() {
        return true;
    }
    let targets = targets.tensor(predictions);
    // Accept dtypes that differ, as the function itself reports them.
    predictions.dtype().computed() != targets.dtype().computed()
        || targets.rank() == 0
        || are_alike(token, ["predictions", "targets"], predictions, targets)
}

/// Returns `true` if two tensors have the same shape; otherwise, records an error of the function `token`
/// that refers to the tensors by `names`.
#[track_caller]
pub(super) fn are_alike(token: &str, names: [&str; 2], first: Tensor, second: Tensor) -> bool {
    let (a, b) = (first.shape(), second.shape());
    if a == b {
        return true;
    }
    let [one, other] = names;
    let (first, second) = (first.ty(), second.ty());
    let message = match first.dtype == second.dtype {
        true => format!("`{token}` of {one} {a} and {other} {b}: the shapes differ"),
        false => format!("`{token}` of {one} {first} and {other} {second}: the shapes and the dtypes differ"),
    };
    refused(token, message, remedy(names, &a, &b), false)
}

/// Suggests how to give two tensors the same shape.
fn remedy([one, other]: [&str; 2], a: &Shape, b: &Shape) -> String {
    if let Some(axis) = superfluous(a, b) {
        return format!("`.squeeze({axis})` on the {one} gives them the shape of the {other}");
    }
    if let Some(axis) = superfluous(b, a) {
        return format!("`.squeeze({axis})` on the {other} gives them the shape of the {one}");
    }
    let long = |shape: &Shape| shape.iter().copied().filter(|&extent| extent != 1).collect::<Vec<_>>();
    if long(a) == long(b) {
        return format!("`.reshape({a})` on the {other} gives them the shape of the {one}");
    }
    let common = a.broadcast(b);
    if common.as_ref() == Some(a) {
        return format!("they do not broadcast; if each is for several, `.broadcast_to({a})` on the {other}");
    }
    if common.as_ref() == Some(b) {
        return format!("they do not broadcast; if each is for several, `.broadcast_to({b})` on the {one}");
    }
    format!("give the {one} and the {other} the same shape: they do not broadcast")
}

/// Returns the last axis of extent 1 without which `shape` equals `other`.
fn superfluous(shape: &Shape, other: &Shape) -> Option<usize> {
    (0..shape.rank()).rev().find(|&axis| shape[axis] == 1 && shape.without(&[axis]) == *other)
}

/// Returns `true` if `part` broadcasts to the shape of `x` without enlarging it; otherwise, records an error
/// of the function `token` that refers to the part by `name`.
#[track_caller]
pub(super) fn is_within(token: &str, x: Tensor, name: &str, part: Tensor) -> bool {
    let (whole, own) = (x.shape(), part.shape());
    let fits = whole.broadcast(&own).as_ref() == Some(&whole);
    if !fits {
        let message = format!("`{token}` of {whole} with a {name} {own}");
        let help = format!("from the right, the extents of the {name} are those of {whole}, or 1");
        fail(token, message, help);
    }
    fits
}

/// Returns `true` if `numbers` is `[B..]`, with one number for each row of `rows` `[B.., width]`, or a
/// scalar; otherwise, records an error of the function `token` that refers to the tensors by these names.
#[track_caller]
pub(super) fn is_one_per_row(token: &str, [one, other]: [&str; 2], rows: Tensor, numbers: Tensor) -> bool {
    let (shape, own) = (rows.shape(), numbers.shape());
    let Some((_, lead)) = shape.split_last() else {
        return refused(token, format!("`{token}` of {one} {shape}"), "they are [.., width]", false);
    };
    let fits = own.rank() == 0 || own[..] == *lead;
    if !fits {
        let lead = Shape::from(lead);
        let message = format!("`{token}` of {one} {shape} and {other} {own}: there is not one for each row");
        let help = match superfluous(&own, &lead) {
            Some(axis) => format!("`.squeeze({axis})` on the {other} gives them the shape {lead}"),
            None => format!("the {other} are {lead}"),
        };
        fail(token, message, help);
    }
    fits
}

/// Returns an axis of the shape to which two tensors broadcast, as a negative number that counts from the
/// last axis. Both tensors have the same extent along it. Returns `None` after an error of the function named
/// `token`.
#[track_caller]
pub(super) fn common_axis(token: &str, first: Tensor, second: Tensor, axis: isize) -> Option<isize> {
    let (a, b) = (first.shape(), second.shape());
    let Some(common) = a.broadcast(&b) else {
        let message = format!("`{token}` of {a} and {b}: the shapes do not broadcast");
        return refused(token, message, "from the right, extents are equal or 1", None);
    };
    let from_last = common.rank() - resolve_axis(token, axis, &common)?;
    let extent = |shape: &Shape| shape.rank().checked_sub(from_last).map(|axis| shape[axis]);
    if extent(&a).is_none() || extent(&a) != extent(&b) {
        let message = format!("`{token}` of {a} and {b} along axis {axis}: the extents differ");
        let help = "the axis has the same extent in both; the other axes broadcast";
        return refused(token, message, help, None);
    }
    Some(-(from_last as isize))
}

/// Returns a placeholder for a loss after an error.
#[track_caller]
pub(super) fn no_loss(predictions: Tensor) -> Tensor {
    let dtype = predictions.dtype();
    placeholder(if dtype.is_float() { dtype } else { DType::F32 }, Shape::scalar())
}
