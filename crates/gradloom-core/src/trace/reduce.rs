//! Reductions, and functions composed of them.

use super::tensor::{emit, has_floats, placeholder, refused};
use super::{Tensor, op};
use crate::collections::sort;
use crate::ir::{ArgReduceOp, DType, OpKind, ReduceOp, Shape};

/// One or more axes; negative numbers count from the last axis (-1).
pub trait Axes {
    /// Returns the axes as given, with negative numbers unresolved.
    fn list(&self) -> Vec<isize>;
}

impl Axes for isize {
    fn list(&self) -> Vec<isize> {
        vec![*self]
    }
}

impl<const N: usize> Axes for [isize; N] {
    fn list(&self) -> Vec<isize> {
        self.to_vec()
    }
}

impl Axes for Vec<isize> {
    fn list(&self) -> Vec<isize> {
        self.clone()
    }
}

impl Axes for [isize] {
    fn list(&self) -> Vec<isize> {
        self.to_vec()
    }
}

impl<A: Axes + ?Sized> Axes for &A {
    fn list(&self) -> Vec<isize> {
        (**self).list()
    }
}

/// Returns the axis counted from the first axis; `None` after an error of the trace.
#[track_caller]
pub(super) fn resolve_axis(token: &str, axis: isize, shape: &Shape) -> Option<usize> {
    let rank = shape.rank() as isize;
    let resolved = if axis < 0 { axis + rank } else { axis };
    if (0..rank).contains(&resolved) {
        return Some(resolved as usize);
    }
    let help = match rank {
        0 => "a scalar has no axes".to_string(),
        1 => "the only axis is 0, or -1".to_string(),
        _ => format!("axes are 0 to {}, or -{rank} to -1", rank - 1),
    };
    refused(token, format!("`{token}`: axis {axis} is out of range for {shape} (rank {rank})"), help, None)
}

/// Returns the position of a new axis in the result, counted from the first axis; `None` after an error of
/// the trace.
#[track_caller]
pub(super) fn resolve_new_axis(token: &str, axis: isize, shape: &Shape) -> Option<usize> {
    let rank = shape.rank() as isize + 1;
    let resolved = if axis < 0 { axis + rank } else { axis };
    if (0..rank).contains(&resolved) {
        return Some(resolved as usize);
    }
    let help = format!("axes of the result are 0 to {}, or -{rank} to -1", rank - 1);
    refused(token, format!("`{token}`: axis {axis} is out of range for a new axis of {shape}"), help, None)
}

#[track_caller]
fn reduce(op: ReduceOp, token: &str, x: Tensor, axes: Vec<isize>, keep: bool) -> Tensor {
    let shape = x.shape();
    let mut resolved = Vec::new();
    for axis in axes {
        let Some(axis) = resolve_axis(token, axis, &shape) else { return x };
        if resolved.contains(&axis) {
            let message = format!("`{token}` of {shape}: axis {axis} is given twice");
            return refused(token, message, "name each axis once; -1 is the last one", x);
        }
        resolved.push(axis);
    }
    sort(&mut resolved);
    let kept: Vec<usize> =
        shape.iter().enumerate().map(|(a, &n)| if resolved.contains(&a) { 1 } else { n }).collect();
    let reduced =
        if resolved.is_empty() { x } else { emit(OpKind::Reduce { op, axes: resolved }, &[x], token) };
    if keep { reduced.reshape(kept) } else { reduced }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $all:ident $some:ident $keep:ident => $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])*
            ///
            /// Reduces all axes to a tensor of rank 0.
            #[track_caller] pub fn $all(self) -> Tensor {
                reduce(ReduceOp::$op, stringify!($all), self, self.every_axis(), false)
            }
            $(#[$doc])*
            ///
            /// Reduces the given axes, which are removed.
            #[track_caller] pub fn $some(self, axes: impl Axes) -> Tensor {
                reduce(ReduceOp::$op, stringify!($some), self, axes.list(), false)
            }
            $(#[$doc])*
            ///
            /// Reduces the given axes, which are kept with extent 1.
            #[track_caller] pub fn $keep(self, axes: impl Axes) -> Tensor {
                reduce(ReduceOp::$op, stringify!($keep), self, axes.list(), true)
            })*
        }
    };
}
reductions! {
    /// Computes the sum, which is 0 if there are no elements.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).sum_axes(0)), [4.0, 6.0]);
    /// ```
    sum sum_axes sum_keep => Sum;
    /// Computes the product, which is 1 if there are no elements.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).prod_axes(-1)), [2.0, 12.0]);
    /// ```
    #[doc(alias = "product")]
    prod prod_axes prod_keep => Prod;
    /// Returns the largest element: NaN if any element is NaN, and `-inf` if there are no elements.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).max_keep(1)), [2.0, 4.0]);
    /// ```
    #[doc(alias = "amax")]
    max max_axes max_keep => Max;
    /// Returns the smallest element: NaN if any element is NaN, and `inf` if there are no elements.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).min()), [1.0]);
    /// ```
    #[doc(alias = "amin")]
    min min_axes min_keep => Min;
}

impl Tensor {
    #[track_caller]
    fn divided_by_count(self, sum: Tensor, token: &str) -> Tensor {
        if !self.dtype().is_float() {
            let message = format!("`{token}` of {}: a mean has a fraction", self.ty());
            let help = "convert with .cast(DType::F32)";
            return refused(token, message, help, placeholder(DType::F32, sum.shape()));
        }
        let count = self.shape().elements().checked_div(sum.shape().elements()).unwrap_or(0);
        if count == 0 {
            return sum.undefined();
        }
        sum / super::operand::number(count as f64, sum)
    }

    /// Returns NaN for each element, like 0 / 0 but without a division: a GPU's compiler may assume that
    /// neither NaN nor infinity occurs, and turn such a division into 0.
    #[track_caller]
    pub(super) fn undefined(self) -> Tensor {
        self.is_nan().select(self, f64::NAN)
    }

    /// Computes the mean of all elements, which is NaN if there are none.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).mean()), [2.5]);
    /// ```
    #[doc(alias = "average")]
    #[op]
    pub fn mean(self) -> Tensor {
        self.divided_by_count(self.sum(), "mean")
    }

    /// Computes the mean over the given axes, which are removed.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).mean_axes(0)), [2.0, 3.0]);
    /// ```
    #[op]
    pub fn mean_axes(self, axes: impl Axes) -> Tensor {
        self.divided_by_count(self.sum_axes(axes), "mean_axes")
    }

    /// Computes the mean over the given axes, which are kept with extent 1.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).mean_keep(-1)), [1.5, 3.5]);
    /// ```
    #[op]
    pub fn mean_keep(self, axes: impl Axes) -> Tensor {
        self.divided_by_count(self.sum_keep(axes), "mean_keep")
    }

    /// Returns the index of the largest element along an axis, as i32. Of equal elements, the first is
    /// chosen; NaN takes precedence over numbers.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).argmax(-1)), [1.0, 1.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn argmax(self, axis: isize) -> Tensor {
        self.arg_reduce(ArgReduceOp::ArgMax, "argmax", axis)
    }

    /// Returns the index of the smallest element along an axis, as i32. Of equal elements, the first is
    /// chosen; NaN takes precedence over numbers.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).argmin(-1)), [0.0, 0.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn argmin(self, axis: isize) -> Tensor {
        self.arg_reduce(ArgReduceOp::ArgMin, "argmin", axis)
    }

    #[track_caller]
    fn arg_reduce(self, op: ArgReduceOp, token: &str, axis: isize) -> Tensor {
        match resolve_axis(token, axis, &self.shape()) {
            Some(axis) => emit(OpKind::ArgReduce { op, axis }, &[self], token),
            None => placeholder(DType::I32, self.shape()),
        }
    }

    /// Computes `exp(x) / sum(exp(x))` along an axis.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0, 0.0], [2]).softmax(0)), [0.5, 0.5]);
    /// ```
    #[op]
    pub fn softmax(self, axis: isize) -> Tensor {
        if !has_floats("softmax", self) {
            return self;
        }
        let exp = (self - self.max_keep(axis).detach()).exp();
        exp / exp.sum_keep(axis)
    }

    /// Computes `x - log(sum(exp(x)))` along an axis.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[7.0], [1]).log_softmax(0)), [0.0]);
    /// ```
    #[op]
    pub fn log_softmax(self, axis: isize) -> Tensor {
        if !has_floats("log_softmax", self) {
            return self;
        }
        let shifted = self - self.max_keep(axis).detach();
        shifted - shifted.exp().sum_keep(axis).log()
    }
}
