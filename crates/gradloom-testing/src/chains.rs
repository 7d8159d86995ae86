//! Builds long chains of elementwise functions, and their gradients. Random graphs are too short to find
//! errors in them.
//!
//! In: a function, a length, a number of elements. Out: a graph that applies the function `length` times to a
//! vector `x`, with the outputs `y` and `dx`, the gradient of the sum of `y`. Invariant: each step is a
//! contraction, so that float32 stays close to float64 for any length.

use gradloom_core::error::Result;
use gradloom_core::ir::{Graph, Output};
use gradloom_core::trace::{Tensor, f32, gradients, trace};

/// Function of the current value and of `x`.
type Step = fn(Tensor, Tensor) -> Tensor;

/// Functions by name.
pub const CHAINS: [(&str, Step); 12] = [
    ("tanh", |y, x| (y + x).tanh()),
    ("gelu", |y, x| (0.5 * y + x).gelu()),
    ("gelu_tanh", |y, x| (0.5 * y + x).gelu_tanh()),
    ("sigmoid", |y, x| (y + x).sigmoid()),
    ("silu", |y, x| (0.5 * y + x).silu()),
    ("exp", |y, x| (0.5 * x - y).exp()),
    ("log1p", |y, x| (y.abs() + x.square()).log1p()),
    ("sqrt", |y, x| 0.5 * (y.square() + x.square() + 1.0).sqrt()),
    ("rsqrt", |y, x| (y.square() + x.square() + 1.0).rsqrt()),
    ("erf", |y, x| (0.5 * y + x).erf()),
    ("clamp", |y, x| (0.9 * y + x).clamp(-1.0, 1.0)),
    ("div", |y, x| x / (1.0 + y.square())),
];

/// Builds the graph of a chain.
///
/// # Errors
/// Returns an error only if tracing has a bug.
pub fn graph(step: Step, length: usize, elements: usize) -> Result<Graph> {
    let chain = |x: &[Tensor]| {
        let y = (0..length).fold(x[0], |y, _| step(y, x[0]));
        let [dx] = gradients(y.sum(), [x[0]]);
        [y, dx]
    };
    let mut traced = trace(&(), &[f32("x", [elements])], false, chain, |both| both.to_vec())?;
    for (name, &value) in ["y", "dx"].into_iter().zip(&traced.results) {
        traced.graph.outputs.push(Output { name: name.into(), value });
    }
    Ok(traced.graph)
}

/// Returns element `i` of the vector `x`: a pseudorandom number in `[-1, 1)` that is exact in float32.
pub fn element(i: usize) -> f32 {
    let mixed = (i as u32).wrapping_mul(0x9e37_79b9) >> 9;
    mixed as f32 / 4_194_304.0 - 1.0
}
