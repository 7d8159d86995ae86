//! Matrix products.

use super::tensor::{emit, placeholder, refused};
use super::{Operand, Tensor};
use crate::ir::{DType, DotAxes, OpKind, Shape};

impl Tensor {
    /// Computes the matrix product over the last axis of `self` and the second-to-last of `right`, like
    /// NumPy's `@`: `[.., M, K] x [.., K, N] -> [.., M, N]`. Leading axes broadcast. A rank-1 operand is a
    /// row on the left and a column on the right, and its axis is removed from the result.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).matmul(literal(&[1.0, 10.0], [2])));
    /// assert_eq!(y, [21.0, 43.0]);
    /// ```
    #[doc(alias = "mm")]
    #[doc(alias = "bmm")]
    #[doc(alias = "mv")]
    #[track_caller]
    #[must_use]
    pub fn matmul(self, right: impl Operand) -> Tensor {
        self.matmul_tensor(right.tensor(self))
    }

    #[track_caller]
    fn matmul_tensor(self, right: Tensor) -> Tensor {
        let (a, b) = (self.shape(), right.shape());
        let (ra, rb) = (a.rank(), b.rank());
        if ra == 0 || rb == 0 {
            let message = format!("`matmul` of {a} and {b}: a scalar has no axis to sum over");
            return refused("matmul", message, "multiply with `*`", self);
        }
        let (k_left, k_right) = (a[ra - 1], b[rb.saturating_sub(2)]);
        let rows = if ra > 1 { vec![a[ra - 2]] } else { vec![] };
        let columns = if rb > 1 { vec![b[rb - 1]] } else { vec![] };
        let batch = Shape::from(&a[..ra.saturating_sub(2)]).broadcast(&b[..rb.saturating_sub(2)].into());
        let shape = |batch: &Shape| [&batch[..], &rows, &columns].concat();
        if k_left != k_right {
            return refused(
                "matmul",
                format!("`matmul` of {a} and {b}: the inner extents {k_left} and {k_right} differ"),
                inner_help(&a, &b),
                placeholder(DType::F32, shape(&batch.unwrap_or_default())),
            );
        }
        let Some(batch) = batch else {
            let help = "before the last two axes, extents are equal or 1, counted from the right";
            let message = format!("`matmul` of {a} and {b}: the leading axes do not broadcast");
            return refused("matmul", message, help, placeholder(DType::F32, shape(&a[..ra - 2].into())));
        };
        // If all left matrices share one right matrix, emit a single product of all their rows, without a
        // batch axis.
        if rb <= 2 {
            let axes = DotAxes { lhs_contract: vec![ra - 1], rhs_contract: vec![0], ..DotAxes::default() };
            return emit(OpKind::Dot(axes), &[self, right], "matmul");
        }
        let left = self.broadcast_to([&batch[..], &a[ra.saturating_sub(2)..]].concat());
        let right = right.broadcast_to([&batch[..], &b[rb - 2..]].concat());
        let n = batch.rank();
        let lead: Vec<usize> = (0..n).collect();
        let axes = DotAxes {
            lhs_batch: lead.clone(),
            rhs_batch: lead,
            lhs_contract: vec![n + rows.len()],
            rhs_contract: vec![n],
        };
        emit(OpKind::Dot(axes), &[left, right], "matmul")
    }

    /// Computes the product over the given batch and contraction axes. The result has the batch axes, then
    /// the remaining axes of the left operand, then those of the right one.
    ///
    /// ```
    /// # use gradloom_core::{ir::DotAxes, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let rows = literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    ///     let more = literal(&[5.0, 6.0, 7.0, 8.0], [2, 2]);
    ///     // Row by row: axis 0 is a batch, axis 1 is contracted.
    ///     let axes = DotAxes {
    ///         lhs_batch: vec![0], rhs_batch: vec![0], lhs_contract: vec![1], rhs_contract: vec![1],
    ///     };
    ///     rows.dot_general(more, axes)
    /// });
    /// assert_eq!(y, [17.0, 53.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn dot_general(self, right: Tensor, axes: DotAxes) -> Tensor {
        emit(OpKind::Dot(axes), &[self, right], "dot_general")
    }
}

fn inner_help(a: &Shape, b: &Shape) -> String {
    let (k, rb) = (a[a.rank() - 1], b.rank());
    if rb >= 2 && b[rb - 1] == k {
        return "the right operand would fit transposed: `.transpose(-2, -1)`".into();
    }
    format!("the right operand needs {k} rows: [.., {k}, N]")
}
