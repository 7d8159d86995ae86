//! Sorting, and cumulative reductions along an axis.

use super::Tensor;
use super::reduce::resolve_axis;
use super::tensor::{emit, emit_all, placeholder, refused};
use crate::ir::{DType, OpKind, ReduceOp};

impl Tensor {
    /// Computes the cumulative sum along an axis: each element of the result is the sum of all elements up to
    /// and including its position.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).cumsum(0)), [1.0, 3.0, 6.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn cumsum(self, axis: isize) -> Tensor {
        self.cumulate(ReduceOp::Sum, "cumsum", axis)
    }

    /// Computes the cumulative product along an axis: each element of the result is the product of all
    /// elements up to and including its position.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).cumprod(0)), [1.0, 2.0, 6.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn cumprod(self, axis: isize) -> Tensor {
        self.cumulate(ReduceOp::Prod, "cumprod", axis)
    }

    /// Computes the cumulative maximum along an axis, which is NaN from the first NaN on. Of equal elements,
    /// the last gets the gradient.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0, 2.0], [3]).cummax(0)), [1.0, 3.0, 3.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn cummax(self, axis: isize) -> Tensor {
        self.cumulate(ReduceOp::Max, "cummax", axis)
    }

    /// Computes the cumulative minimum along an axis, which is NaN from the first NaN on. Of equal elements,
    /// the last gets the gradient.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[3.0, 1.0, 2.0], [3]).cummin(0)), [3.0, 1.0, 1.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn cummin(self, axis: isize) -> Tensor {
        self.cumulate(ReduceOp::Min, "cummin", axis)
    }

    #[track_caller]
    fn cumulate(self, op: ReduceOp, token: &str, axis: isize) -> Tensor {
        let Some(at) = resolve_axis(token, axis, &self.shape()) else { return self };
        let at = at as isize;
        emit(OpKind::Cumulate { op, reverse: false }, &[self.transpose(at, -1)], token).transpose(at, -1)
    }

    /// Sorts the elements along an axis in ascending order. NaN comes after all numbers.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[2.0, 3.0, 1.0], [3]).sort(0)), [1.0, 2.0, 3.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn sort(self, axis: isize) -> Tensor {
        self.in_order("sort", None, axis, false)[0]
    }

    /// Sorts the elements along an axis in descending order. NaN comes before all numbers.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[2.0, 3.0, 1.0], [3]).sort_descending(0)), [3.0, 2.0, 1.0]);
    /// ```
    #[doc(alias = "sort")]
    #[track_caller]
    #[must_use]
    pub fn sort_descending(self, axis: isize) -> Tensor {
        self.in_order("sort_descending", None, axis, true)[0]
    }

    /// Returns the i32 indices of the elements in the order of [`Tensor::sort`]. Of equal elements, the one
    /// with the smaller index comes first.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[2.0, 3.0, 1.0], [3]).argsort(0)), [2.0, 0.0, 1.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn argsort(self, axis: isize) -> Tensor {
        self.in_order("argsort", None, axis, false)[1]
    }

    /// Returns the i32 indices of the elements in the order of [`Tensor::sort_descending`]. Of equal
    /// elements, the one with the smaller index comes first.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[2.0, 3.0, 1.0], [3]).argsort_descending(0)), [1.0, 0.0, 2.0]);
    /// ```
    #[doc(alias = "argsort")]
    #[track_caller]
    #[must_use]
    pub fn argsort_descending(self, axis: isize) -> Tensor {
        self.in_order("argsort_descending", None, axis, true)[1]
    }

    /// Returns the `k` largest elements along an axis in descending order, and their i32 indices. NaN counts
    /// as larger than all numbers; of equal elements, the one with the smaller index comes first. For the
    /// smallest elements, negate the tensor.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[2.0, 3.0, 1.0], [3]).top_k(2, 0).0), [3.0, 2.0]);
    /// ```
    #[doc(alias = "topk")]
    #[track_caller]
    #[must_use]
    pub fn top_k(self, k: usize, axis: isize) -> (Tensor, Tensor) {
        let [values, indices] = self.in_order("top_k", Some(k), axis, true);
        (values, indices)
    }

    /// Returns the indices of [`Tensor::top_k`] without the elements.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[2.0, 3.0, 1.0], [3]).arg_top_k(2, 0)), [1.0, 0.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn arg_top_k(self, k: usize, axis: isize) -> Tensor {
        self.in_order("arg_top_k", Some(k), axis, true)[1]
    }

    /// Returns the first `count` elements along an axis in sorted order, or all elements if `count` is
    /// `None`, and their indices.
    #[track_caller]
    fn in_order(self, token: &str, count: Option<usize>, axis: isize, descending: bool) -> [Tensor; 2] {
        let shape = self.shape();
        let none = || [self, placeholder(DType::I32, shape.clone())];
        let Some(at) = resolve_axis(token, axis, &shape) else { return none() };
        let count = count.unwrap_or(shape[at]);
        if count > shape[at] {
            let message = format!("`{token}` of {count} elements of axis {axis} of {shape}");
            return refused(token, message, format!("the axis has {} elements", shape[at]), none());
        }
        let at = at as isize;
        let found = emit_all(OpKind::Sort { count, descending }, &[self.transpose(at, -1)], token, 2);
        [found[0].transpose(at, -1), found[1].transpose(at, -1)]
    }
}
