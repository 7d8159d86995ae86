//! Views and data movement.

use super::bounds::fits_parts;
use super::extents::Extent;
use super::reduce::{resolve_axis, resolve_new_axis};
use super::tensor::{emit, placeholder, refused};
use super::{Axes, Extents, Span, Tensor, op};
use crate::decimal::Decimal;
use crate::ir::{Number, OpKind, Shape};

impl Tensor {
    /// Returns the same elements in row-major order with another shape. One extent may be -1 and is then
    /// inferred from the others, as in `x.reshape([8, -1])`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).reshape([4, -1]).sum_axes(-1));
    /// assert_eq!(y, [1.0, 2.0, 3.0, 4.0]);
    /// ```
    #[doc(alias = "view")]
    #[track_caller]
    #[must_use]
    pub fn reshape(self, shape: impl Extents) -> Tensor {
        self.in_extents(&shape.list())
    }

    #[track_caller]
    fn in_extents(self, extents: &[i64]) -> Tensor {
        let given = || extents.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let known = extents.iter().filter(|&&extent| extent >= 0).fold(1i64, |a, &b| a.saturating_mul(b));
        let elements = self.shape().elements().number();
        let open = extents.iter().filter(|&&extent| extent == -1).count();
        if open > 1 || extents.iter().any(|&extent| extent < -1) {
            let message = format!("`reshape` to [{}]", given());
            return refused("reshape", message, "one extent may be -1, for what the others leave", self);
        }
        if open == 1 && (known == 0 || elements % known != 0) {
            let message = format!("cannot reshape {} ({elements} elements) to [{}]", self.shape(), given());
            let help = format!("the other extents have {known} elements together");
            return refused("reshape", message, help, self);
        }
        let extent = |&extent: &i64| if extent == -1 { elements / known } else { extent };
        let extents: Vec<usize> =
            extents.iter().map(|n| usize::try_from(extent(n)).unwrap_or(usize::MAX)).collect();
        self.in_shape(extents.into())
    }

    #[track_caller]
    fn in_shape(self, shape: Shape) -> Tensor {
        let from = self.ty();
        if from.shape == shape {
            return self;
        }
        if from.elements() != shape.elements() {
            let message = format!(
                "cannot reshape {} ({} elements) to {shape} ({} elements)",
                from.shape,
                from.elements(),
                shape.elements()
            );
            let help = reshape_help(&from.shape, &shape).unwrap_or_default();
            return refused("reshape", message, help, placeholder(from.dtype, shape));
        }
        emit(OpKind::Reshape { shape }, &[self], "reshape")
    }

    /// Flattens the tensor to one axis with all elements.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).flatten()), [1.0, 2.0, 3.0, 4.0]);
    /// ```
    #[doc(alias = "ravel")]
    #[op]
    pub fn flatten(self) -> Tensor {
        let elements = self.shape().elements();
        self.reshape([elements])
    }

    /// Permutes the axes: axis i of the result is axis `order[i]`. Negative numbers count from the last axis.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).permute([-1, 0])), [1.0, 3.0, 2.0, 4.0]);
    /// ```
    #[doc(alias = "movedim")]
    #[track_caller]
    #[must_use]
    pub fn permute(self, order: impl Axes) -> Tensor {
        self.in_axis_order(&order.list())
    }

    #[track_caller]
    fn in_axis_order(self, order: &[isize]) -> Tensor {
        let shape = self.shape();
        let mut perm = Vec::with_capacity(order.len());
        for &axis in order {
            let Some(axis) = resolve_axis("permute", axis, &shape) else { return self };
            perm.push(axis);
        }
        if perm.len() != shape.rank() || (1..perm.len()).any(|i| perm[..i].contains(&perm[i])) {
            let help = format!(
                "an order names each of the {} axes once; `.transpose(a, b)` swaps two",
                shape.rank()
            );
            return refused("permute", format!("`permute` of {shape} to the order {order:?}"), help, self);
        }
        emit(OpKind::Permute { perm }, &[self], "permute")
    }

    /// Swaps two axes; negative numbers count from the last axis.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).transpose(0, 1)), [1.0, 3.0, 2.0, 4.0]);
    /// ```
    #[doc(alias = "swap_axes")]
    #[doc(alias = "swapaxes")]
    #[doc(alias = "swapdims")]
    #[track_caller]
    #[must_use]
    pub fn transpose(self, a: isize, b: isize) -> Tensor {
        let shape = self.shape();
        let (Some(a), Some(b)) = (resolve_axis("transpose", a, &shape), resolve_axis("transpose", b, &shape))
        else {
            return self;
        };
        let mut perm: Vec<usize> = (0..shape.rank()).collect();
        perm.swap(a, b);
        if a == b { self } else { emit(OpKind::Permute { perm }, &[self], "transpose") }
    }

    /// Broadcasts the tensor to `shape`: axes of extent 1 are repeated, and missing leading axes are added.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0], [2]).broadcast_to([2, 2])), [1.0, 2.0, 1.0, 2.0]);
    /// ```
    #[doc(alias = "expand")]
    #[track_caller]
    #[must_use]
    pub fn broadcast_to(self, shape: impl Into<Shape>) -> Tensor {
        self.repeated_to(shape.into())
    }

    #[track_caller]
    fn repeated_to(self, shape: Shape) -> Tensor {
        let from = self.ty();
        if from.shape == shape {
            return self;
        }
        if from.shape.broadcast(&shape).as_ref() != Some(&shape) {
            let message = format!("`broadcast_to` of {} to {shape}", from.shape);
            let help = "from the right, extents are equal or 1; axes may be added on the left";
            return refused("broadcast_to", message, help, placeholder(from.dtype, shape));
        }
        let aligned = [vec![1; shape.rank() - from.shape.rank()], from.shape.to_vec()].concat();
        let x = self.reshape(aligned);
        if x.shape() == shape { x } else { emit(OpKind::Broadcast { shape }, &[x], "broadcast_to") }
    }

    /// Adds a new axis of extent 1, which becomes axis `axis` of the result; negative numbers count from the
    /// result's last axis.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0], [2]).unsqueeze(-1).sum_axes(1)), [1.0, 2.0]);
    /// ```
    #[doc(alias = "expand_dims")]
    #[track_caller]
    #[must_use]
    pub fn unsqueeze(self, axis: isize) -> Tensor {
        let shape = self.shape();
        let Some(at) = resolve_new_axis("unsqueeze", axis, &shape) else { return self };
        let mut shape = shape.to_vec();
        shape.insert(at, 1);
        self.reshape(shape)
    }

    /// Removes an axis of extent 1; negative numbers count from the last axis.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0], [2]).unsqueeze(0).squeeze(0)), [1.0, 2.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn squeeze(self, axis: isize) -> Tensor {
        let shape = self.shape();
        let Some(axis) = resolve_axis("squeeze", axis, &shape) else { return self };
        if shape[axis] != 1 {
            let message = format!("`squeeze`: axis {axis} of {shape} has extent {}, not 1", shape[axis]);
            let help = "only an axis of one element can go; take one with `.slice(..)`, or reduce";
            return refused("squeeze", message, help, self);
        }
        self.reshape(shape.without(&[axis]))
    }

    /// Returns the elements of a range along an axis, as in `x.slice(-1, 0..64)`. Negative numbers count from
    /// the end: `x.slice(0, -3..)` returns the last three. Clippy's `reversed_empty_ranges` rejects a literal
    /// `1..-1`, although it is valid here.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [4]).slice(0, -3..)), [2.0, 3.0, 4.0]);
    /// ```
    #[doc(alias = "index")]
    #[track_caller]
    #[must_use]
    pub fn slice(self, axis: isize, range: impl Span) -> Tensor {
        self.sliced("slice", axis, range.bounds(), 1)
    }

    /// Returns every `step`th element of a range along an axis, beginning with the first.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [4]).slice_step(0, .., 2)), [1.0, 3.0]);
    /// ```
    #[doc(alias = "index")]
    #[track_caller]
    #[must_use]
    pub fn slice_step(self, axis: isize, range: impl Span, step: usize) -> Tensor {
        self.sliced("slice_step", axis, range.bounds(), step)
    }

    #[track_caller]
    fn sliced(self, token: &str, axis: isize, [first, end]: [Option<i64>; 2], step: usize) -> Tensor {
        let shape = self.shape();
        let Some(axis) = resolve_axis(token, axis, &shape) else { return self };
        let extent = shape[axis].number();
        let from_front = |place: i64| {
            let place = if place < 0 { place + extent } else { place };
            (place >= 0).then(|| usize::try_from(place).unwrap_or(usize::MAX))
        };
        let places = [first.unwrap_or(0), end.unwrap_or(extent)].map(from_front);
        let [Some(from), Some(to)] = places.map(|place| place.filter(|&place| place <= shape[axis])) else {
            let given = [first, end].map(|n| n.map_or(String::new(), |n| n.to_string()));
            let message = format!("`{token}` {}..{} of axis {axis} of {shape}", given[0], given[1]);
            return refused(token, message, format!("the axis has {extent} elements"), self);
        };
        if from > to || step == 0 {
            let message = format!("`{token}` {from}..{to} by {step} of axis {axis} of {shape}");
            return refused(token, message, "a range ends behind its start, and steps by 1 or more", self);
        }
        let (mut start, mut limit, mut steps) =
            (vec![0; shape.rank()], shape.to_vec(), vec![1; shape.rank()]);
        (start[axis], limit[axis], steps[axis]) = (from, to, step);
        emit(OpKind::Slice { start, limit, step: steps }, &[self], token)
    }

    /// Splits an axis into `N` equal parts.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [4]).split::<2>(0)[1]), [3.0, 4.0]);
    /// ```
    #[doc(alias = "tensor_split")]
    #[track_caller]
    #[must_use]
    pub fn split<const N: usize>(self, axis: isize) -> [Tensor; N] {
        let shape = self.shape();
        let Some(at) = resolve_axis("split", axis, &shape) else { return [self; N] };
        if N == 0 || !shape[at].is_multiple_of(N) {
            let message = format!(
                "`split`: {} elements of axis {at} of {shape} do not divide into {N} parts",
                shape[at]
            );
            let help = "`chunk` makes a last part that is shorter, `split_sizes` parts of any extents";
            return refused("split", message, help, [self; N]);
        }
        let part = shape[at] / N;
        std::array::from_fn(|i| self.slice(at as isize, i * part..(i + 1) * part))
    }

    /// Splits an axis into parts with the extents `sizes`, which must sum to the axis's extent.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).split_sizes(0, &[1, 2])[1]), [2.0, 3.0]);
    /// ```
    #[doc(alias = "split")]
    #[track_caller]
    #[must_use]
    pub fn split_sizes(self, axis: isize, sizes: &[usize]) -> Vec<Tensor> {
        let shape = self.shape();
        let Some(at) = resolve_axis("split_sizes", axis, &shape) else { return vec![self; sizes.len()] };
        let total = sizes.iter().fold(0usize, |sum, &size| sum.saturating_add(size));
        if total != shape[at] {
            let message = format!(
                "`split_sizes` of {shape}: the parts {sizes:?} are {total} of {} elements",
                shape[at]
            );
            let help = format!("the extents of the parts of axis {axis} add up to its own");
            return refused("split_sizes", message, help, vec![self; sizes.len()]);
        }
        let mut parts = Vec::with_capacity(sizes.len());
        let mut start = 0;
        for &size in sizes {
            parts.push(self.slice(at as isize, start..start + size));
            start += size;
        }
        parts
    }

    /// Splits an axis into at most `count` parts of the same extent, except that the last may be shorter.
    /// Corresponds to PyTorch's `chunk`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).chunk(0, 2)[1]), [3.0]);
    /// ```
    #[op]
    pub fn chunk(self, axis: isize, count: usize) -> Vec<Tensor> {
        let shape = self.shape();
        let Some(at) = resolve_axis("chunk", axis, &shape) else { return vec![self] };
        if count == 0 {
            let help = "ask for 1 or more";
            return refused("chunk", format!("`chunk` of {shape} into 0 parts"), help, vec![self]);
        }
        let size = shape[at].div_ceil(count).max(1);
        let parts = shape[at].div_ceil(size).max(1);
        if !fits_parts("chunk", parts, || format!("`chunk` of {shape} along axis {axis}")) {
            return vec![self];
        }
        let sizes: Vec<usize> = (0..parts).map(|i| size.min(shape[at] - i * size)).collect();
        self.split_sizes(axis, &sizes)
    }

    /// Pads an axis with `value`: `low` elements before it and `high` after it.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0], [2]).pad(0, 1, 2, 0.0)), [0.0, 1.0, 2.0, 0.0, 0.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn pad(self, axis: isize, low: usize, high: usize, value: f64) -> Tensor {
        let ty = self.ty();
        let Some(axis) = resolve_axis("pad", axis, &ty.shape) else { return self };
        let number = Number::of(ty.dtype, value);
        if !number.fits(ty.dtype) || !(ty.dtype.is_float() || number.as_f64() == value) {
            let message = format!("`pad` of {ty} with {}", Decimal::from(value));
            let help = format!("what it is padded with is a number of {}", ty.dtype);
            return refused("pad", message, help, self);
        }
        let rank = ty.shape.rank();
        let at = |n: usize| (0..rank).map(|a| if a == axis { n } else { 0 }).collect::<Vec<_>>();
        let kind = OpKind::Pad { low: at(low), high: at(high), interior: at(0), value: number };
        emit(kind, &[self], "pad")
    }
}

/// Returns a hint that names an axis of `to` and the extent with which `to` would fit, if there is such an
/// axis.
fn reshape_help(from: &Shape, to: &Shape) -> Option<String> {
    let elements = from.elements();
    let axis = (0..to.rank()).rev().find(|&a| {
        let rest = to.without(&[a]).elements();
        rest > 0 && elements.is_multiple_of(rest)
    })?;
    Some(format!("with axis {axis} = {} it would fit", elements / to.without(&[axis]).elements()))
}
