//! Indexing with tensors of i32, u8 or i64; the latter two are converted to i32. Unless a method documents
//! otherwise, an index out of range is a trap: the step fails with an error and changes nothing.

use super::reduce::resolve_axis;
use super::tensor::{emit, placeholder, refused};
use super::{Tensor, acting, op};
use crate::ir::{DType, OpKind, ScatterOp, Shape};

impl Tensor {
    /// Gathers the rows that `index` names: for `self` `[N, R..]` and `index` i32 `[I..]`, returns
    /// `[I.., R..]`.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    ///     x.gather_rows(literal(&[1.0, 0.0], [2]).cast(DType::I32))
    /// });
    /// assert_eq!(y, [3.0, 4.0, 1.0, 2.0]);
    /// ```
    #[doc(alias = "embedding")]
    #[doc(alias = "take")]
    #[track_caller]
    #[must_use]
    pub fn gather_rows(self, index: Tensor) -> Tensor {
        if self.rank() == 0 {
            return refused("gather_rows", "`gather_rows` of a scalar", "the table is [rows, ..]", self);
        }
        emit(OpKind::Gather { batch: 0 }, &[self, index], "gather_rows")
    }

    /// Takes one element along the last axis for each index: for `self` `[B.., N]` and `index` i32 `[B..]`,
    /// returns `[B..]`.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    ///     x.take_last(literal(&[1.0, 0.0], [2]).cast(DType::I32))
    /// });
    /// assert_eq!(y, [2.0, 3.0]);
    /// ```
    #[doc(alias = "gather")]
    #[track_caller]
    #[must_use]
    pub fn take_last(self, index: Tensor) -> Tensor {
        let (shape, wanted) = (self.shape(), index.shape());
        if shape.rank() == 0 || shape[..shape.rank() - 1] != wanted[..] {
            let message = format!("`take_last` of {shape}: the index is {wanted}");
            let help = match shape.rank() {
                0 => "it takes one element of each last axis, and a scalar has none".to_string(),
                rank => format!("the index must be i32{}", Shape::from(&shape[..rank - 1])),
            };
            return refused("take_last", message, help, placeholder(self.dtype(), wanted));
        }
        emit(OpKind::Gather { batch: wanted.rank() }, &[self, index], "take_last")
    }

    /// Picks elements along an axis: `y[.., k, ..] = x[.., index[.., k, ..], ..]`. `index` is i32 and has the
    /// rank and extents of `self`, except along the axis, where its extent is the number of elements to pick;
    /// the result has the shape of `index`. The gradient of an element that is picked several times is the
    /// sum of the gradients of its copies. Corresponds to PyTorch's `take_along_dim` and NumPy's
    /// `take_along_axis`, but without broadcasting.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    ///     x.take_along_axis(literal(&[1.0, 0.0], [2, 1]).cast(DType::I32), 1)
    /// });
    /// assert_eq!(y, [2.0, 3.0]);
    /// ```
    #[doc(alias = "gather")]
    #[doc(alias = "take_along_dim")]
    #[op]
    pub fn take_along_axis(self, index: Tensor, axis: isize) -> Tensor {
        let index = index.counted();
        let (ty, picks) = (self.ty(), index.ty());
        let Some(at) = resolve_axis("take_along_axis", axis, &ty.shape) else { return self };
        let same_rank = picks.shape.rank() == ty.shape.rank();
        if !same_rank || picks.shape.without(&[at]) != ty.shape.without(&[at]) || picks.dtype != DType::I32 {
            let message =
                format!("`take_along_axis` of {} along axis {axis} with an index {picks}", ty.shape);
            let help = format!("the index is i32, and has the extents of {} except along the axis", ty.shape);
            return refused("take_along_axis", message, help, placeholder(ty.dtype, picks.shape));
        }
        let (rows, index) = (self.transpose(at as isize, -1), index.transpose(at as isize, -1));
        let batch = ty.shape.rank() - 1;
        emit(OpKind::Gather { batch }, &[rows, index], "take_along_axis").transpose(at as isize, -1)
    }

    /// Selects the elements of an axis that `index` i32 `[k]` names; the axis of the result has `k` elements,
    /// which may repeat. Corresponds to PyTorch's `index_select`.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    ///     x.index_select(1, literal(&[1.0, 1.0], [2]).cast(DType::I32))
    /// });
    /// assert_eq!(y, [2.0, 2.0, 4.0, 4.0]);
    /// ```
    #[op]
    pub fn index_select(self, axis: isize, index: Tensor) -> Tensor {
        let index = index.counted();
        let (shape, picks) = (self.shape(), index.ty());
        let Some(at) = resolve_axis("index_select", axis, &shape) else { return self };
        if picks.shape.rank() != 1 || picks.dtype != DType::I32 {
            let message = format!("`index_select` of {shape} with an index {picks}");
            return refused("index_select", message, "the index is an i32 vector", self);
        }
        let at = at as isize;
        emit(OpKind::Gather { batch: 0 }, &[self.transpose(0, at), index], "index_select").transpose(0, at)
    }

    /// Returns `self` with each element of `updates` added at its index along an axis:
    /// `y[.., index[.., k, ..], ..] += updates[.., k, ..]`, in the order of k. `index` is i32 with the shape
    /// of `updates`, which has the extents of `self` except along the axis. Corresponds to PyTorch's
    /// `scatter_add`.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 1.0], [2]);
    ///     x.scatter_add(literal(&[0.0, 0.0], [2]).cast(DType::I32), literal(&[2.0, 3.0], [2]), 0)
    /// });
    /// assert_eq!(y, [6.0, 1.0]);
    /// ```
    #[doc(alias = "scatter_add_")]
    #[track_caller]
    #[must_use]
    pub fn scatter_add(self, index: Tensor, updates: Tensor, axis: isize) -> Tensor {
        self.scattered(ScatterOp::Add, "scatter_add", [index, updates], axis)
    }

    /// Returns `self` with elements along an axis replaced by those of `updates`:
    /// `y[.., index[.., k, ..], ..] = updates[.., k, ..]`. If several updates have the same index, the last
    /// one is kept, whereas PyTorch's `scatter` leaves this unspecified. `index` is i32 with the shape of
    /// `updates`, which has the extents of `self` except along the axis.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 1.0], [2]);
    ///     x.scatter(literal(&[0.0, 0.0], [2]).cast(DType::I32), literal(&[2.0, 3.0], [2]), 0)
    /// });
    /// assert_eq!(y, [3.0, 1.0]);
    /// ```
    #[doc(alias = "scatter_")]
    #[track_caller]
    #[must_use]
    pub fn scatter(self, index: Tensor, updates: Tensor, axis: isize) -> Tensor {
        self.scattered(ScatterOp::Set, "scatter", [index, updates], axis)
    }

    #[track_caller]
    fn scattered(self, op: ScatterOp, token: &str, [index, updates]: [Tensor; 2], axis: isize) -> Tensor {
        let index = index.counted();
        let (ty, picks, put) = (self.ty(), index.ty(), updates.ty());
        let Some(at) = resolve_axis(token, axis, &ty.shape) else { return self };
        let fits = picks.dtype == DType::I32
            && picks.shape == put.shape
            && put.shape.rank() == ty.shape.rank()
            && put.shape.without(&[at]) == ty.shape.without(&[at]);
        if !fits {
            let message = format!("`{token}` to {ty} along axis {axis} of {put} at an index {picks}");
            let help = format!(
                "index (i32) and updates have one shape, with the extents of {} except along the axis",
                ty.shape
            );
            return refused(token, message, help, self);
        }
        let at = at as isize;
        let operands = [self, index, updates].map(|x| x.transpose(at, -1));
        let batch = ty.shape.rank() - 1;
        emit(OpKind::Scatter { op, batch }, &operands, token).transpose(at, -1)
    }

    /// Replaces rows like [`scatter_rows`](Tensor::scatter_rows), but for distinct indices: the result of two
    /// updates of the same row is unspecified. An update whose index is out of range, such as -1, is ignored.
    /// A state is updated in place; no gradient flows through this op.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 1.0], [2]);
    ///     x.scatter_distinct_rows(literal(&[1.0, -1.0], [2]).cast(DType::I32), literal(&[9.0, 8.0], [2]))
    /// });
    /// assert_eq!(y, [1.0, 9.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn scatter_distinct_rows(self, index: Tensor, updates: Tensor) -> Tensor {
        emit(
            OpKind::Scatter { op: ScatterOp::Distinct, batch: 0 },
            &[self, index.counted(), updates],
            "scatter_distinct_rows",
        )
    }

    /// Returns `self` `[N, R..]` with each row of `updates` `[I.., R..]` added, in order, to the row that
    /// `index` i32 `[I..]` names.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 1.0], [2]);
    ///     x.scatter_add_rows(literal(&[1.0, 1.0], [2]).cast(DType::I32), literal(&[2.0, 3.0], [2]))
    /// });
    /// assert_eq!(y, [1.0, 6.0]);
    /// ```
    #[doc(alias = "index_add")]
    #[track_caller]
    #[must_use]
    pub fn scatter_add_rows(self, index: Tensor, updates: Tensor) -> Tensor {
        emit(OpKind::Scatter { op: ScatterOp::Add, batch: 0 }, &[self, index, updates], "scatter_add_rows")
    }

    /// Returns `self` `[N, R..]` with the rows that `index` i32 `[I..]` names replaced by those of `updates`
    /// `[I.., R..]`; of several updates of one row, the last is kept.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 1.0], [2]);
    ///     x.scatter_rows(literal(&[1.0], [1]).cast(DType::I32), literal(&[9.0], [1]))
    /// });
    /// assert_eq!(y, [1.0, 9.0]);
    /// ```
    #[doc(alias = "index_copy")]
    #[track_caller]
    #[must_use]
    pub fn scatter_rows(self, index: Tensor, updates: Tensor) -> Tensor {
        emit(
            OpKind::Scatter { op: ScatterOp::Set, batch: 0 },
            &[self, index.counted(), updates],
            "scatter_rows",
        )
    }

    /// Returns the window with extents `sizes` that starts at the given i32 scalars, one for each axis.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 2.0, 3.0], [3]);
    ///     x.dynamic_slice(&[full(DType::I32, [0; 0], 1.0)], &[2])
    /// });
    /// assert_eq!(y, [2.0, 3.0]);
    /// ```
    #[doc(alias = "dynamic_slice_in_dim")]
    #[track_caller]
    #[must_use]
    pub fn dynamic_slice(self, starts: &[Tensor], sizes: &[usize]) -> Tensor {
        let operands = [&[self], starts].concat();
        emit(OpKind::DynamicSlice { sizes: sizes.to_vec() }, &operands, "dynamic_slice")
    }

    /// Returns `self` with the window that starts at the given i32 scalars replaced by `update`.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 2.0, 3.0], [3]);
    ///     x.dynamic_update_slice(literal(&[9.0], [1]), &[full(DType::I32, [0; 0], 1.0)])
    /// });
    /// assert_eq!(y, [1.0, 9.0, 3.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn dynamic_update_slice(self, update: Tensor, starts: &[Tensor]) -> Tensor {
        let operands = [&[self, update], starts].concat();
        emit(OpKind::DynamicUpdateSlice, &operands, "dynamic_update_slice")
    }

    /// Encodes each index as a row of zeros with a 1 at the position of the index: i32 `[I..]` becomes f32
    /// `[I.., depth]`. The row of an index outside `0..depth` is all zeros.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| literal(&[2.0, 0.0], [2]).cast(DType::I32).one_hot(3));
    /// assert_eq!(y, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn one_hot(self, depth: usize) -> Tensor {
        let (given, index) = (self.ty(), self.counted());
        let shape = [&given.shape[..], &[depth]].concat();
        if index.dtype() != DType::I32 {
            let message = format!("`one_hot` of {given}: class numbers are i32, i64 or u8");
            let help = "convert them with .cast(DType::I32)";
            return refused("one_hot", message, help, placeholder(DType::F32, shape));
        }
        let _called = acting("one_hot");
        let positions = super::iota(DType::I32, shape, -1);
        positions.eq(index.unsqueeze(-1)).cast(DType::F32)
    }
}
