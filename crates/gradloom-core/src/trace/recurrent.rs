//! LSTM and GRU, implemented with [`scan`].

use super::tensor::refused;
use super::{Tensor, full, op, scan, within};

/// Weights `[inputs, gates · hidden]` and `[hidden, gates · hidden]` and biases `[gates · hidden]` of a
/// recurrent function. The gates are adjacent along the last axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gates {
    pub(crate) weight_ih: Tensor,
    pub(crate) weight_hh: Tensor,
    pub(crate) bias_ih: Tensor,
    pub(crate) bias_hh: Tensor,
}

impl Gates {
    /// Returns the width of the state, for the function named `token`, which has `gates` gates. Returns
    /// `None` after an error if a shape does not match.
    #[track_caller]
    fn hidden(&self, token: &str, x: Tensor, gates: usize) -> Option<usize> {
        let (shape, ih, hh) = (x.shape(), self.weight_ih.shape(), self.weight_hh.shape());
        let biases = [self.bias_ih.shape(), self.bias_hh.shape()];
        let fits = shape.rank() == 3
            && hh.rank() == 2
            && hh[1] == hh[0] * gates
            && ih[..] == [shape[2], hh[1]]
            && biases.iter().all(|bias| bias[..] == [hh[1]]);
        if fits {
            return Some(hh[0]);
        }
        let message = format!(
            "`{token}` of {shape} with weights {ih} and {hh}, biases {} and {}",
            biases[0], biases[1]
        );
        let help = format!(
            "x is [batch, time, inputs], the weights [inputs, {gates} hidden] and [hidden, {gates} hidden], the \
             biases [{gates} hidden]"
        );
        refused(token, message, help, None)
    }

    /// Computes the contribution of the input and a bias to the gates of all steps,
    /// `[time, batch, gates · hidden]`, in one matrix product.
    #[track_caller]
    fn of_input(&self, x: Tensor, bias: Tensor) -> Tensor {
        (x.matmul(self.weight_ih) + bias).permute([1, 0, 2])
    }

    /// Computes the outputs `[batch, time, hidden]` of an LSTM and its last state (h, c). The initial state
    /// is zero unless given.
    #[track_caller]
    pub(crate) fn lstm(&self, x: Tensor, state: Option<(Tensor, Tensor)>) -> (Tensor, (Tensor, Tensor)) {
        let _place = within();
        let Some(hidden) = self.hidden("lstm", x, 4) else { return (x, (x, x)) };
        let state = state.unwrap_or_else(|| (zeros(x, hidden), zeros(x, hidden)));
        // Add both biases here, for all steps in one op.
        let seen = self.of_input(x, self.bias_ih + self.bias_hh);
        let (last, outputs) = scan(x.shape()[1], state, seen, |(h, c), seen| {
            let all = seen + h.matmul(self.weight_hh);
            let gate = |i: usize| all.slice(-1, i * hidden..(i + 1) * hidden);
            let c = gate(1).sigmoid() * c + gate(0).sigmoid() * gate(2).tanh();
            let h = gate(3).sigmoid() * c.tanh();
            ((h, c), h)
        });
        (outputs.permute([1, 0, 2]), last)
    }

    /// Computes the outputs `[batch, time, hidden]` of a GRU and its last state. The initial state is zero
    /// unless given.
    #[track_caller]
    pub(crate) fn gru(&self, x: Tensor, state: Option<Tensor>) -> (Tensor, Tensor) {
        let _place = within();
        let Some(hidden) = self.hidden("gru", x, 3) else { return (x, x) };
        let state = state.unwrap_or_else(|| zeros(x, hidden));
        let (last, outputs) = scan(x.shape()[1], state, self.of_input(x, self.bias_ih), |h, seen| {
            let own = h.matmul(self.weight_hh) + self.bias_hh;
            let gate = |of: Tensor, i: usize| of.slice(-1, i * hidden..(i + 1) * hidden);
            let open = |i| (gate(seen, i) + gate(own, i)).sigmoid();
            let (reset, keep) = (open(0), open(1));
            let new = (gate(seen, 2) + reset * gate(own, 2)).tanh();
            let h = new + keep * (h - new);
            (h, h)
        });
        (outputs.permute([1, 0, 2]), last)
    }
}

/// Returns zeros `[batch, hidden]` with the batch and dtype of `x` `[batch, ..]`.
#[track_caller]
fn zeros(x: Tensor, hidden: usize) -> Tensor {
    full(x.dtype(), [x.shape()[0], hidden], 0.0)
}

impl Tensor {
    /// Applies a long short-term memory (LSTM), starting from a state of zeros: f32 `[batch, time, inputs]`
    /// becomes `[batch, time, hidden]`, with weights `[inputs, 4 hidden]` and `[hidden, 4 hidden]` and biases
    /// `[4 hidden]`. As in PyTorch, the gates are ordered i, f, g, o: `c' = σ(f) c + σ(i) tanh(g)`,
    /// `h' = σ(o) tanh(c')`. Hochreiter and Schmidhuber, 1997; Gers, Schmidhuber, Cummins, 2000.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let zero = |shape: [usize; 2]| full(DType::F32, shape, 0.0);
    ///     let bias = full(DType::F32, [4], 0.0);
    ///     literal(&[1.0, 2.0], [1, 2, 1]).lstm(zero([1, 4]), zero([1, 4]), bias, bias)
    /// });
    /// assert_eq!(y, [0.0, 0.0]);
    /// ```
    #[op]
    pub fn lstm(self, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor) -> Tensor {
        Gates { weight_ih, weight_hh, bias_ih, bias_hh }.lstm(self, None).0
    }

    /// Applies a gated recurrent unit (GRU), starting from a state of zeros: f32 `[batch, time, inputs]`
    /// becomes `[batch, time, hidden]`, with weights `[inputs, 3 hidden]` and `[hidden, 3 hidden]` and biases
    /// `[3 hidden]`. As in PyTorch, the gates are ordered r, z, n: `n = tanh(x_n + σ(r) h_n)`,
    /// `h' = (1 - σ(z)) n + σ(z) h`. Cho et al., 2014.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let zero = |shape: [usize; 2]| full(DType::F32, shape, 0.0);
    ///     let bias = full(DType::F32, [3], 0.0);
    ///     literal(&[1.0, 2.0], [1, 2, 1]).gru(zero([1, 3]), zero([1, 3]), bias, bias)
    /// });
    /// assert_eq!(y, [0.0, 0.0]);
    /// ```
    #[op]
    pub fn gru(self, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor) -> Tensor {
        Gates { weight_ih, weight_hh, bias_ih, bias_hh }.gru(self, None).0
    }
}
