//! A perceptron: linear layers with ReLU between them.
//!
//! In: f32 `[.., first width]`. Out: f32 `[.., last width]`, without a function after the last layer.

use gradloom_core::nn::{Linear, Module};
use gradloom_core::trace::Tensor;

/// Linear layers `widths[0] -> widths[1] -> ..` with biases, and ReLU between them.
#[derive(Debug, Module)]
pub struct Mlp {
    /// First to last.
    pub layers: Vec<Linear>,
}

impl Mlp {
    /// A perceptron of these widths, the inputs' and the outputs' among them. Layers start as [`Linear::new`]
    /// says.
    ///
    /// # Panics
    /// With fewer than two widths.
    #[track_caller]
    pub fn new(widths: &[usize]) -> Self {
        assert!(widths.len() >= 2, "a perceptron has inputs and outputs, got widths {widths:?}");
        Self { layers: widths.windows(2).map(|pair| Linear::new(pair[0], pair[1])).collect() }
    }

    /// `[.., first width] -> [.., last width]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        let (last, inner) = self.layers.split_last().expect("`new` makes a layer at least");
        // No closure: an error in a layer points at the caller's line.
        let mut x = x;
        for layer in inner {
            x = layer.forward(x).relu();
        }
        last.forward(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::nn::Visitor;
    use gradloom_core::trace::{f32, trace};

    #[test]
    fn relu_stands_between_layers_and_not_after_the_last() {
        let model = Mlp::new(&[3, 5, 4, 2]);
        let traced = trace(&model, &[f32("x", [7, 3])], true, |x| model.forward(x[0]), |y| vec![y]).unwrap();
        assert_eq!(traced.graph.ty(traced.results[0]).shape.to_vec(), [7, 2]);
        let count = |name| traced.graph.entry_ops().filter(|(_, op)| op.kind.name() == name).count();
        assert_eq!((count("dot"), count("max") + count("select")), (3, 2));
        let mut names = Vec::new();
        model.visit(&mut Visitor::new(&mut |name, _| names.push(name.to_string())));
        let layer = |i| [format!("layers.{i}.weight"), format!("layers.{i}.bias")];
        assert_eq!(names, (0..3).flat_map(layer).collect::<Vec<_>>());
    }
}
