//! Layers. The ops of a layer have the source location of the layer's caller, so that errors refer to the
//! user's model.

use super::{Init, Module, Param, Visitor};
use crate::trace::Tensor;

mod conv;
mod norm;
mod normalization;
mod pool;
mod recurrent;
mod sequential;
mod transformer;

pub use conv::*;
pub use norm::*;
pub use normalization::*;
pub use pool::*;
pub use recurrent::*;
pub use sequential::*;
pub use transformer::*;

/// A linear layer, which computes `x · W + b` over the last axis: `[.., in] -> [.., out]`. Its weight can
/// have an [adapter](super::LowRank).
#[derive(Clone, Debug)]
pub struct Linear {
    /// Weight `[in, out]`.
    pub weight: Param,
    /// Bias `[out]`, if any.
    pub bias: Option<Param>,
}

impl Linear {
    /// Creates a layer with a bias. Weights and bias start uniformly distributed within ±1/sqrt(in), as in
    /// PyTorch.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        let bound = 1.0 / (inputs.max(1) as f64).sqrt();
        let bias = Param::new([outputs], Init::Uniform { low: -bound, high: bound });
        Self { weight: Self::weight(inputs, outputs, Init::FanIn), bias: Some(bias) }
    }

    /// Creates a layer without a bias.
    pub fn no_bias(inputs: usize, outputs: usize) -> Self {
        Self { weight: Self::weight(inputs, outputs, Init::FanIn), bias: None }
    }

    fn weight(inputs: usize, outputs: usize, init: Init) -> Param {
        Param::new([inputs, outputs], init).transposed_in_torch()
    }

    /// Returns the layer with weights initialized by `init`, and with its bias, if any, initialized to zeros.
    #[must_use]
    pub fn init(self, init: Init) -> Self {
        let &[inputs, outputs] = &self.weight.shape()[..] else { unreachable!("a weight has two axes") };
        Self {
            weight: Self::weight(inputs, outputs, init),
            bias: self.bias.map(|_| Param::new([outputs], Init::Zeros)),
        }
    }

    /// Applies the layer: `[.., in] -> [.., out]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        let product = x.matmul(&self.weight);
        let product = match self.weight.adapter() {
            Some(adapter) => product + adapter.forward(x),
            None => product,
        };
        match &self.bias {
            Some(bias) => product + bias,
            None => product,
        }
    }
}

impl Module for Linear {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.weight("weight", &self.weight);
        visitor.field("bias", &self.bias);
    }
}

/// An embedding, a table of vectors from which rows are gathered.
#[derive(Clone, Debug, Module)]
pub struct Embedding {
    /// Table `[rows, width]`.
    pub weight: Param,
}

impl Embedding {
    /// Creates a table that starts normally distributed with mean 0 and standard deviation 1, as in PyTorch.
    pub fn new(rows: usize, width: usize) -> Self {
        Self { weight: Param::new([rows, width], Init::Normal { std: 1.0 }) }
    }

    /// Returns the table with values initialized by `init`.
    #[must_use]
    pub fn init(self, init: Init) -> Self {
        let &[rows, width] = &self.weight.shape()[..] else { unreachable!("a table has two axes") };
        Self { weight: Param::new([rows, width], init) }
    }

    /// Gathers rows: i32 `[I..] -> [I.., width]`. An index out of range fails the step.
    #[track_caller]
    pub fn forward(&self, ids: Tensor) -> Tensor {
        self.weight.gather_rows(ids)
    }
}

/// Dropout with probability `p`, active only while a training loss is traced. See [`Tensor::dropout`].
#[derive(Clone, Debug, PartialEq, Module)]
pub struct Dropout {
    /// Probability of zeroing an element.
    pub p: f64,
}

impl Dropout {
    /// Creates a layer with dropout probability `p`.
    pub fn new(p: f64) -> Self {
        Self { p }
    }

    /// Applies dropout. The shape is unchanged.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        x.dropout(self.p)
    }
}
