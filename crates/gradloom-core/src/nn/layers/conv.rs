//! Convolutions with a bias.

use crate::nn::{Init, Module, Param, Visitor};
use crate::trace::{ConvOptions, PerAxis, Tensor};

/// Weights that start uniform within ±1/sqrt(fan-in), as in PyTorch, and a bias likewise.
fn parameters(extents: [usize; 2], size: &[usize], outputs: usize) -> (Param, Option<Param>) {
    // PyTorch counts it so of transposed convolutions, too.
    let fan_in = size.iter().fold(extents[1], |product, &n| product.saturating_mul(n));
    let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
    let init = Init::Uniform { low: -bound, high: bound };
    (Param::of_shape([&extents, size].concat(), init.clone()), Some(Param::new([outputs], init)))
}

/// Returns a size for each of `axes` axes from one or as many.
///
/// # Panics
/// When there are others.
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
        #[derive(Clone, Debug)]
        pub struct $name {
            /// Weights, of the shape that the function takes.
            pub weight: Param,
            /// `[outputs]`.
            pub bias: Option<Param>,
            /// Stride, padding and so on.
            pub options: ConvOptions,
        }

        impl $name {
            /// Creates a layer with a bias. Weights and bias start uniform within ±1/sqrt(fan-in), as in
            /// PyTorch.
            ///
            /// # Panics
            /// When channels or outputs are not multiples of the groups, or the size has not one number, or
            /// one for each axis.
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

            /// Returns the layer with other initial weights, and a bias of zeros if it has one.
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

        impl Module for $name {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                visitor.field("weight", &self.weight);
                visitor.field("bias", &self.bias);
            }
        }
    )*};
}
layers! {
    /// Convolution over one axis: [`Tensor::conv1d`] and a bias.
    Conv1d: 1 conv1d;
    /// Convolution over two axes: [`Tensor::conv2d`] and a bias.
    Conv2d: 2 conv2d;
    /// Transposed convolution over one axis: [`Tensor::conv_transpose1d`] and a bias.
    ConvTranspose1d: 1 conv_transpose1d;
    /// Transposed convolution over two axes: [`Tensor::conv_transpose2d`] and a bias.
    ConvTranspose2d: 2 conv_transpose2d;
}

/// The first two extents of the weights.
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
