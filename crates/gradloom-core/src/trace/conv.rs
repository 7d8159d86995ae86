//! Convolutions over the last axes.

use super::bounds::fits_parts;
use super::tensor::{emit, has_floats, placeholder, refused};
use super::{Tensor, acting};
use crate::ir::{ConvSpec, DType, Number, OpKind, Shape};

/// One number for each spatial axis, or one number for all spatial axes.
pub trait PerAxis {
    /// Returns the numbers in the order of the axes, or the single number.
    fn list(&self) -> Vec<usize>;
}

impl PerAxis for usize {
    fn list(&self) -> Vec<usize> {
        vec![*self]
    }
}

impl<const N: usize> PerAxis for [usize; N] {
    fn list(&self) -> Vec<usize> {
        self.to_vec()
    }
}

impl PerAxis for &[usize] {
    fn list(&self) -> Vec<usize> {
        self.to_vec()
    }
}

/// Options of a convolution.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ConvOptions {
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    groups: Option<usize>,
    output_padding: Vec<usize>,
}

impl ConvOptions {
    /// Returns the defaults: stride 1, dilation 1, no padding, one group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the stride, the distance between adjacent windows; 1 by default.
    pub fn stride(mut self, stride: impl PerAxis) -> Self {
        self.stride = stride.list();
        self
    }

    /// Sets the number of zeros before and after the input; 0 by default.
    pub fn padding(mut self, padding: impl PerAxis) -> Self {
        self.padding = padding.list();
        self
    }

    /// Sets the dilation, the distance between adjacent elements of a window; 1 by default.
    pub fn dilation(mut self, dilation: impl PerAxis) -> Self {
        self.dilation = dilation.list();
        self
    }

    /// Sets the number of groups of channels that are convolved separately; 1 by default.
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = Some(groups);
        self
    }

    /// Returns the number of groups, which is 1 by default.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.unwrap_or(1)
    }

    /// Sets the number of elements that a transposed convolution adds at the end of its output; it must be
    /// less than the stride or less than the dilation. 0 by default.
    pub fn output_padding(mut self, padding: impl PerAxis) -> Self {
        self.output_padding = padding.list();
        self
    }
}

/// Returns one number for each of `axes` axes: the numbers in `given`, the single number in `given` for all
/// axes, or `default` if `given` is empty. Returns `None` after an error of the op named `token`.
#[track_caller]
pub(super) fn per_axis(
    token: &str,
    what: &str,
    given: &[usize],
    axes: usize,
    default: usize,
) -> Option<Vec<usize>> {
    match given {
        [] => Some(vec![default; axes]),
        [one] => Some(vec![*one; axes]),
        all if all.len() == axes => Some(all.to_vec()),
        all => {
            let message = format!("`{token}`: the {what} {all:?} is not one for each of {axes} spatial axes");
            refused(token, message, "give one number, or one for each axis", None)
        }
    }
}

impl Tensor {
    /// Computes a convolution (cross-correlation) over the last axis. Input `[batch, channels, length]` and
    /// weights `[outputs, channels / groups, size]` produce f32 `[batch, outputs, positions]`, with
    /// `(length + 2 · padding - dilation · (size - 1) - 1) / stride + 1` positions. See [`ConvSpec`].
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 3.0, 2.0, 4.0], [1, 1, 4]);
    ///     x.conv1d(full(DType::F32, [1, 1, 2], 1.0), ConvOptions::new())
    /// });
    /// assert_eq!(y, [4.0, 5.0, 6.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn conv1d(self, weights: Tensor, options: ConvOptions) -> Tensor {
        self.conv("conv1d", 1, weights, options)
    }

    /// Computes a convolution (cross-correlation) over the last two axes. Input
    /// `[batch, channels, height, width]` and weights `[outputs, channels / groups, rows, columns]` produce
    /// f32 `[batch, outputs, height', width']`. See [`Tensor::conv1d`].
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 3.0, 2.0, 4.0], [1, 1, 2, 2]);
    ///     x.conv2d(full(DType::F32, [1, 1, 2, 2], 1.0), ConvOptions::new())
    /// });
    /// assert_eq!(y, [10.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn conv2d(self, weights: Tensor, options: ConvOptions) -> Tensor {
        self.conv("conv2d", 2, weights, options)
    }

    #[track_caller]
    fn conv(self, token: &'static str, axes: usize, weights: Tensor, options: ConvOptions) -> Tensor {
        let _called = acting(token);
        let list = |what: &str, given: &[usize], default| per_axis(token, what, given, axes, default);
        let (Some(stride), Some(low), Some(dilation)) = (
            list("stride", &options.stride, 1),
            list("padding", &options.padding, 0),
            list("dilation", &options.dilation, 1),
        ) else {
            return self;
        };
        let spec = ConvSpec { stride, high: low.clone(), low, dilation, groups: options.group_count() };
        emit(OpKind::Conv(spec), &[self, weights], token)
    }

    /// Computes the transpose of [`Tensor::conv1d`] (its gradient with respect to the input). Input
    /// `[batch, channels, length]` and weights `[channels, outputs / groups, size]` produce
    /// `[batch, outputs, positions]`, with
    /// `(length - 1) · stride - 2 · padding + dilation · (size - 1) + output_padding + 1` positions.
    /// Corresponds to PyTorch's `conv_transpose1d`.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 3.0], [1, 1, 2]);
    ///     x.conv_transpose1d(full(DType::F32, [1, 1, 2], 1.0), ConvOptions::new())
    /// });
    /// assert_eq!(y, [1.0, 4.0, 3.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn conv_transpose1d(self, weights: Tensor, options: ConvOptions) -> Tensor {
        self.conv_transpose("conv_transpose1d", 1, weights, options)
    }

    /// Computes the transpose of [`Tensor::conv2d`] (its gradient with respect to the input). Input
    /// `[batch, channels, height, width]` and weights `[channels, outputs / groups, rows, columns]` produce
    /// `[batch, outputs, height', width']`. See [`Tensor::conv_transpose1d`].
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = full(DType::F32, [1, 1, 1, 1], 3.0);
    ///     x.conv_transpose2d(literal(&[1.0, 3.0, 2.0, 4.0], [1, 1, 2, 2]), ConvOptions::new())
    /// });
    /// assert_eq!(y, [3.0, 9.0, 6.0, 12.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn conv_transpose2d(self, weights: Tensor, options: ConvOptions) -> Tensor {
        self.conv_transpose("conv_transpose2d", 2, weights, options)
    }

    #[track_caller]
    fn conv_transpose(
        self,
        token: &'static str,
        axes: usize,
        weights: Tensor,
        options: ConvOptions,
    ) -> Tensor {
        let _called = acting(token);
        let list = |what: &str, given: &[usize], default| per_axis(token, what, given, axes, default);
        let (Some(stride), Some(padding), Some(dilation), Some(more)) = (
            list("stride", &options.stride, 1),
            list("padding", &options.padding, 0),
            list("dilation", &options.dilation, 1),
            list("output padding", &options.output_padding, 0),
        ) else {
            return self;
        };
        let (x, w, groups) = (self.shape(), weights.shape(), options.group_count());
        let fits = x.rank() == axes + 2
            && w.rank() == axes + 2
            && x[1] == w[0]
            && groups > 0
            && w[0].is_multiple_of(groups)
            && w[2..].iter().all(|&n| n > 0)
            && stride.iter().chain(&dilation).all(|&n| n > 0)
            && (0..axes).all(|i| more[i] < stride[i].max(dilation[i]));
        if !fits {
            let message = format!("`{token}` of {x} with weights {w} in {groups} groups");
            let help = "x is [batch, channels, S..], the weights [channels, outputs / groups, K..]; stride and \
                        dilation are at least 1, and the output padding is less than one of them";
            return refused(token, message, help, self);
        }
        if !has_floats(token, self) {
            return self;
        }
        // Compute the transpose like the gradient of a convolution: insert zeros between the elements of the
        // input, and convolve it with the reversed weights.
        let (mut low, mut high, mut interior) = (vec![0; axes + 2], vec![0; axes + 2], vec![0; axes + 2]);
        let (mut start, mut limit) = (vec![0; axes + 2], x.to_vec());
        for i in 0..axes {
            let axis = i + 2;
            let of_axis = Spread { extent: x[axis], size: w[axis], stride: stride[i], dilation: dilation[i] };
            let Some([reach, spread, whole]) = of_axis.counted(more[i]) else {
                let message = format!(
                    "`{token}` of {x} with weights {w}, a stride of {} and a dilation of {}: the result is \
                     larger than any memory",
                    stride[i], dilation[i]
                );
                return refused(token, message, "make the stride or the dilation smaller", self);
            };
            interior[axis] = stride[i] - 1;
            let wanted = whole.saturating_sub(padding[i].saturating_mul(2));
            if wanted == 0 {
                let message =
                    format!("`{token}` of {x} with weights {w}: a padding of {} leaves nothing", padding[i]);
                return refused(token, message, "make the padding smaller", self);
            }
            (low[axis], start[axis]) = (reach.saturating_sub(padding[i]), padding[i].saturating_sub(reach));
            limit[axis] = start[axis] + wanted + reach;
            high[axis] = limit[axis].saturating_sub(low[axis] + spread);
        }
        let value = Number::of(DType::F32, 0.0);
        let padded = emit(OpKind::Pad { low, high, interior, value }, &[self], token);
        let cut = emit(OpKind::Slice { start, limit, step: vec![1; axes + 2] }, &[padded], token);
        let spatial: Vec<isize> = (2..axes as isize + 2).collect();
        let order: Vec<isize> = [0, 2, 1].into_iter().chain(3..axes as isize + 3).collect();
        let apart = weights.flip(&spatial[..]).reshape([&[groups, w[0] / groups, w[1]], &w[2..]].concat());
        let turned = apart.permute(order).reshape([&[groups * w[1], w[0] / groups], &w[2..]].concat());
        let zeros = vec![0; axes];
        let spec = ConvSpec { stride: vec![1; axes], low: zeros.clone(), high: zeros, dilation, groups };
        emit(OpKind::Conv(spec), &[cut, turned], token)
    }

    /// Returns the elements of all windows over the last axes, for pooling: one tensor `[L.., W..]` for each
    /// position inside a window, with the element at that position of every window. The padding holds the
    /// number `outside` or, if `outside` is `None`, repeats the edge. Returns `None` after an error of the op
    /// named `token`.
    #[track_caller]
    pub(super) fn places(
        self,
        token: &str,
        [size, step, padding]: [&[usize]; 3],
        outside: Option<f64>,
    ) -> Option<Vec<Tensor>> {
        let (shape, axes) = (self.shape(), size.len());
        let first = shape.rank().checked_sub(axes);
        let fits = first.is_some_and(|first| {
            (0..axes).all(|i| {
                let padded = shape[first + i].saturating_add(padding[i].saturating_mul(2));
                size[i] > 0 && step[i] > 0 && size[i] <= padded && padding[i] <= size[i] / 2
            })
        });
        let Some(first) = first.filter(|_| fits) else {
            let message = format!(
                "`{token}` of {shape}: windows of {size:?} every {step:?}, with a padding of {padding:?}"
            );
            let help = "windows fit into the padded input, and the padding is at most half a window";
            return refused(token, message, help, None);
        };
        let count = size.iter().fold(1usize, |count, &n| count.saturating_mul(n));
        let call = || format!("`{token}` of {shape}: windows of {size:?}");
        if !fits_parts(token, count, call) {
            return None;
        }
        let mut padded = self;
        for (i, &n) in padding.iter().enumerate().filter(|(_, n)| **n > 0) {
            let axis = (first + i) as isize;
            padded = match (outside, shape[first + i]) {
                (Some(outside), _) => padded.pad(axis, n, n, outside),
                (None, 0) => padded.pad(axis, n, n, f64::NEG_INFINITY),
                (None, extent) => {
                    let (low, high) = (padded.slice(axis, 0..1), padded.slice(axis, extent - 1..extent));
                    let mut parts = vec![low; n];
                    parts.push(padded);
                    parts.resize(2 * n + 1, high);
                    super::concat(axis, &parts)
                }
            };
        }
        let whole = padded.shape();
        // After an error, the padded tensor is a placeholder, which may be smaller than a window.
        if (0..axes).any(|i| whole[first + i] < size[i]) {
            return None;
        }
        let mut places = Vec::new();
        let mut index = vec![0; axes];
        loop {
            let (mut start, mut limit, mut steps) =
                (vec![0; whole.rank()], whole.to_vec(), vec![1; whole.rank()]);
            for i in 0..axes {
                let axis = first + i;
                let last = (whole[axis] - size[i]) / step[i] * step[i];
                (start[axis], limit[axis], steps[axis]) = (index[i], index[i] + last + 1, step[i]);
            }
            places.push(emit(OpKind::Slice { start, limit, step: steps }, &[padded], token));
            let Some(axis) = (0..axes).rev().find(|&axis| index[axis] + 1 < size[axis]) else { break };
            index[axis] += 1;
            index[axis + 1..].fill(0);
        }
        Some(places)
    }
}

/// One axis of a transposed convolution.
struct Spread {
    extent: usize,
    size: usize,
    stride: usize,
    dilation: usize,
}

impl Spread {
    /// Returns three extents: that of the dilated weights, less 1; that of the input with gaps between its
    /// elements; and that of the unpadded result with `more` elements at its end. Returns `None` if the last
    /// extent is too large for later arithmetic in 64 bits.
    fn counted(&self, more: usize) -> Option<[usize; 3]> {
        let reach = self.dilation.checked_mul(self.size - 1)?;
        let gaps = self.extent.saturating_sub(1).checked_mul(self.stride - 1)?;
        let spread = self.extent.checked_add(gaps)?;
        let whole = spread.checked_add(reach)?.checked_add(more)?;
        // Keep sums of a few such extents from overflowing.
        (whole < usize::MAX / 8).then_some([reach, spread, whole])
    }
}

/// Returns a placeholder for the result of pooling after an error.
#[track_caller]
pub(super) fn nothing(x: Tensor) -> Tensor {
    placeholder(x.dtype(), Shape::from(x.shape().to_vec()))
}
