//! Rearrangements composed of views, concatenations and gathers.

use super::bounds::{Range, fits_constants, is_in_range};
use super::reduce::resolve_axis;
use super::statistics::lower_triangle;
use super::tensor::{constant, emit, has_floats, indices, placeholder, refused};
use super::{Axes, Tensor, concat, op};
use crate::ir::{DType, OpKind, Shape, Type};

impl Tensor {
    /// Returns `length` elements of an axis, beginning at `start`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).narrow(0, 1, 2)), [2.0, 3.0]);
    /// ```
    #[op]
    pub fn narrow(self, axis: isize, start: usize, length: usize) -> Tensor {
        self.slice(axis, start..start.saturating_add(length))
    }

    /// Selects elements of an axis by constant indices, which may repeat.
    #[track_caller]
    fn reordered(self, axis: usize, order: &[usize]) -> Tensor {
        self.index_select(axis as isize, indices(order))
    }

    /// Reverses the order of the elements along the given axes.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).flip(0)), [3.0, 2.0, 1.0]);
    /// ```
    #[op]
    pub fn flip(self, axes: impl Axes) -> Tensor {
        let shape = self.shape();
        let (mut x, mut flipped) = (self, Vec::new());
        for axis in axes.list() {
            let Some(at) = resolve_axis("flip", axis, &shape) else { return self };
            if flipped.contains(&at) {
                let message = format!("`flip` of {shape}: axis {at} is given twice");
                return refused("flip", message, "name each axis once; -1 is the last one", self);
            }
            flipped.push(at);
            if !fits_constants("flip", shape[at], || format!("`flip` of {shape} along axis {axis}")) {
                return self;
            }
            if shape[at] > 1 {
                x = x.reordered(at, &(0..shape[at]).rev().collect::<Vec<_>>());
            }
        }
        x
    }

    /// Rotates the elements of an axis by `shift` positions: elements that are shifted past the end reappear
    /// at the front. A negative shift rotates in the opposite direction.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).roll(0, 1)), [3.0, 1.0, 2.0]);
    /// ```
    #[op]
    pub fn roll(self, axis: isize, shift: isize) -> Tensor {
        let shape = self.shape();
        let Some(at) = resolve_axis("roll", axis, &shape) else { return self };
        let extent = shape[at] as isize;
        let places = if extent == 0 { 0 } else { shift.rem_euclid(extent) as usize };
        if places == 0 {
            return self;
        }
        let first = shape[at] - places;
        concat(at as isize, &[self.slice(at as isize, first..), self.slice(at as isize, 0..first)])
    }

    /// Repeats the whole tensor along each axis, `times[i]` times along axis i; missing leading axes are
    /// added. Corresponds to NumPy's `tile` and PyTorch's `repeat`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0], [2]).tile(&[2])), [1.0, 2.0, 1.0, 2.0]);
    /// ```
    #[doc(alias = "repeat")]
    #[op]
    pub fn tile(self, times: &[usize]) -> Tensor {
        let rank = self.rank().max(times.len());
        let shape = [vec![1; rank - self.rank()], self.shape().to_vec()].concat();
        let times = [vec![1; rank - times.len()], times.to_vec()].concat();
        let apart: Vec<usize> = shape.iter().flat_map(|&extent| [1, extent]).collect();
        let repeated: Vec<usize> = times.iter().zip(&shape).flat_map(|(&n, &extent)| [n, extent]).collect();
        let joined: Vec<usize> =
            times.iter().zip(&shape).map(|(&n, &extent)| n.saturating_mul(extent)).collect();
        self.reshape(apart).broadcast_to(repeated).reshape(joined)
    }

    /// Repeats each element of an axis `times` times consecutively.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0], [2]).repeat_interleave(0, 2)), [1.0, 1.0, 2.0, 2.0]);
    /// ```
    #[op]
    pub fn repeat_interleave(self, axis: isize, times: usize) -> Tensor {
        let shape = self.shape();
        let Some(at) = resolve_axis("repeat_interleave", axis, &shape) else { return self };
        let x = self.unsqueeze(at as isize + 1);
        let (mut apart, mut joined) = (x.shape().to_vec(), shape.to_vec());
        apart[at + 1] = times;
        joined[at] = joined[at].saturating_mul(times);
        x.broadcast_to(apart).reshape(joined)
    }

    /// Upsamples `[.., H, W]` by nearest neighbor: each element is repeated `factor` times in both
    /// directions.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| literal(&[1.0, 2.0], [1, 2]).upsample_nearest2d(2));
    /// assert_eq!(y, [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
    /// ```
    #[doc(alias = "interpolate")]
    #[op]
    pub fn upsample_nearest2d(self, factor: usize) -> Tensor {
        self.repeat_interleave(-2, factor).repeat_interleave(-1, factor)
    }

    /// Resamples an axis to `size` elements by linear interpolation between the centers of the two nearest
    /// elements; positions beyond the outermost centers take the outermost element. Corresponds to PyTorch's
    /// `interpolate` with `align_corners=False`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0], [2]).resize_linear(0, 4)), [1.0, 1.5, 2.5, 3.0]);
    /// ```
    #[doc(alias = "interpolate")]
    #[op]
    pub fn resize_linear(self, axis: isize, size: usize) -> Tensor {
        let shape = self.shape();
        let Some(at) = resolve_axis("resize_linear", axis, &shape) else { return self };
        if !has_floats("resize_linear", self) {
            return self;
        }
        let extent = shape[at];
        if extent == 0 {
            let message = format!("`resize_linear` of {shape}: axis {axis} has no elements");
            return refused("resize_linear", message, "there must be an element to interpolate", self);
        }
        let call = || format!("`resize_linear` of {shape} to {size} along axis {axis}");
        if !fits_constants("resize_linear", size, call) {
            return self;
        }
        let place = |i: usize| {
            let centre = (i as f64 + 0.5) * extent as f64 / size as f64 - 0.5;
            centre.clamp(0.0, (extent - 1) as f64)
        };
        let left: Vec<usize> = (0..size).map(|i| place(i) as usize).collect();
        let right: Vec<usize> = left.iter().map(|&i| (i + 1).min(extent - 1)).collect();
        let weight: Vec<f64> = (0..size).map(|i| place(i).fract()).collect();
        let mut along = vec![1; shape.rank()];
        along[at] = size;
        let weight = constant(&weight, Type::new(DType::F32, along)).cast(self.dtype());
        self.reordered(at, &left).lerp(self.reordered(at, &right), weight)
    }

    /// Resamples `[.., H, W]` to `[.., height, width]` by linear interpolation along both axes.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0], [1, 2]).resize_bilinear(1, 4)), [1.0, 1.5, 2.5, 3.0]);
    /// ```
    #[doc(alias = "interpolate")]
    #[op]
    pub fn resize_bilinear(self, height: usize, width: usize) -> Tensor {
        self.resize_linear(-2, height).resize_linear(-1, width)
    }

    /// Pads an axis with `low` elements before and `high` after it by reflection at the end elements, which
    /// are not repeated.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).pad_reflect(0, 2, 0)), [3.0, 2.0, 1.0, 2.0, 3.0]);
    /// ```
    #[doc(alias = "ReflectionPad")]
    #[op]
    pub fn pad_reflect(self, axis: isize, low: usize, high: usize) -> Tensor {
        self.padded_with("pad_reflect", axis, [low, high], 1, |i, extent| {
            let period = 2 * (extent - 1).max(1);
            let i = i.rem_euclid(period);
            i.min(period - i).min(extent - 1)
        })
    }

    /// Pads an axis with `low` copies of its first element before it and `high` copies of its last element
    /// after it.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0], [2]).pad_replicate(0, 1, 1)), [1.0, 1.0, 2.0, 2.0]);
    /// ```
    #[doc(alias = "ReplicationPad")]
    #[track_caller]
    #[must_use]
    pub fn pad_replicate(self, axis: isize, low: usize, high: usize) -> Tensor {
        self.padded_with("pad_replicate", axis, [low, high], 0, |i, extent| i.clamp(0, extent - 1))
    }

    /// Pads an axis circularly, with its last `low` elements before it and its first `high` elements after
    /// it.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).pad_circular(0, 1, 0)), [3.0, 1.0, 2.0, 3.0]);
    /// ```
    #[doc(alias = "CircularPad")]
    #[track_caller]
    #[must_use]
    pub fn pad_circular(self, axis: isize, low: usize, high: usize) -> Tensor {
        self.padded_with("pad_circular", axis, [low, high], 0, |i, extent| i.rem_euclid(extent))
    }

    /// Pads an axis with copies of its own elements. `source` maps a position, which is negative or past the
    /// end in the padding, and the axis's extent to the index of the element to copy. Except for
    /// `pad_replicate`, each side may have at most the axis's extent minus `less` elements.
    #[track_caller]
    fn padded_with(
        self,
        token: &str,
        axis: isize,
        sides: [usize; 2],
        less: usize,
        source: fn(isize, isize) -> isize,
    ) -> Tensor {
        let shape = self.shape();
        let Some(at) = resolve_axis(token, axis, &shape) else { return self };
        let most = if token == "pad_replicate" { usize::MAX } else { shape[at].saturating_sub(less) };
        if shape[at] == 0 || sides.iter().any(|&side| side > most) {
            let [low, high] = sides;
            let message = format!("`{token}` of {shape} along axis {axis} by {low} and {high}");
            let help = format!("the axis has {} elements to take them from", shape[at]);
            return refused(token, message, help, self);
        }
        let count = shape[at].saturating_add(sides[0]).saturating_add(sides[1]);
        let call = || format!("`{token}` of {shape} along axis {axis} by {} and {}", sides[0], sides[1]);
        if !fits_constants(token, count, call) {
            return self;
        }
        let extent = shape[at] as isize;
        let end = extent + sides[1] as isize;
        let order: Vec<usize> = (-(sides[0] as isize)..end).map(|i| source(i, extent) as usize).collect();
        self.reordered(at, &order)
    }

    /// Extracts windows of `size` elements, `step` apart, along an axis. The axis then counts the windows,
    /// and a new last axis holds the elements of each. Corresponds to PyTorch's `unfold`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).unfold(0, 2, 1)), [1.0, 2.0, 2.0, 3.0]);
    /// ```
    #[doc(alias = "windows")]
    #[op]
    pub fn unfold(self, axis: isize, size: usize, step: usize) -> Tensor {
        let shape = self.shape();
        let Some(at) = resolve_axis("unfold", axis, &shape) else { return self };
        if size == 0 || size > shape[at] || step == 0 {
            let message = format!("`unfold` of {shape}: windows of {size} every {step} along axis {axis}");
            let help = format!("windows have 1 to {} elements, and step at least 1", shape[at]);
            return refused("unfold", message, help, self);
        }
        let kind = OpKind::Windows { size: vec![size], step: vec![step], dilation: vec![1] };
        let windows = emit(kind, &[self.transpose(at as isize, -1)], "unfold");
        windows.transpose(at as isize, shape.rank() as isize - 1)
    }

    /// Returns the lower triangle of `[.., rows, columns]`: elements right of a diagonal become zero.
    /// Diagonal 0 is the main one; positive ones are above it.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).tril(0)), [1.0, 0.0, 3.0, 4.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn tril(self, diagonal: isize) -> Tensor {
        self.triangle("tril", diagonal, true)
    }

    /// Returns the upper triangle of `[.., rows, columns]`: elements left of a diagonal become zero. Diagonal
    /// 0 is the main one; positive ones are above it.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).triu(0)), [1.0, 2.0, 0.0, 4.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn triu(self, diagonal: isize) -> Tensor {
        self.triangle("triu", diagonal.saturating_sub(1), false)
    }

    #[track_caller]
    fn triangle(self, token: &str, diagonal: isize, lower: bool) -> Tensor {
        let ty = self.ty();
        let [.., rows, columns] = ty.shape[..] else {
            let help = "it takes [.., rows, columns]";
            return refused(token, format!("`{token}` of {}", ty.shape), help, self);
        };
        let mask = lower_triangle(rows, columns, diagonal);
        let zero = super::full(ty.dtype, Shape::scalar(), 0.0);
        if lower { mask.select(self, zero) } else { mask.select(zero, self) }
    }

    /// Returns the main diagonals `[.., n]` of matrices `[.., n, n]`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).diagonal()), [1.0, 4.0]);
    /// ```
    #[op]
    pub fn diagonal(self) -> Tensor {
        let ty = self.ty();
        match ty.shape[..] {
            [.., rows, columns] if rows == columns => {
                let lead = &ty.shape[..ty.shape.rank() - 2];
                // Each step advances by one row and one column. The step is limited to the extent, which it
                // would exceed for a 1 × 1 matrix.
                let flat = self.reshape([lead, &[rows * columns]].concat());
                let step = (columns + 1).min((rows * columns).max(1));
                flat.slice_step(-1, 0..rows * columns, step)
            }
            _ => {
                let message = format!("`diagonal` of {}", ty.shape);
                let rows = placeholder(ty.dtype, ty.shape.without(&[ty.shape.rank().saturating_sub(1)]));
                refused("diagonal", message, "the last two axes have the same extent", rows)
            }
        }
    }

    /// Returns diagonal matrices `[.., n, n]` with the elements of the last axis of `[.., n]` on the main
    /// diagonals and zeros elsewhere.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0], [2]).diag_embed()), [1.0, 0.0, 0.0, 2.0]);
    /// ```
    #[op]
    pub fn diag_embed(self) -> Tensor {
        let ty = self.ty();
        let Some(&n) = ty.shape.last() else {
            return refused("diag_embed", "`diag_embed` of a scalar", "it takes [.., n]", self);
        };
        let pairs = Shape::from([n, n]);
        let on = super::iota(DType::I32, pairs.clone(), 0).eq(super::iota(DType::I32, pairs, 1));
        let zero = super::full(ty.dtype, Shape::scalar(), 0.0);
        on.select(self.unsqueeze(-1), zero)
    }
}

/// Returns the identity matrix `[n, n]`, f32.
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// assert_eq!(eval(|| eye(2)), [1.0, 0.0, 0.0, 1.0]);
/// ```
#[op]
pub fn eye(n: usize) -> Tensor {
    super::full(DType::F32, [n], 1.0).diag_embed()
}

/// Returns `count` evenly spaced f32 numbers from `start` to `end`, including both.
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// assert_eq!(eval(|| linspace(0.0, 1.0, 3)), [0.0, 0.5, 1.0]);
/// ```
#[op]
pub fn linspace(start: f64, end: f64, count: usize) -> Tensor {
    if !fits_constants("linspace", count, || "`linspace`".to_string())
        || !is_in_range("linspace", "start", start, Range::Finite)
        || !is_in_range("linspace", "end", end, Range::Finite)
    {
        return placeholder(DType::F32, Shape::scalar());
    }
    let step = if count > 1 { (end - start) / (count - 1) as f64 } else { 0.0 };
    // Compute each number from the nearer end, so that both ends are exact.
    let number = |i: usize| {
        if i * 2 < count { start + step * i as f64 } else { end - step * (count - 1 - i) as f64 }
    };
    let numbers: Vec<f64> = (0..count).map(number).collect();
    constant(&numbers, Type::new(DType::F32, [count]))
}

/// Returns the coordinates of a grid. For vectors of n0, n1, .. elements, there is one tensor `[n0, n1, ..]`
/// for each vector, which varies only along that vector's axis.
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// let y = eval(|| meshgrid(&[literal(&[1.0, 2.0], [2]), literal(&[3.0, 4.0], [2])])[1]);
/// assert_eq!(y, [3.0, 4.0, 3.0, 4.0]);
/// ```
#[op]
pub fn meshgrid(vectors: &[Tensor]) -> Vec<Tensor> {
    let extents: Vec<usize> = vectors.iter().map(|vector| vector.shape().elements()).collect();
    let mut grids = Vec::with_capacity(vectors.len());
    for (axis, vector) in vectors.iter().enumerate() {
        let mut along = vec![1; extents.len()];
        along[axis] = extents[axis];
        grids.push(vector.reshape(along).broadcast_to(extents.clone()));
    }
    grids
}
