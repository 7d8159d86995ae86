//! Recurrent layers, over [`scan`].

use crate::nn::{Init, Module, Param, Visitor};
use crate::trace::{Tensor, fail_with_help, scan};

/// The projections of a recurrent layer with some gates side by side; they start uniform within
/// ±1/sqrt(hidden), as in PyTorch.
#[derive(Debug)]
struct Gates {
    weight_ih: Param,
    weight_hh: Param,
    bias_ih: Param,
    bias_hh: Param,
}

impl Gates {
    fn new(inputs: usize, hidden: usize, gates: usize) -> Self {
        let bound = 1.0 / (hidden.max(1) as f64).sqrt();
        let init = || Init::Uniform { low: -bound, high: bound };
        let width = hidden.saturating_mul(gates);
        Self {
            weight_ih: Param::new([inputs, width], init()),
            weight_hh: Param::new([hidden, width], init()),
            bias_ih: Param::new([width], init()),
            bias_hh: Param::new([width], init()),
        }
    }

    /// What the gates of all steps see of the input `[batch, time, inputs]`: `[time, batch, width]`. One
    /// product does it for all steps.
    #[track_caller]
    fn of_input(&self, x: Tensor) -> Tensor {
        (x.matmul(&self.weight_ih) + &self.bias_ih).permute([1, 0, 2])
    }

    /// What the gates of a step see of the state `[batch, hidden]`.
    #[track_caller]
    fn of_state(&self, h: Tensor) -> Tensor {
        h.matmul(&self.weight_hh) + &self.bias_hh
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("weight_ih", &self.weight_ih);
        visitor.field("weight_hh", &self.weight_hh);
        visitor.field("bias_ih", &self.bias_ih);
        visitor.field("bias_hh", &self.bias_hh);
    }

    /// Whether x is `[batch, time, inputs]`; if not, that is an error of the layer named `token`.
    #[track_caller]
    fn fits(&self, token: &str, x: Tensor) -> bool {
        let (shape, inputs) = (x.shape(), self.weight_ih.shape()[0]);
        let fits = shape.rank() == 3 && shape[2] == inputs;
        if !fits {
            let help = format!("it takes [batch, time, {inputs}]");
            fail_with_help(token, format!("`{token}` of {shape}"), &help);
        }
        fits
    }
}

/// Zeros `[batch, hidden]` beside `x` `[batch, ..]`.
#[track_caller]
fn zeros(x: Tensor, hidden: usize) -> Tensor {
    crate::trace::full(x.dtype(), [x.shape()[0], hidden], 0.0)
}

/// Long short-term memory: gates i, f, g, o side by side, as in PyTorch; `c' = σ(f) c + σ(i) tanh(g)`,
/// `h' = σ(o) tanh(c')`. Hochreiter and Schmidhuber, 1997; Gers, Schmidhuber, Cummins, 2000.
#[derive(Debug)]
pub struct Lstm {
    gates: Gates,
    /// Width of the state.
    pub hidden: usize,
}

impl Lstm {
    /// Parameters `weight_ih` `[inputs, 4 hidden]`, `weight_hh` `[hidden, 4 hidden]`, `bias_ih` and `bias_hh`
    /// `[4 hidden]`, uniform within ±1/sqrt(hidden), as in PyTorch.
    pub fn new(inputs: usize, hidden: usize) -> Self {
        Self { gates: Gates::new(inputs, hidden, 4), hidden }
    }

    /// The outputs of all steps from a state of zeros: `[batch, time, inputs] -> [batch, time, hidden]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        if !self.gates.fits("lstm", x) {
            return x;
        }
        let start = zeros(x, self.hidden);
        self.run(x, (start, start)).0
    }

    /// The same from a given state (h, c), both `[batch, hidden]`, and the last state.
    #[track_caller]
    pub fn run(&self, x: Tensor, state: (Tensor, Tensor)) -> (Tensor, (Tensor, Tensor)) {
        if !self.gates.fits("lstm", x) {
            return (x, state);
        }
        let time = x.shape()[1];
        let (last, outputs) = scan(time, state, self.gates.of_input(x), |(h, c), seen| {
            let all = seen + self.gates.of_state(h);
            let gate = |i: usize| all.slice(-1, i * self.hidden..(i + 1) * self.hidden);
            let c = gate(1).sigmoid() * c + gate(0).sigmoid() * gate(2).tanh();
            let h = gate(3).sigmoid() * c.tanh();
            ((h, c), h)
        });
        (outputs.permute([1, 0, 2]), last)
    }
}

impl Module for Lstm {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.gates.visit(visitor);
    }
}

/// Gated recurrent unit: gates r, z, n side by side, as in PyTorch; `n = tanh(x_n + σ(r) h_n)`,
/// `h' = (1 - σ(z)) n + σ(z) h`. Cho et al., 2014.
#[derive(Debug)]
pub struct Gru {
    gates: Gates,
    /// Width of the state.
    pub hidden: usize,
}

impl Gru {
    /// Parameters `weight_ih` `[inputs, 3 hidden]`, `weight_hh` `[hidden, 3 hidden]`, `bias_ih` and `bias_hh`
    /// `[3 hidden]`, uniform within ±1/sqrt(hidden), as in PyTorch.
    pub fn new(inputs: usize, hidden: usize) -> Self {
        Self { gates: Gates::new(inputs, hidden, 3), hidden }
    }

    /// The outputs of all steps from a state of zeros: `[batch, time, inputs] -> [batch, time, hidden]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        if !self.gates.fits("gru", x) {
            return x;
        }
        self.run(x, zeros(x, self.hidden)).0
    }

    /// The same from a given state `[batch, hidden]`, and the last state.
    #[track_caller]
    pub fn run(&self, x: Tensor, state: Tensor) -> (Tensor, Tensor) {
        if !self.gates.fits("gru", x) {
            return (x, state);
        }
        let time = x.shape()[1];
        let (last, outputs) = scan(time, state, self.gates.of_input(x), |h, seen| {
            let own = self.gates.of_state(h);
            let gate = |of: Tensor, i: usize| of.slice(-1, i * self.hidden..(i + 1) * self.hidden);
            let [reset, keep] = [0, 1].map(|i| (gate(seen, i) + gate(own, i)).sigmoid());
            let new = (gate(seen, 2) + reset * gate(own, 2)).tanh();
            let h = new + keep * (h - new);
            (h, h)
        });
        (outputs.permute([1, 0, 2]), last)
    }
}

impl Module for Gru {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.gates.visit(visitor);
    }
}
