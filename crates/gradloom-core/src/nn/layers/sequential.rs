//! Layers that are applied in sequence.

use super::{
    AdaptiveAvgPool2d, AvgPool2d, BatchNorm, Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, Dropout,
    Embedding, Flatten, GroupNorm, Gru, LayerNorm, Linear, Lstm, MaxPool2d, RmsNorm, TransformerBlock,
};
use crate::nn::{CausalSelfAttention, Module, Visitor};
use crate::trace::{Tensor, within};

/// A module that maps one tensor to one tensor.
pub trait Layer: Module + CloneLayer {
    /// Applies the layer.
    #[track_caller]
    fn apply(&self, x: Tensor) -> Tensor;
}

/// Cloning of a boxed layer, which [`Sequential`] requires in order to be `Clone`. Implemented for every
/// layer that is `Clone`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is a layer and not `Clone`",
    note = "add `#[derive(Clone)]`"
)]
pub trait CloneLayer {
    /// Returns a boxed clone.
    fn clone_layer(&self) -> Box<dyn Layer>;
}

impl<L: Layer + Clone + 'static> CloneLayer for L {
    fn clone_layer(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Layer> {
    fn clone(&self) -> Self {
        (**self).clone_layer()
    }
}

macro_rules! layers {
    ($($name:ident),* $(,)?) => {$(
        impl Layer for $name {
            #[track_caller]
            fn apply(&self, x: Tensor) -> Tensor {
                self.forward(x)
            }
        }
    )*};
}
layers!(
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm,
    CausalSelfAttention,
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    Gru,
    LayerNorm,
    Linear,
    Lstm,
    MaxPool2d,
    RmsNorm,
    Sequential,
    TransformerBlock,
);

/// A layer that applies a function without parameters, such as `Function(Tensor::relu)`.
#[derive(Clone, Copy, Debug)]
pub struct Function<F>(pub F);

impl<F: Fn(Tensor) -> Tensor + Clone + Send + Sync + 'static> Module for Function<F> {
    fn visit(&self, _: &mut Visitor<'_>) {}
}

impl<F: Fn(Tensor) -> Tensor + Clone + Send + Sync + 'static> Layer for Function<F> {
    #[track_caller]
    fn apply(&self, x: Tensor) -> Tensor {
        let _place = within();
        self.0(x)
    }
}

/// A sequence of layers. The name of a parameter begins with the position of its layer, as in `0.weight`.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; }
/// use gradloom::nn::{Linear, Sequential};
/// use gradloom::trace::Tensor;
///
/// let model =
///     Sequential::new().layer(Linear::new(784, 256)).function(Tensor::relu).layer(Linear::new(256, 10));
/// ```
#[derive(Clone, Default)]
pub struct Sequential(Vec<Box<dyn Layer>>);

impl Sequential {
    /// Creates an empty sequence of layers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a layer.
    #[must_use]
    pub fn layer(mut self, layer: impl Layer + 'static) -> Self {
        self.0.push(Box::new(layer));
        self
    }

    /// Appends a function without parameters.
    #[must_use]
    pub fn function(self, function: impl Fn(Tensor) -> Tensor + Clone + Send + Sync + 'static) -> Self {
        self.layer(Function(function))
    }

    /// Applies all layers, in order.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        let _place = within();
        let mut x = x;
        for layer in &self.0 {
            x = layer.apply(x);
        }
        x
    }
}

impl std::fmt::Debug for Sequential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sequential({} layers)", self.0.len())
    }
}

impl Module for Sequential {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (i, layer) in self.0.iter().enumerate() {
            visitor.field(&i.to_string(), &**layer);
        }
    }
}
