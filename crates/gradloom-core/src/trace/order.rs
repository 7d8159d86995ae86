//! Elements in order, and running totals along an axis.

use super::Tensor;
use super::reduce::resolve_axis;
use super::tensor::{emit, emit_all, fail, placeholder};
use crate::ir::{DType, OpKind, ReduceOp};

impl Tensor {
    /// Computes the sums of the elements up to and including each one along an axis.
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

    /// Computes the products of the elements up to and including each one along an axis.
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

    /// Returns the largest of the elements up to and including each one along an axis; NaN from the first
    /// NaN on. The gradient goes to the last of equals.
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

    /// Returns the smallest of the elements up to and including each one along an axis; NaN from the first
    /// NaN on. The gradient goes to the last of equals.
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

    /// Sorts the elements of an axis from the smallest to the largest. NaN comes behind all numbers.
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

    /// Sorts the elements of an axis from the largest to the smallest. NaN comes before all numbers.
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

    /// Returns the indices, i32, that [`Tensor::sort`] takes the elements from; of equals, the smaller
    /// index comes first.
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

    /// Returns the indices, i32, that [`Tensor::sort_descending`] takes the elements from; of equals, the
    /// smaller index comes first.
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

    /// Returns the `k` largest elements of an axis, the largest first, and their indices, i32. NaN is above
    /// all numbers; of equals, the smaller index comes first. For the smallest, negate the elements.
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

    /// Returns the indices of [`Tensor::top_k`] alone.
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

    /// Returns the first elements of an axis in order, all if no count is given, and their indices.
    #[track_caller]
    fn in_order(self, token: &str, count: Option<usize>, axis: isize, descending: bool) -> [Tensor; 2] {
        let shape = self.shape();
        let none = || [self, placeholder(DType::I32, shape.clone())];
        let Some(at) = resolve_axis(token, axis, &shape) else { return none() };
        let count = count.unwrap_or(shape[at]);
        if count > shape[at] {
            let message = format!("`{token}` of {count} elements of axis {axis} of {shape}");
            fail(token, message, Some(format!("the axis has {} elements", shape[at])));
            return none();
        }
        let at = at as isize;
        let found = emit_all(OpKind::Sort { count, descending }, &[self.transpose(at, -1)], token, 2);
        [found[0].transpose(at, -1), found[1].transpose(at, -1)]
    }
}
