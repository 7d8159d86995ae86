//! Counter-based random numbers, so that a run can be repeated, resumed, and moved between backends with
//! bitwise identical results.

use super::bounds::{Range, is_in_range};
use super::reduce::resolve_axis;
use super::scope::with_scope;
use super::tensor::{full, has_floats, placeholder, refused};
use super::{Tensor, is_training, op};
use crate::error::{Error, ErrorKind};
use crate::ir::{BinaryFraction, DType, Origin, Shape, Type};
use std::f64::consts::TAU;

/// Draws uniform f32 numbers in `[0, 1)`, multiples of 2^-24. They are keyed by the seed, the attempted step,
/// the call's position in the model and the element's index.
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// assert_eq!(eval(|| uniform([3]).ge(0.0)), [1.0, 1.0, 1.0]);
/// ```
#[doc(alias = "rand")]
#[op]
pub fn uniform(shape: impl Into<Shape>) -> Tensor {
    let bits = bits(shape.into(), BinaryFraction::HALF, "uniform");
    // Keep 24 random bits, which fit the significand of an f32, so that rounding cannot produce 1.0.
    bits.shift_right(8).cast(DType::F32) * full(DType::F32, Shape::scalar(), 1.0 / f64::from(1 << 24))
}

/// Draws u32 numbers for a function named `token`. Each of their bits is 1 with the probability `ones`.
#[track_caller]
pub(super) fn bits(shape: Shape, ones: BinaryFraction, token: &str) -> Tensor {
    let caller = Origin::caller();
    with_scope(|scope| {
        let origin = scope.intern(caller);
        let value = scope.random_bits(&shape, ones, origin).unwrap_or_else(|problem| {
            let place = scope.graph.origins.get(origin).expect("just interned").clone();
            scope.fail(Error::new(ErrorKind::Trace, problem.message).at(place, token));
            scope.placeholder(Type::new(DType::U32, shape))
        });
        scope.tensor(value)
    })
}

/// Draws bools that are true with probability `p` in `0..=1`. They differ at every step and are keyed like
/// the numbers of [`uniform`].
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// assert_eq!(eval(|| bernoulli([3], 1.0)), [1.0, 1.0, 1.0]);
/// ```
#[op]
pub fn bernoulli(shape: impl Into<Shape>, p: f64) -> Tensor {
    let shape = shape.into();
    if !is_in_range("bernoulli", "probability", p, Range::Part) {
        return placeholder(DType::Bool, shape);
    }
    uniform(shape).lt(p)
}

/// Returns the numbers `0..n` as i32 in a random order, which differs at every step. It is the sorted order
/// of `n` random u32 numbers, any two of which are equal with probability 2^-32; equal numbers keep their
/// order.
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// assert_eq!(eval(|| permutation(3).sort(0)), [0.0, 1.0, 2.0]);
/// ```
#[doc(alias = "randperm")]
#[track_caller]
#[must_use]
pub fn permutation(n: usize) -> Tensor {
    bits(Shape::from([n]), BinaryFraction::HALF, "permutation").argsort(0)
}

/// Draws f32 numbers from the normal distribution with mean 0 and variance 1. They differ at every step and
/// are keyed like the numbers of [`uniform`]. Each is `sqrt(-2 ln(1 - u)) · cos(2π v)` for two uniform
/// numbers u and v (Box and Muller, 1958). No number is beyond ±5.77, as `1 - u` is at least 2^-24.
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// assert_eq!(eval(|| randn([3]).is_finite()), [1.0, 1.0, 1.0]);
/// ```
#[doc(alias = "normal")]
#[op]
pub fn randn(shape: impl Into<Shape>) -> Tensor {
    let shape = shape.into();
    let (u, v) = (uniform(shape.clone()), uniform(shape));
    // Take the logarithm of 1 - u, which is in (0, 1], so that it is finite and at most 0.
    ((1.0 - u).log() * -2.0).sqrt() * (v * TAU).cos()
}

impl Tensor {
    /// Draws a class along an axis of logits: f32 `[.., classes, ..]` becomes i32 without the axis. The draw
    /// differs at every step. Class i has the probability `softmax(x)[i]`; a class with a logit of `-inf` is
    /// never drawn unless all logits are `-inf`. The result is the argmax of the logits plus Gumbel noise
    /// `-ln(-ln u)` (Gumbel, 1954). It has no gradient.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0, f32::NEG_INFINITY], [2]).categorical(0)), [0.0]);
    /// ```
    #[doc(alias = "multinomial")]
    #[op]
    pub fn categorical(self, axis: isize) -> Tensor {
        let shape = self.shape();
        let Some(at) = resolve_axis("categorical", axis, &shape) else { return self };
        if !has_floats("categorical", self) {
            return self;
        }
        if shape[at] == 0 {
            let message = format!("`categorical` of {shape}: there is no class along axis {axis}");
            return refused("categorical", message, "give logits of at least one class", self);
        }
        // Map the uniform numbers to [2^-25, 1 - 2^-23], which excludes 0 and 1, so that both logarithms are
        // finite.
        let u = uniform(shape) * (1.0 - 2f64.powi(-23)) + 2f64.powi(-25);
        let noise = -(-u.log()).log();
        (self + noise.cast(self.dtype())).argmax(at as isize)
    }

    /// While a training loss is traced, zeroes each element with probability `p` in `0..=1` and scales the
    /// others by `1 / (1 - p)`; otherwise returns the tensor unchanged. Srivastava et al., JMLR 2014.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0], [2]).dropout(0.5)), [1.0, 2.0]);
    /// ```
    #[op]
    pub fn dropout(self, p: f64) -> Tensor {
        if !is_in_range("dropout", "probability of a 0", p, Range::Part) {
            return self;
        }
        if p == 0.0 || !is_training() {
            return self;
        }
        if p == 1.0 {
            // Select zeros instead of returning a constant, so that a loss still depends on x, with gradients
            // of 0.
            return full(DType::Bool, Shape::scalar(), 0.0).select(self, 0.0);
        }
        uniform(self.shape()).ge(p).select(self * (1.0 / (1.0 - p)), 0.0)
    }
}
