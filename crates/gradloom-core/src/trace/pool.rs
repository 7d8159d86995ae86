//! Pooling, which reduces each window over the last axes to one number.
//!
//! All maxima follow PyTorch's rule: of equal elements, the first in row-major order of the window gets the
//! gradient. NaN is larger than any number. Padding is never the maximum, not even in a window of `-inf`.

use super::bounds::fits_parts;
use super::conv::{PerAxis, nothing, per_axis};
use super::tensor::{has_floats, refused};
use super::{Tensor, iota, op};
use crate::ir::DType;

/// Options of pooling.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PoolOptions {
    stride: Vec<usize>,
    padding: Vec<usize>,
}

impl PoolOptions {
    /// Returns the defaults: adjacent windows without padding.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the distance between the starts of adjacent windows; the size of a window by default.
    pub fn stride(mut self, stride: impl PerAxis) -> Self {
        self.stride = stride.list();
        self
    }

    /// Sets the number of elements of padding before and after the input, at most half a window; 0 by
    /// default. Maxima ignore the padding; averages include it as zeros.
    pub fn padding(mut self, padding: impl PerAxis) -> Self {
        self.padding = padding.list();
        self
    }
}

impl Tensor {
    /// Computes the maximum of each window along the last axis: f32 `[.., length]` becomes `[.., windows]`.
    /// Of equal elements, the first gets the gradient; NaN propagates.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| literal(&[1.0, 3.0, 2.0, 4.0], [1, 1, 4]).max_pool1d(2, PoolOptions::new()));
    /// assert_eq!(y, [3.0, 4.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn max_pool1d(self, size: usize, options: PoolOptions) -> Tensor {
        self.max_pool("max_pool1d", &[size], 1, options)
    }

    /// Computes the maximum of each window over the last two axes: f32 `[.., height, width]` becomes
    /// `[.., height', width']`. Of equal elements, the first in row-major order gets the gradient; NaN
    /// propagates.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| literal(&[1.0, 3.0, 2.0, 4.0], [1, 1, 2, 2]).max_pool2d(2, PoolOptions::new()));
    /// assert_eq!(y, [4.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn max_pool2d(self, size: impl PerAxis, options: PoolOptions) -> Tensor {
        self.max_pool("max_pool2d", &size.list(), 2, options)
    }

    /// Computes the mean of each window along the last axis, including zeros of the padding: f32
    /// `[.., length]` becomes `[.., windows]`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| literal(&[1.0, 3.0, 2.0, 4.0], [1, 1, 4]).avg_pool1d(2, PoolOptions::new()));
    /// assert_eq!(y, [2.0, 3.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn avg_pool1d(self, size: usize, options: PoolOptions) -> Tensor {
        self.avg_pool("avg_pool1d", &[size], 1, options)
    }

    /// Computes the mean of each window over the last two axes, including zeros of the padding: f32
    /// `[.., height, width]` becomes `[.., height', width']`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| literal(&[1.0, 3.0, 2.0, 4.0], [1, 1, 2, 2]).avg_pool2d(2, PoolOptions::new()));
    /// assert_eq!(y, [2.5]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn avg_pool2d(self, size: impl PerAxis, options: PoolOptions) -> Tensor {
        self.avg_pool("avg_pool2d", &size.list(), 2, options)
    }

    #[track_caller]
    fn max_pool(self, token: &str, size: &[usize], axes: usize, options: PoolOptions) -> Tensor {
        // Pad by repeating the edge: copies of an element change neither the maximum nor which element gets
        // the gradient.
        let Some(places) = self.pooled(token, size, axes, &options, None) else { return nothing(self) };
        let (mut largest, others) = (places[0], &places[1..]);
        for &place in others {
            // NaN in `place` replaces a number, but nothing replaces NaN: comparisons with NaN are false.
            let takes = place.le(largest).logical_or(largest.is_nan()).logical_not();
            largest = takes.select(place, largest);
        }
        largest
    }

    #[track_caller]
    fn avg_pool(self, token: &str, size: &[usize], axes: usize, options: PoolOptions) -> Tensor {
        let Some(places) = self.pooled(token, size, axes, &options, Some(0.0)) else { return nothing(self) };
        let (mut sum, others) = (places[0], &places[1..]);
        for &place in others {
            sum = sum + place;
        }
        sum * (1.0 / places.len() as f64)
    }

    /// Resolves the options, and returns one tensor for each position inside a window; see
    /// [`Tensor::places`].
    #[track_caller]
    fn pooled(
        self,
        token: &str,
        size: &[usize],
        axes: usize,
        options: &PoolOptions,
        outside: Option<f64>,
    ) -> Option<Vec<Tensor>> {
        if !has_floats(token, self) {
            return None;
        }
        let size = per_axis(token, "size", size, axes, 1)?;
        let stride = match &options.stride[..] {
            [] => size.clone(),
            given => per_axis(token, "stride", given, axes, 1)?,
        };
        let padding = per_axis(token, "padding", &options.padding, axes, 0)?;
        self.places(token, [&size, &stride, &padding], outside)
    }

    /// Computes the means of a given number of windows along each of the last two axes: f32
    /// `[.., height, width]` becomes `[.., size[0], size[1]]`. Window i of n covers the indices from
    /// `floor(i · extent / n)` up to, but not including, `ceil((i + 1) · extent / n)`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0, 2.0, 4.0], [1, 1, 2, 2]).adaptive_avg_pool2d(1)), [2.5]);
    /// ```
    #[doc(alias = "AdaptiveAvgPool2d")]
    #[op]
    pub fn adaptive_avg_pool2d(self, size: impl PerAxis) -> Tensor {
        self.adaptive("adaptive_avg_pool2d", &size.list(), |window, axis| window.mean_keep(axis))
    }

    /// Computes the maxima of a given number of windows along each of the last two axes; the windows are
    /// those of [`Tensor::adaptive_avg_pool2d`]. Of equal elements, the first in row-major order gets the
    /// gradient; NaN propagates.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0, 2.0, 4.0], [1, 1, 2, 2]).adaptive_max_pool2d(1)), [4.0]);
    /// ```
    #[op]
    pub fn adaptive_max_pool2d(self, size: impl PerAxis) -> Tensor {
        self.adaptive("adaptive_max_pool2d", &size.list(), Tensor::first_max)
    }

    /// Computes the maximum along an axis, which is kept with extent 1. Of equal elements, the first gets the
    /// gradient.
    #[track_caller]
    fn first_max(self, axis: isize) -> Tensor {
        let place = self.argmax(axis).unsqueeze(axis);
        iota(DType::I32, self.shape(), axis).eq(place).select(self, 0.0).sum_keep(axis)
    }

    #[track_caller]
    fn adaptive(self, token: &str, size: &[usize], reduce: fn(Tensor, isize) -> Tensor) -> Tensor {
        let shape = self.shape();
        if !has_floats(token, self) {
            return self;
        }
        let Some(size) = per_axis(token, "size", size, 2, 1) else { return self };
        let mut x = self;
        // Reduce each row over its columns first, and the rows afterwards. Of equal maxima, this selects the
        // first row and, within that row, the first column, which is row-major order.
        for (axis, &windows) in [-1, -2].into_iter().zip(size.iter().rev()) {
            let extent = shape.rank().checked_sub(2).map_or(0, |first| shape[first + (axis + 2) as usize]);
            if extent == 0 || windows == 0 {
                let help = "the last two axes have elements, and there is at least one window";
                return refused(token, format!("`{token}` of {shape} to {size:?}"), help, self);
            }
            if !fits_parts(token, windows, || format!("`{token}` of {shape} to {size:?}")) {
                return self;
            }
            let mut parts = Vec::with_capacity(windows);
            for i in 0..windows {
                let (first, end) = (i * extent / windows, ((i + 1) * extent).div_ceil(windows));
                parts.push(reduce(x.slice(axis, first..end), axis));
            }
            x = super::concat(axis, &parts);
        }
        x
    }
}
