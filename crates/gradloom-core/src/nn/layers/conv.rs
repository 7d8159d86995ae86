//! Convolution layers.

use crate::nn::{Init, Module, Param};
use crate::trace::{ConvOptions, PerAxis, Tensor};

/// Returns weights and a bias that start uniformly distributed within ±1/sqrt(fan-in), as in PyTorch.
fn parameters(extents: [usize; 2], size: &[usize], outputs: usize) -> (Param, Option<Param>) {
    // As in PyTorch, the product with the second extent is also the fan-in of transposed convolutions, whose
    // weights begin with the input channels.
    let fan_in = size.iter().fold(extents[1], |product, &n| product.saturating_mul(n));
    let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
    let init = Init::Uniform { low: -bound, high: bound };
    (Param::of_shape([&extents, size].concat(), init.clone()), Some(Param::new([outputs], init)))
}

/// Returns a size for each of `axes` axes: the given sizes, or the single given size for all axes.
///
/// # Panics
/// Panics if neither 1 nor `axes` sizes are given.
#[track_caller]
fn sizes(size: &impl PerAxis, axes: usize) -> Vec<usize> {
    match &size.list()[..] {
        [one] => vec![*one; axes],
        all if all.len() == axes => all.to_vec(),
        all => panic!("a convolution over {axes} axes has no kernel of {all:?}"),
    }
}

/// Adds a bias to each channel of `[batch, channels, S..]`.
#[track_caller]
fn biased(x: Tensor, bias: &Option<Param>) -> Tensor {
    let Some(bias) = bias else { return x };
    let shape = vec![bias.shape()[0]].into_iter().chain(vec![1; x.rank().saturating_sub(2)]);
    x + bias.tensor().reshape(shape.collect::<Vec<_>>())
}

macro_rules! layers {
    ($(
        $(#[$doc:meta])*
        $name:ident: $axes:literal $call:ident;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $name {
            /// Weights, in the shape that the convolution's tensor method documents.
            pub weight: Param,
            /// Bias `[outputs]`, if any.
            pub bias: Option<Param>,
            /// Options such as stride and padding.
            #[module(skip)]
            pub options: ConvOptions,
        }

        impl $name {
            /// Creates a layer with a bias. Weights and bias start uniformly distributed within
            /// ±1/sqrt(fan-in), as in PyTorch.
            ///
            /// # Panics
            /// Panics if the number of groups is 0, if `channels` or `outputs` is not a multiple of it, or if
            /// `size` has neither one number nor one number for each axis.
            #[track_caller]
            pub fn new(channels: usize, outputs: usize, size: impl PerAxis, options: ConvOptions) -> Self {
                let (groups, size) = (options.group_count(), sizes(&size, $axes));
                assert!(
                    groups > 0 && channels.is_multiple_of(groups) && outputs.is_multiple_of(groups),
                    "{channels} channels and {outputs} outputs do not divide into {groups} groups"
                );
                let (weight, bias) = parameters(extents::$call(channels, outputs, groups), &size, outputs);
                Self { weight, bias, options }
            }

            /// Returns the layer without its bias.
            #[must_use]
            pub fn no_bias(self) -> Self {
                Self { bias: None, ..self }
            }

            /// Returns the layer with weights initialized by `init`, and with its bias, if any, initialized
            /// to zeros.
            #[must_use]
            pub fn init(self, init: Init) -> Self {
                Self {
                    weight: Param::of_shape(self.weight.shape().clone(), init),
                    bias: self.bias.map(|bias| Param::of_shape(bias.shape().clone(), Init::Zeros)),
                    ..self
                }
            }

            /// Applies the layer: `[batch, channels, S..] -> [batch, outputs, S'..]`.
            #[track_caller]
            pub fn forward(&self, x: Tensor) -> Tensor {
                biased(x.$call(self.weight.tensor(), self.options.clone()), &self.bias)
            }
        }
    )*};
}
layers! {
    /// A convolution over one axis, with a bias by default. See [`Tensor::conv1d`].
    Conv1d: 1 conv1d;
    /// A convolution over two axes, with a bias by default. See [`Tensor::conv2d`].
    Conv2d: 2 conv2d;
    /// A transposed convolution over one axis, with a bias by default. See [`Tensor::conv_transpose1d`].
    ConvTranspose1d: 1 conv_transpose1d;
    /// A transposed convolution over two axes, with a bias by default. See [`Tensor::conv_transpose2d`].
    ConvTranspose2d: 2 conv_transpose2d;
}

/// Functions that return the first two extents of the weights.
mod extents {
    pub(super) fn conv1d(channels: usize, outputs: usize, groups: usize) -> [usize; 2] {
        [outputs, channels / groups]
    }

    pub(super) use conv1d as conv2d;

    pub(super) fn conv_transpose1d(channels: usize, outputs: usize, groups: usize) -> [usize; 2] {
        [channels, outputs / groups]
    }

    pub(super) use conv_transpose1d as conv_transpose2d;
}
