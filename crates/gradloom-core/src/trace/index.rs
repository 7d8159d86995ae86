//! Indexing with tensors: an i32, or u8 or i64, which become i32 on the way. An index out of range is a
//! trap: the step fails with an error and changes nothing.

use super::reduce::resolve_axis;
use super::tensor::{emit, fail, fail_with_help, placeholder};
use super::{Tensor, acting};
use crate::ir::{DType, OpKind, ScatterOp, Shape};

impl Tensor {
    /// Gathers rows by number: `self` `[N, R..]`, `index` i32 `[I..]` gives `[I.., R..]`.
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
            fail_with_help("gather_rows", "`gather_rows` of a scalar".into(), "the table is [rows, ..]");
            return self;
        }
        emit(OpKind::Gather { batch: 0 }, &[self, index], "gather_rows")
    }

    /// Takes one element of each last axis: `self` `[B.., N]`, `index` i32 `[B..]` gives `[B..]`.
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
            fail(
                "take_last",
                format!("`take_last` of {shape}: the index is {wanted}"),
                Some(match shape.rank() {
                    0 => "it takes one element of each last axis, and a scalar has none".to_string(),
                    rank => format!("the index must be i32{}", Shape::from(&shape[..rank - 1])),
                }),
            );
            return placeholder(self.dtype(), wanted);
        }
        emit(OpKind::Gather { batch: wanted.rank() }, &[self, index], "take_last")
    }

    /// Picks elements along an axis: `y[.., k, ..] = x[.., index[.., k, ..], ..]`. `index` is i32 with the
    /// rank of `self` and its extents, except along the axis, where it has as many as are picked; the
    /// result has the index' shape. The gradient of an element that is picked several times is their sum.
    /// This is PyTorch's `take_along_dim` and NumPy's `take_along_axis`, without broadcasting.
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
    #[track_caller]
    #[must_use]
    pub fn take_along_axis(self, index: Tensor, axis: isize) -> Tensor {
        let _called = acting("take_along_axis");
        let index = index.counted();
        let (ty, picks) = (self.ty(), index.ty());
        let Some(at) = resolve_axis("take_along_axis", axis, &ty.shape) else { return self };
        let same_rank = picks.shape.rank() == ty.shape.rank();
        if !same_rank || picks.shape.without(&[at]) != ty.shape.without(&[at]) || picks.dtype != DType::I32 {
            fail_with_help(
                "take_along_axis",
                format!("`take_along_axis` of {} along axis {axis} with an index {picks}", ty.shape),
                &format!("the index is i32, and has the extents of {} except along the axis", ty.shape),
            );
            return placeholder(ty.dtype, picks.shape);
        }
        let (rows, index) = (self.transpose(at as isize, -1), index.transpose(at as isize, -1));
        let batch = ty.shape.rank() - 1;
        emit(OpKind::Gather { batch }, &[rows, index], "take_along_axis").transpose(at as isize, -1)
    }

    /// Takes elements of an axis by number: `index` i32 `[k]` gives `k` elements along the axis, which may
    /// repeat. PyTorch's `index_select`.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    ///     x.index_select(1, literal(&[1.0, 1.0], [2]).cast(DType::I32))
    /// });
    /// assert_eq!(y, [2.0, 2.0, 4.0, 4.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn index_select(self, axis: isize, index: Tensor) -> Tensor {
        let _called = acting("index_select");
        let index = index.counted();
        let (shape, picks) = (self.shape(), index.ty());
        let Some(at) = resolve_axis("index_select", axis, &shape) else { return self };
        if picks.shape.rank() != 1 || picks.dtype != DType::I32 {
            let message = format!("`index_select` of {shape} with an index {picks}");
            fail_with_help("index_select", message, "the index is an i32 vector");
            return self;
        }
        let at = at as isize;
        emit(OpKind::Gather { batch: 0 }, &[self.transpose(0, at), index], "index_select").transpose(0, at)
    }

    /// Returns `self` with each element of `updates` added where `index` says along an axis:
    /// `y[.., index[.., k, ..], ..] += updates[.., k, ..]`, in the order of k. `index` is i32 with the
    /// shape of `updates`, which has the extents of `self` except along the axis. PyTorch's `scatter_add`.
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

    /// Returns `self` with each element of `updates` put where `index` says along an axis:
    /// `y[.., index[.., k, ..], ..] = updates[.., k, ..]`; the last of those that name one place stays.
    /// `index` is i32 with the shape of `updates`, which has the extents of `self` except along the axis.
    /// PyTorch's `scatter`, where which one stays is not known.
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
            fail_with_help(
                token,
                format!("`{token}` to {ty} along axis {axis} of {put} at an index {picks}"),
                &format!(
                    "index (i32) and updates have one shape, with the extents of {} except along the axis",
                    ty.shape
                ),
            );
            return self;
        }
        let at = at as isize;
        let operands = [self, index, updates].map(|x| x.transpose(at, -1));
        let batch = ty.shape.rank() - 1;
        emit(OpKind::Scatter { op, batch }, &operands, token).transpose(at, -1)
    }

    /// Does what [`scatter_rows`](Tensor::scatter_rows) does, for distinct rows: the result of two updates
    /// of one row is unspecified. An update of a row that is not there, as of row -1, is left out. Of a
    /// state, it is written in place; no gradient flows through it.
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

    /// Returns `self` `[N, R..]` with each row of `updates` `[I.., R..]` added at the row that `index` i32
    /// `[I..]` names, in order.
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

    /// Returns `self` `[N, R..]` with each row of `updates` `[I.., R..]` in the place of the row that
    /// `index` i32 `[I..]` names; the last of those that name one row stays.
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

    /// Returns the window of extents `sizes` that starts at the given i32 scalars, one for each axis.
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

    /// Returns the tensor with the window that starts at the given i32 scalars replaced by `update`.
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

    /// Returns 1 where the last axis' position equals the index, 0 elsewhere: i32 `[I..]` gives f32
    /// `[I.., depth]`. An index outside `0..depth` gives a row of zeros, as it has no position.
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
        if index.dtype() != DType::I32 {
            let message = format!("`one_hot` of {given}: class numbers are i32, i64 or u8");
            fail_with_help("one_hot", message, "convert them with .cast(DType::I32)");
            return placeholder(DType::F32, [&given.shape[..], &[depth]].concat());
        }
        let _called = acting("one_hot");
        let shape = [&given.shape[..], &[depth]].concat();
        let positions = super::iota(DType::I32, shape, -1);
        positions.eq(index.unsqueeze(-1)).cast(DType::F32)
    }
}
