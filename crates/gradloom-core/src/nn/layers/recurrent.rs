//! Recurrent layers.

use crate::nn::{Init, Module, Param};
use crate::trace::{Gates, Tensor};

macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident: $gates:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $name {
            /// Weights of the input, `[inputs, gates · hidden]`.
            pub weight_ih: Param,
            /// Weights of the state, `[hidden, gates · hidden]`.
            pub weight_hh: Param,
            /// Bias of the input, `[gates · hidden]`.
            pub bias_ih: Param,
            /// Bias of the state, `[gates · hidden]`.
            pub bias_hh: Param,
        }

        impl $name {
            /// Creates a layer whose parameters start uniformly distributed within ±1/sqrt(hidden), as in
            /// PyTorch.
            pub fn new(inputs: usize, hidden: usize) -> Self {
                let bound = 1.0 / (hidden.max(1) as f64).sqrt();
                let init = || Init::Uniform { low: -bound, high: bound };
                let width = hidden.saturating_mul($gates);
                Self {
                    weight_ih: Param::new([inputs, width], init()).transposed_in_torch(),
                    weight_hh: Param::new([hidden, width], init()).transposed_in_torch(),
                    bias_ih: Param::new([width], init()),
                    bias_hh: Param::new([width], init()),
                }
            }

            #[track_caller]
            fn gates(&self) -> Gates {
                Gates {
                    weight_ih: self.weight_ih.tensor(),
                    weight_hh: self.weight_hh.tensor(),
                    bias_ih: self.bias_ih.tensor(),
                    bias_hh: self.bias_hh.tensor(),
                }
            }
        }
    )*};
}
layers! {
    /// Long short-term memory (LSTM). See [`Tensor::lstm`].
    Lstm: 4;
    /// Gated recurrent unit (GRU). See [`Tensor::gru`].
    Gru: 3;
}

impl Lstm {
    /// Computes the outputs of all steps, starting from a state of zeros:
    /// `[batch, time, inputs] -> [batch, time, hidden]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        self.gates().lstm(x, None).0
    }

    /// Computes the outputs of all steps, starting from a given state (h, c), both `[batch, hidden]`. Returns
    /// the outputs and the last state.
    #[track_caller]
    pub fn run(&self, x: Tensor, state: (Tensor, Tensor)) -> (Tensor, (Tensor, Tensor)) {
        self.gates().lstm(x, Some(state))
    }
}

impl Gru {
    /// Computes the outputs of all steps, starting from a state of zeros:
    /// `[batch, time, inputs] -> [batch, time, hidden]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        self.gates().gru(x, None).0
    }

    /// Computes the outputs of all steps, starting from a given state `[batch, hidden]`. Returns the outputs
    /// and the last state.
    #[track_caller]
    pub fn run(&self, x: Tensor, state: Tensor) -> (Tensor, Tensor) {
        self.gates().gru(x, Some(state))
    }
}
