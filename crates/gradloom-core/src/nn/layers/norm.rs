//! Layer and root-mean-square normalization over the last axis.

use crate::ir::Shape;
use crate::nn::{Init, Module, Param};
use crate::trace::{Operand, Range, Tensor, acting, has_floats, is_in_range, refused};

impl Tensor {
    /// Applies layer normalization without a bias to f32 `[.., width]`:
    /// `(x - mean) / sqrt(variance + epsilon) · weight` over the last axis, with the population variance.
    /// `weight` is `[width]`, or the number 1. Ba, Kiros, Hinton, 2016.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0], [2]).layer_norm(1.0, 0.0)), [-1.0, 1.0]);
    /// ```
    #[doc(alias = "LayerNorm")]
    #[track_caller]
    pub fn layer_norm(self, weight: impl Operand, epsilon: f64) -> Tensor {
        let _called = acting("layer_norm");
        let weight = weight.tensor(self);
        if !fits("layer_norm", self, weight)
            || !is_in_range("layer_norm", "epsilon", epsilon, Range::NotNegative)
        {
            return self;
        }
        over_root_mean_square(self - self.mean_keep(-1), weight, epsilon)
    }

    /// Applies root-mean-square normalization to f32 `[.., width]`: `x / sqrt(mean(x²) + epsilon) · weight`
    /// over the last axis. `weight` is `[width]`, or the number 1. Zhang and Sennrich, 2019.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[3.0, 3.0], [2]).rms_norm(1.0, 0.0)), [1.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn rms_norm(self, weight: impl Operand, epsilon: f64) -> Tensor {
        let _called = acting("rms_norm");
        let weight = weight.tensor(self);
        if !fits("rms_norm", self, weight) || !is_in_range("rms_norm", "epsilon", epsilon, Range::NotNegative)
        {
            return self;
        }
        over_root_mean_square(self, weight, epsilon)
    }
}

/// Returns `x / sqrt(mean(x²) + epsilon) · weight`.
#[track_caller]
fn over_root_mean_square(x: Tensor, weight: Tensor, epsilon: f64) -> Tensor {
    x * (x.square().mean_keep(-1) + epsilon).rsqrt() * weight
}

/// Returns `true` if the operands of a normalization are valid; otherwise, records an error of the op named
/// `token`.
#[track_caller]
fn fits(token: &str, x: Tensor, weight: Tensor) -> bool {
    let (shape, gain) = (x.shape(), weight.shape());
    let Some(&width) = shape.last() else {
        return refused(token, format!("`{token}` of a scalar"), "it takes [.., width]", false);
    };
    if gain.rank() > 0 && gain != Shape::from([width]) {
        let message = format!("`{token}` of {shape} with a weight of {gain}");
        let help = format!("the weight is [{width}], a number for each of the last axis");
        return refused(token, message, help, false);
    }
    has_floats(token, x)
}

/// Layer normalization over the last axis: `(x - mean) / sqrt(variance + epsilon) · weight + bias`, with the
/// population variance. Ba, Kiros, Hinton, 2016.
#[derive(Clone, Debug, Module)]
pub struct LayerNorm {
    /// Gain `[width]`, initially 1.
    pub weight: Param,
    /// Bias `[width]`, initially 0.
    pub bias: Param,
    /// Number that is added to the variance.
    pub epsilon: f64,
}

impl LayerNorm {
    /// Creates a layer for a last axis of extent `width`, with epsilon 1e-5.
    pub fn new(width: usize) -> Self {
        Self {
            weight: Param::new([width], Init::Ones),
            bias: Param::new([width], Init::Zeros),
            epsilon: 1e-5,
        }
    }

    /// Applies the layer: `[.., width] -> [.., width]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        x.layer_norm(&self.weight, self.epsilon) + &self.bias
    }
}

/// Root-mean-square normalization over the last axis: `x / sqrt(mean(x²) + epsilon) · weight`. Zhang and
/// Sennrich, 2019.
#[derive(Clone, Debug, Module)]
pub struct RmsNorm {
    /// Gain `[width]`, initially 1.
    pub weight: Param,
    /// Number that is added to the mean of the squares.
    pub epsilon: f64,
}

impl RmsNorm {
    /// Creates a layer for a last axis of extent `width`, with epsilon 1e-6.
    pub fn new(width: usize) -> Self {
        Self { weight: Param::new([width], Init::Ones), epsilon: 1e-6 }
    }

    /// Applies the layer: f32 `[.., width] -> [.., width]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        x.rms_norm(&self.weight, self.epsilon)
    }
}
