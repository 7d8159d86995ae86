//! Reductions composed of others: variances, norms, log-sum-exp, and tests of all elements.
//!
//! Like sums, each of these reductions has three forms: over all axes, over given axes that are removed, and
//! over given axes that are kept with extent 1.

use super::alike::{common_axis, no_loss};
use super::bounds::{Range, is_in_range};
use super::reduce::Axes;
use super::tensor::has_floats;
use super::{Tensor, iota, op};
use crate::ir::{DType, Shape};

/// Defines the two forms of a reduction that remove axes by the form `$keep`, which keeps them. All forms
/// have the additional parameters `$number`.
macro_rules! forms {
    ($($(#[$doc:meta])* $all:ident $some:ident $keep:ident($($number:ident),*);)*) => {
        impl Tensor {
            $($(#[$doc])*
            ///
            /// Reduces all axes to a tensor of rank 0.
            #[op]
            pub fn $all(self, $($number: f64),*) -> Tensor {
                self.$keep(&self.every_axis()[..], $($number),*).reshape(Shape::scalar())
            }
            $(#[$doc])*
            ///
            /// Reduces the given axes, which are removed.
            #[op]
            pub fn $some(self, axes: impl Axes, $($number: f64),*) -> Tensor {
                let axes = axes.list();
                self.$keep(&axes[..], $($number),*).without_axes(&axes)
            })*
        }
    };
}
forms! {
    /// Computes the variance: the sum of the squared deviations from the mean, divided by the number of
    /// elements minus `correction`. A correction of 1, PyTorch's default, estimates the variance of a
    /// population from a sample. A correction of 0 results in the variance of the elements themselves.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0], [2]).var(1.0)), [2.0]);
    /// ```
    #[doc(alias = "variance")]
    var var_axes var_keep(correction);
    /// Computes the standard deviation, the square root of [`Tensor::var`]. Where it is 0, its gradient is 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0], [2]).std(0.0)), [1.0]);
    /// ```
    std std_axes std_keep(correction);
    /// Computes `log(sum(exp(x)))`; it does not overflow for large elements, and is `-inf` if all elements
    /// are `-inf`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1000.0], [1]).logsumexp()), [1000.0]);
    /// ```
    logsumexp logsumexp_axes logsumexp_keep();
    /// Computes the norm of order `p`, `(sum |x|^p)^(1/p)`: 2 is the Euclidean norm, infinity the largest
    /// `|x|`, and 0 the number of nonzero elements. Where the norm is 0, its gradient is 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[3.0, 4.0], [2]).norm(2.0)), [5.0]);
    /// ```
    #[doc(alias = "vector_norm")]
    norm norm_axes norm_keep(p);
    /// Returns a bool that is true if any element is true or nonzero, and false if there are no elements.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).gt(3.0).any_axes(1)), [0.0, 1.0]);
    /// ```
    any any_axes any_keep();
    /// Returns a bool that is true if all elements are true or nonzero, or if there are no elements.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).gt(0.0).all()), [1.0]);
    /// ```
    all all_axes all_keep();
}

impl Tensor {
    /// Computes [`Tensor::var`] over the given axes, which are kept with extent 1.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).var_keep(-1, 0.0)), [0.25, 0.25]);
    /// ```
    #[op]
    pub fn var_keep(self, axes: impl Axes, correction: f64) -> Tensor {
        if !has_floats("var", self) || !is_in_range("var", "correction", correction, Range::Finite) {
            return self;
        }
        let axes = axes.list();
        let squares = (self - self.mean_keep(&axes[..])).square().sum_keep(&axes[..]);
        let count = self.shape().elements().checked_div(squares.shape().elements()).unwrap_or(0);
        let freedom = count as f64 - correction;
        if freedom > 0.0 {
            return squares * (1.0 / freedom);
        }
        // As in PyTorch, the result for too few elements is infinity, or NaN if all elements are equal.
        squares.gt(0.0).select(f64::INFINITY, squares.undefined())
    }

    /// Computes [`Tensor::std`] over the given axes, which are kept with extent 1.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).std_keep(-1, 0.0)), [0.5, 0.5]);
    /// ```
    #[op]
    pub fn std_keep(self, axes: impl Axes, correction: f64) -> Tensor {
        self.var_keep(axes, correction).root_or_zero()
    }

    /// Computes [`Tensor::logsumexp`] over the given axes, which are kept with extent 1.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[5.0], [1]).logsumexp_keep(0)), [5.0]);
    /// ```
    #[op]
    pub fn logsumexp_keep(self, axes: impl Axes) -> Tensor {
        let axes = axes.list();
        // Detach the shift, which cancels out. Replace an infinite shift by 0, as infinity minus infinity is
        // NaN.
        let largest = self.max_keep(&axes[..]).detach();
        let shift = largest.is_finite().select(largest, 0.0);
        let sum = (self - shift).exp().sum_keep(&axes[..]);
        // If all elements are `-inf`, take the logarithm of 1, so that the gradient is 0 instead of 0 / 0.
        let none = sum.eq(0.0);
        none.select(f64::NEG_INFINITY, none.select(1.0, sum).log() + shift)
    }

    /// Computes [`Tensor::norm`] over the given axes, which are kept with extent 1.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).norm_keep(1, f64::INFINITY)), [2.0, 4.0]);
    /// ```
    #[op]
    pub fn norm_keep(self, axes: impl Axes, p: f64) -> Tensor {
        if !has_floats("norm", self) {
            return self;
        }
        let is_special = p == 0.0 || p == f64::INFINITY;
        if !is_special && !is_in_range("norm", "order, if not 0 or infinity,", p, Range::Positive) {
            return self;
        }
        if p == 2.0 {
            return self.square().sum_keep(axes).root_or_zero();
        }
        let size = self.abs();
        if p == 0.0 {
            return size.ne(0.0).cast(size.dtype()).sum_keep(axes);
        }
        if p == 1.0 {
            return size.sum_keep(axes);
        }
        if p == f64::INFINITY {
            return size.max_keep(axes);
        }
        // Replace zeros by 1 in the power, and the power by 0, as the slope of a power at 0 may be infinite.
        let nothing = size.eq(0.0);
        let sum = nothing.select(0.0, nothing.select(1.0, size).pow(p)).sum_keep(axes);
        let zero = sum.eq(0.0);
        zero.select(0.0, zero.select(1.0, sum).pow(1.0 / p))
    }

    /// Computes [`Tensor::any`] over the given axes, which are kept with extent 1.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).gt(3.0).any_keep(1)), [0.0, 1.0]);
    /// ```
    #[op]
    pub fn any_keep(self, axes: impl Axes) -> Tensor {
        self.cast(DType::Bool).cast(DType::I32).max_keep(axes).gt(0)
    }

    /// Computes [`Tensor::all`] over the given axes, which are kept with extent 1.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).gt(3.0).all_keep(1)), [0.0, 0.0]);
    /// ```
    #[op]
    pub fn all_keep(self, axes: impl Axes) -> Tensor {
        self.cast(DType::Bool).cast(DType::I32).min_keep(axes).gt(0)
    }

    /// Computes `x / max(norm, epsilon)`, with the norm of order `p` along an axis.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[3.0, 4.0], [2]).normalize(0, 1.0, 1e-12) * 7.0), [3.0, 4.0]);
    /// ```
    #[op]
    pub fn normalize(self, axis: isize, p: f64, epsilon: f64) -> Tensor {
        if !is_in_range("normalize", "epsilon", epsilon, Range::NotNegative) {
            return self;
        }
        let norm = self.norm_keep(axis, p);
        self / norm.lt(epsilon).select(epsilon, norm)
    }

    /// Computes the cosine of the angle between two tensors along an axis, which is removed:
    /// `x · y / (|x| |y|)`, with norms of at least 1e-8. As in PyTorch, the axis is an axis of the shape to
    /// which both tensors broadcast. Both tensors must have the same extent along it.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| literal(&[1.0, 0.0], [2]).cosine_similarity(literal(&[0.0, 2.0], [2]), 0));
    /// assert_eq!(y, [0.0]);
    /// ```
    #[op]
    pub fn cosine_similarity(self, other: Tensor, axis: isize) -> Tensor {
        let Some(axis) = common_axis("cosine_similarity", self, other, axis) else { return no_loss(self) };
        (self.normalize(axis, 2.0, 1e-8) * other.normalize(axis, 2.0, 1e-8)).sum_axes(axis)
    }

    /// Returns the row-major index of the largest element, as i32 of rank 0. Of equal elements, the first is
    /// chosen; NaN takes precedence over numbers.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).argmax_all()), [3.0]);
    /// ```
    #[op]
    pub fn argmax_all(self) -> Tensor {
        self.flatten().argmax(0)
    }

    /// Returns the row-major index of the smallest element, as i32 of rank 0. Of equal elements, the first is
    /// chosen; NaN takes precedence over numbers.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).argmin_all()), [0.0]);
    /// ```
    #[op]
    pub fn argmin_all(self) -> Tensor {
        self.flatten().argmin(0)
    }

    /// Counts the elements that are true or nonzero over the given axes, which are removed. Returns i32.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 0.0, 2.0], [3]).count_nonzero(0)), [2.0]);
    /// ```
    #[op]
    pub fn count_nonzero(self, axes: impl Axes) -> Tensor {
        self.cast(DType::Bool).cast(DType::I32).sum_axes(axes)
    }

    pub(super) fn every_axis(self) -> Vec<isize> {
        (0..self.rank() as isize).collect()
    }

    /// Removes axes of extent 1; negative numbers count from the last axis.
    #[track_caller]
    fn without_axes(self, axes: &[isize]) -> Tensor {
        let shape = self.shape();
        let rank = shape.rank() as isize;
        let gone: Vec<usize> = axes.iter().map(|&axis| axis.rem_euclid(rank.max(1)) as usize).collect();
        let shape = shape.without(&gone);
        if shape.elements() == self.shape().elements() { self.reshape(shape) } else { self }
    }
}

/// Returns a mask `[rows, columns]` that is true where `column <= row + diagonal`.
#[track_caller]
pub(super) fn lower_triangle(rows: usize, columns: usize, diagonal: isize) -> Tensor {
    let pairs = Shape::from([rows, columns]);
    let diagonal = i32::try_from(diagonal).unwrap_or(if diagonal < 0 { i32::MIN / 2 } else { i32::MAX / 2 });
    (iota(DType::I32, pairs.clone(), 0) + diagonal).ge(iota(DType::I32, pairs, 1))
}
