//! Activation functions, with PyTorch's gradients at their kinks.

use super::bounds::{Range, is_in_range};
use super::tensor::{has_floats, refused};
use super::{Operand, Tensor, op};
use crate::ir::Shape;

/// sqrt(2 / π), the factor in the tanh form of GELU.
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;

impl Tensor {
    /// Computes `max(x, 0)`; the gradient at 0 is 0, and NaN stays NaN.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[-1.0, 2.0], [2]).relu()), [0.0, 2.0]);
    /// ```
    #[op]
    pub fn relu(self) -> Tensor {
        self.le(0.0).select(0.0, self)
    }

    /// Computes `min(max(x, 0), 6)`; the gradient at 0 and 6 is 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[-1.0, 8.0], [2]).relu6()), [0.0, 6.0]);
    /// ```
    #[op]
    pub fn relu6(self) -> Tensor {
        self.clamp(0.0, 6.0)
    }

    /// Computes `x · Φ(x)` with the exact cumulative distribution function of the normal distribution:
    /// `0.5 x (1 + erf(x / sqrt 2))`. Hendrycks and Gimpel, 2016.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).gelu()), [0.0]);
    /// ```
    #[op]
    pub fn gelu(self) -> Tensor {
        0.5 * self * (1.0 + (self * std::f64::consts::FRAC_1_SQRT_2).erf())
    }

    /// Computes the tanh approximation of GELU, as in GPT-2: `0.5 x (1 + tanh u)` with
    /// `u = sqrt(2/π) (x + 0.044715 x³)`. It equals `x · sigmoid(2u)`, which takes half as much arithmetic,
    /// and keeps the digits of the small results of negative `x`. Hendrycks and Gimpel, 2016.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).gelu_tanh()), [0.0]);
    /// ```
    #[op]
    pub fn gelu_tanh(self) -> Tensor {
        let slope = 2.0 * SQRT_2_OVER_PI;
        self * (self * (slope + 0.044715 * slope * (self * self))).sigmoid()
    }

    /// Computes `x · sigmoid(x)`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).silu()), [0.0]);
    /// ```
    #[doc(alias = "swish")]
    #[op]
    pub fn silu(self) -> Tensor {
        self * self.sigmoid()
    }

    /// Computes `x · tanh(softplus(x))`. Misra, 2019.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).mish()), [0.0]);
    /// ```
    #[op]
    pub fn mish(self) -> Tensor {
        self * self.softplus().tanh()
    }

    /// Computes `log(1 + e^x)` of floats; the gradient is `sigmoid(x)`. The formula is `x + log(1 + e^-x)`
    /// above 0 and `log(1 + e^x)` elsewhere, which neither overflows for large `x` nor loses digits for very
    /// negative `x`. Dugas et al., NIPS 2000.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1000.0], [1]).softplus()), [1000.0]);
    /// ```
    #[op]
    pub fn softplus(self) -> Tensor {
        if !has_floats("softplus", self) {
            return self;
        }
        // Select between `x` and `-x` instead of computing `-|x|`: each branch then has the derivatives of
        // softplus of any order, even at 0.
        let positive = self.gt(0.0);
        positive.select(self, 0.0) + positive.select(-self, self).exp().log1p()
    }

    /// Computes `log(sigmoid(x))` without underflow.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[-1000.0], [1]).log_sigmoid()), [-1000.0]);
    /// ```
    #[doc(alias = "logsigmoid")]
    #[op]
    pub fn log_sigmoid(self) -> Tensor {
        -(-self).softplus()
    }

    /// Computes `x / (1 + |x|)`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).softsign()), [0.0]);
    /// ```
    #[op]
    pub fn softsign(self) -> Tensor {
        self / (1.0 + self.abs())
    }

    /// Computes `x` where `x > 0`, else `slope · x`, of floats. As in PyTorch, the gradient at 0 is `slope`.
    /// Maas, Hannun, Ng, 2013.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[-2.0, 2.0], [2]).leaky_relu(0.5)), [-1.0, 2.0]);
    /// ```
    #[op]
    pub fn leaky_relu(self, slope: f64) -> Tensor {
        if !is_in_range("leaky_relu", "slope", slope, Range::Finite) {
            return self;
        }
        if !has_floats("leaky_relu", self) {
            return self;
        }
        self.gt(0.0).select(self, self * slope)
    }

    /// Computes `x` where `x > 0`, else `weight · x`. As in PyTorch, `weight` is one number, of rank 0 or
    /// `[1]`, or one number for each channel (axis 1) of `[batch, channels, S..]`, of shape `[channels]`. He,
    /// Zhang, Ren, Sun, 2015.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[-2.0, 2.0], [2]).prelu(0.5)), [-1.0, 2.0]);
    /// ```
    #[op]
    pub fn prelu(self, weight: impl Operand) -> Tensor {
        let weight = weight.tensor(self);
        let (shape, own) = (self.shape(), weight.shape());
        let channels = shape.get(1).copied();
        let weight = match own[..] {
            [] => weight,
            [1] => weight.reshape(Shape::scalar()),
            // Reshape the weights, which would otherwise broadcast along the last axis.
            [n] if Some(n) == channels => weight.reshape([&[n], &vec![1; shape.rank() - 2][..]].concat()),
            _ => {
                let help = match channels {
                    Some(n) => format!("there is one weight, or one for each channel, axis 1: [{n}]"),
                    None => "without channels, [batch, channels, ..], there is one weight".to_string(),
                };
                return refused("prelu", format!("`prelu` of {shape} with weights {own}"), help, self);
            }
        };
        // Multiply the weight by 0 where `x` is above 0, so that these elements do not contribute to its
        // gradient.
        self.gt(0.0).select(self, self.not_above_zero() * weight)
    }

    /// Computes `x` where `x > 0`, else `alpha · (e^x - 1)`. Clevert, Unterthiner, Hochreiter, 2015.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0, 2.0], [2]).elu(1.0)), [0.0, 2.0]);
    /// ```
    #[doc(alias = "ELU")]
    #[op]
    pub fn elu(self, alpha: f64) -> Tensor {
        if !is_in_range("elu", "alpha", alpha, Range::Finite) {
            return self;
        }
        self.gt(0.0).select(self, self.not_above_zero().expm1() * alpha)
    }

    /// Computes `x` where `x > 0`, else `alpha · (e^(x / alpha) - 1)`; `alpha` must be positive.
    /// Barron, 2017.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0, 2.0], [2]).celu(1.0)), [0.0, 2.0]);
    /// ```
    #[op]
    pub fn celu(self, alpha: f64) -> Tensor {
        if !is_in_range("celu", "alpha", alpha, Range::Positive) {
            return self;
        }
        self.gt(0.0).select(self, (self.not_above_zero() * (1.0 / alpha)).expm1() * alpha)
    }

    /// Computes [`Tensor::elu`] with the alpha and the scaling factor that preserve mean 0 and variance 1.
    /// Klambauer et al., NIPS 2017.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).selu()), [0.0]);
    /// ```
    #[op]
    pub fn selu(self) -> Tensor {
        self.elu(1.673_263_242_354_377_2) * 1.050_700_987_355_480_5
    }

    /// Replaces elements above 0 by 0, so that a function of them cannot overflow in the branch that is not
    /// selected.
    #[track_caller]
    fn not_above_zero(self) -> Tensor {
        self.gt(0.0).select(0.0, self)
    }

    /// Computes `x / 6 + 1/2`, clamped to `0..=1`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[-4.0, 0.0, 4.0], [3]).hard_sigmoid()), [0.0, 0.5, 1.0]);
    /// ```
    #[doc(alias = "hardsigmoid")]
    #[op]
    pub fn hard_sigmoid(self) -> Tensor {
        self.clamp(-3.0, 3.0) * (1.0 / 6.0) + 0.5
    }

    /// Computes `x · hard_sigmoid(x)`. Howard et al., 2019.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).hard_swish()), [0.0]);
    /// ```
    #[doc(alias = "hardswish")]
    #[op]
    pub fn hard_swish(self) -> Tensor {
        // Clamp `x`, because the product would be infinity times 0 for an infinite `x`.
        let inside = self.clamp(-3.0, 3.0);
        self.ge(3.0).select(self, inside * (inside * (1.0 / 6.0) + 0.5))
    }

    /// Computes `x - tanh(x)`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).tanh_shrink()), [0.0]);
    /// ```
    #[doc(alias = "tanhshrink")]
    #[op]
    pub fn tanh_shrink(self) -> Tensor {
        self - self.tanh()
    }

    /// Computes `x` where `|x| > lambda`, else 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.2, -2.0], [2]).hard_shrink(0.5)), [0.0, -2.0]);
    /// ```
    #[doc(alias = "hardshrink")]
    #[op]
    pub fn hard_shrink(self, lambda: f64) -> Tensor {
        if !is_in_range("hard_shrink", "lambda", lambda, Range::NotNegative) {
            return self;
        }
        self.abs().le(lambda).select(0.0, self)
    }

    /// Computes `sign(x) · max(|x| - lambda, 0)`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.2, -2.0], [2]).soft_shrink(0.5)), [0.0, -1.5]);
    /// ```
    #[doc(alias = "softshrink")]
    #[op]
    pub fn soft_shrink(self, lambda: f64) -> Tensor {
        if !is_in_range("soft_shrink", "lambda", lambda, Range::NotNegative) {
            return self;
        }
        let shrunk = self.gt(0.0).select(self - lambda, self + lambda);
        self.abs().le(lambda).select(0.0, shrunk)
    }

    /// Computes `a · sigmoid(b)`, where `a` is the first half of an axis and `b` the second. Dauphin et
    /// al., 2017.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[4.0, 0.0], [2]).glu(0)), [2.0]);
    /// ```
    #[op]
    pub fn glu(self, axis: isize) -> Tensor {
        let shape = self.shape();
        let Some(at) = super::reduce::resolve_axis("glu", axis, &shape) else { return self };
        if !shape[at].is_multiple_of(2) {
            let message = format!("`glu` of {shape}: axis {axis} has {} elements, an odd number", shape[at]);
            let help = "one half of the axis gates the other, so the extent must be even";
            return refused("glu", message, help, self);
        }
        let (half, at) = (shape[at] / 2, at as isize);
        self.slice(at, 0..half) * self.slice(at, half..2 * half).sigmoid()
    }
}
