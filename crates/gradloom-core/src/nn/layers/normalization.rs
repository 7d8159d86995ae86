//! Group, instance and batch normalization of `[batch, channels, S..]`.

use crate::ir::{DType, Shape};
use crate::nn::{Init, Module, Param, State};
use crate::trace::{Operand, Range, Tensor, acting, has_floats, is_in_range, is_training, refused, within};

impl Tensor {
    /// Applies group normalization without a bias to f32 `[batch, channels, S..]`. The channels are split
    /// into `groups` groups, and each group becomes `(x - mean) / sqrt(variance + epsilon)`, with the mean
    /// and population variance over its channels and all positions. The result is multiplied by `weight`,
    /// which is `[channels]` or the number 1. Wu and He, 2018.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0], [1, 2]).group_norm(1, 1.0, 0.0)), [-1.0, 1.0]);
    /// ```
    #[doc(alias = "GroupNorm")]
    #[track_caller]
    pub fn group_norm(self, groups: usize, weight: impl Operand, epsilon: f64) -> Tensor {
        let _called = acting("group_norm");
        let (shape, weight) = (self.shape(), weight.tensor(self));
        if !has_channels("group_norm", self, weight)
            || !is_in_range("group_norm", "epsilon", epsilon, Range::NotNegative)
        {
            return self;
        }
        if groups == 0 || !shape[1].is_multiple_of(groups) {
            let message = format!("`group_norm` of {shape} in {groups} groups");
            return refused("group_norm", message, "the channels must be a multiple of the groups", self);
        }
        let positions: usize = shape[2..].iter().product();
        // If there are 0 channels, any number of groups divides them, so the product could overflow:
        // saturate.
        let rows = self.reshape([shape[0].saturating_mul(groups), shape[1] / groups * positions]);
        let centred = rows - rows.mean_keep(-1);
        let normal = centred * (centred.square().mean_keep(-1) + epsilon).rsqrt();
        normal.reshape(shape.clone()) * per_channel(weight, &shape)
    }

    /// Applies instance normalization, which is [`Tensor::group_norm`] with one group for each channel. A
    /// channel with one position is an error, as its result would always be 0. Ulyanov, Vedaldi,
    /// Lempitsky, 2016.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 3.0], [1, 1, 2]).instance_norm(1.0, 0.0)), [-1.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn instance_norm(self, weight: impl Operand, epsilon: f64) -> Tensor {
        let _called = acting("instance_norm");
        let shape = self.shape();
        if shape.rank() >= 2 && shape[2..].iter().product::<usize>() == 1 {
            let message = format!("`instance_norm` of {shape}: each channel has one position");
            let help = "its mean is itself and its variance 0: use LayerNorm or GroupNorm";
            return refused("instance_norm", message, help, self);
        }
        let channels = shape.get(1).copied().unwrap_or(1);
        self.group_norm(channels.max(1), weight, epsilon)
    }

    /// Applies batch normalization with the given mean and variance, both `[channels]`, to f32
    /// `[batch, channels, S..]`: `(x - mean) / sqrt(variance + epsilon) · weight`, where `weight` is
    /// `[channels]` or the number 1. [`Tensor::channel_mean`] and [`Tensor::channel_variance`] compute the
    /// statistics of a batch. Ioffe and Szegedy, 2015.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    ///     x.batch_norm(literal(&[1.0, 2.0], [2]), literal(&[1.0, 1.0], [2]), 1.0, 0.0)
    /// });
    /// assert_eq!(y, [0.0, 0.0, 2.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn batch_norm(self, mean: Tensor, variance: Tensor, weight: impl Operand, epsilon: f64) -> Tensor {
        let _called = acting("batch_norm");
        let (shape, weight) = (self.shape(), weight.tensor(self));
        if ![mean, variance, weight].into_iter().all(|given| has_channels("batch_norm", self, given))
            || !is_in_range("batch_norm", "epsilon", epsilon, Range::NotNegative)
        {
            return self;
        }
        let factor = (variance + epsilon).rsqrt() * weight;
        (self - per_channel(mean, &shape)) * per_channel(factor, &shape)
    }

    /// Computes the mean `[channels]` of each channel of `[batch, channels, S..]`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).channel_mean()), [2.0, 3.0]);
    /// ```
    #[track_caller]
    pub fn channel_mean(self) -> Tensor {
        let _called = acting("channel_mean");
        self.mean_axes(&all_but_channels(self)[..])
    }

    /// Computes the population variance `[channels]` of each channel of `[batch, channels, S..]` around the
    /// given mean.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let x = || literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    /// assert_eq!(eval(|| x().channel_variance(x().channel_mean())), [1.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn channel_variance(self, mean: Tensor) -> Tensor {
        let _called = acting("channel_variance");
        let shape = self.shape();
        if !has_channels("channel_variance", self, mean) {
            return mean;
        }
        (self - per_channel(mean, &shape)).square().mean_axes(&all_but_channels(self)[..])
    }
}

/// Returns all axes except the second.
fn all_but_channels(x: Tensor) -> Vec<isize> {
    (0..x.rank() as isize).filter(|&axis| axis != 1).collect()
}

/// Reshapes `[channels]` so that it broadcasts over `[batch, channels, S..]`; returns a scalar unchanged.
#[track_caller]
fn per_channel(x: Tensor, shape: &Shape) -> Tensor {
    match x.rank() {
        0 => x,
        _ => x.reshape([&[shape[1]], &vec![1; shape.rank() - 2][..]].concat()),
    }
}

/// Returns `true` if `x` is `[batch, channels, S..]` of floats and `given` is a scalar or `[channels]`;
/// otherwise, records an error of the op named `token`.
#[track_caller]
fn has_channels(token: &str, x: Tensor, given: Tensor) -> bool {
    let (shape, numbers) = (x.shape(), given.shape());
    if shape.rank() < 2 {
        return refused(token, format!("`{token}` of {shape}"), "it takes [batch, channels, S..]", false);
    }
    if numbers.rank() > 0 && numbers != Shape::from([shape[1]]) {
        let message = format!("`{token}` of {shape} with numbers {numbers}");
        return refused(token, message, format!("there is one for each channel: [{}]", shape[1]), false);
    }
    has_floats(token, x)
}

#[track_caller]
fn shifted(x: Tensor, bias: &Param) -> Tensor {
    let shape = x.shape();
    if !has_channels("bias", x, bias.tensor()) {
        return x;
    }
    x + per_channel(bias.tensor(), &shape)
}

/// Group normalization with a gain and a bias for each channel. See [`Tensor::group_norm`].
#[derive(Clone, Debug, Module)]
pub struct GroupNorm {
    /// Gain `[channels]`, initially 1.
    pub weight: Param,
    /// Bias `[channels]`, initially 0.
    pub bias: Param,
    /// Number of groups.
    pub groups: usize,
    /// Number that is added to the variance.
    pub epsilon: f64,
}

impl GroupNorm {
    /// Creates a layer for `channels` channels in `groups` groups, with epsilon 1e-5.
    pub fn new(groups: usize, channels: usize) -> Self {
        let (weight, bias) = (Param::new([channels], Init::Ones), Param::new([channels], Init::Zeros));
        Self { weight, bias, groups, epsilon: 1e-5 }
    }

    /// Applies the layer to f32 `[batch, channels, S..]`; the result has the same shape.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        shifted(x.group_norm(self.groups, &self.weight, self.epsilon), &self.bias)
    }
}

/// Batch normalization with a gain and a bias for each channel. While a training loss is traced, the layer
/// uses the mean and variance of the batch and moves the running statistics towards them; otherwise, it uses
/// the running statistics. Ioffe and Szegedy, 2015.
#[derive(Clone, Debug, Module)]
pub struct BatchNorm {
    /// Gain `[channels]`, initially 1.
    pub weight: Param,
    /// Bias `[channels]`, initially 0.
    pub bias: Param,
    /// Running mean `[channels]`, initially 0.
    pub running_mean: State,
    /// Running variance `[channels]`, initially 1. As in PyTorch, it is the sample variance, divided by the
    /// number of elements minus 1.
    pub running_var: State,
    /// Fraction by which the running statistics move towards those of the batch at each step.
    pub momentum: f64,
    /// Number that is added to the variance.
    pub epsilon: f64,
}

impl BatchNorm {
    /// Creates a layer with momentum 0.1 and epsilon 1e-5.
    pub fn new(channels: usize) -> Self {
        Self {
            weight: Param::new([channels], Init::Ones),
            bias: Param::new([channels], Init::Zeros),
            running_mean: State::new([channels], DType::F32, 0.0),
            running_var: State::new([channels], DType::F32, 1.0),
            momentum: 0.1,
            epsilon: 1e-5,
        }
    }

    /// Applies the layer to f32 `[batch, channels, S..]`; the result has the same shape. A training program
    /// may apply the layer only once. As in PyTorch, each channel must have more than one number in training,
    /// as the normalized value of a single number would always be 0.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        let _place = within();
        let shape = x.shape();
        // If the number of channels is wrong, skip the statistics of the batch: `batch_norm` reports the
        // error.
        let fits = shape.get(1) == self.weight.shape().first();
        let (mean, variance) = if is_training() && fits {
            let count: usize =
                shape.iter().enumerate().filter(|(axis, _)| *axis != 1).map(|(_, n)| n).product();
            if count == 1 {
                let message = format!("`BatchNorm` of {shape} in training: each channel has one number");
                let help = "its mean is itself and its variance 0: train on larger batches, or use LayerNorm or \
                            GroupNorm, which do not look at the batch";
                return refused("forward", message, help, x);
            }
            if !is_in_range("forward", "momentum of `BatchNorm`", self.momentum, Range::Part) {
                return x;
            }
            let mean = x.channel_mean();
            let variance = x.channel_variance(mean);
            let count = count as f64;
            let of_sample = variance.detach() * (count / (count - 1.0).max(1.0));
            let moved = |running: &State, now: Tensor| running.tensor().lerp(now, self.momentum);
            self.running_mean.set(moved(&self.running_mean, mean.detach()));
            self.running_var.set(moved(&self.running_var, of_sample));
            (mean, variance)
        } else {
            (self.running_mean.tensor(), self.running_var.tensor())
        };
        shifted(x.batch_norm(mean, variance, &self.weight, self.epsilon), &self.bias)
    }
}
