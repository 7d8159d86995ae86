//! Pooling and flattening layers, which have no parameters.

use crate::nn::Module;
use crate::trace::{PerAxis, PoolOptions, Tensor};

macro_rules! pools {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $name {
            size: Vec<usize>,
            #[module(skip)]
            options: PoolOptions,
        }

        impl $name {
            /// Creates a layer with adjacent windows of this size, without padding.
            pub fn new(size: impl PerAxis) -> Self {
                Self { size: size.list(), options: PoolOptions::new() }
            }

            /// Sets stride and padding.
            #[must_use]
            pub fn options(mut self, options: PoolOptions) -> Self {
                self.options = options;
                self
            }

            /// Applies the layer: `[batch, channels, height, width] -> [batch, channels, height', width']`.
            #[track_caller]
            pub fn forward(&self, x: Tensor) -> Tensor {
                x.$op(&self.size[..], self.options.clone())
            }
        }
    )*};
}
pools! {
    /// Maximum pooling over windows of an image. See [`Tensor::max_pool2d`].
    MaxPool2d max_pool2d;
    /// Average pooling over windows of an image. See [`Tensor::avg_pool2d`].
    AvgPool2d avg_pool2d;
}

/// Average pooling of an image to a fixed size. See [`Tensor::adaptive_avg_pool2d`].
#[derive(Clone, Debug, Module)]
pub struct AdaptiveAvgPool2d {
    size: Vec<usize>,
}

impl AdaptiveAvgPool2d {
    /// Creates a layer whose result has this height and width.
    pub fn new(size: impl PerAxis) -> Self {
        Self { size: size.list() }
    }

    /// Applies the layer: `[batch, channels, height, width] -> [batch, channels, size[0], size[1]]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        x.adaptive_avg_pool2d(&self.size[..])
    }
}

/// A layer that flattens all axes except the first.
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct Flatten;

impl Flatten {
    /// Applies the layer: `[batch, A, B, ..] -> [batch, A · B · ..]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        let shape = x.shape();
        let (batch, rest) = shape.split_first().map_or((1, &[][..]), |(batch, rest)| (*batch, rest));
        x.reshape([batch, rest.iter().product()])
    }
}
