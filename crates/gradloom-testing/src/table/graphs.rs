//! Converts instances of the table to graphs that a device can run, forward and backward.

use super::{Case, Instance};
use crate::{Leaves, Random};
use gradloom_core::grad;
use gradloom_core::ir::{Builder, Graph, OpKind, Output, ReduceOp, ValueId};

/// Returns a graph with one instance of a case, and the values of its leaves, which are exact in float32. The
/// outputs are the results, and the gradients of a loss with respect to the floating-point operands. The loss
/// has a separate weight for every element of every result.
///
/// # Panics
/// Panics if the op's gradient rule fails, which is a bug.
pub fn graph_of(case: &Case, seed: u64) -> (Graph, Leaves) {
    let mut random = Random::new(seed);
    let (mut graph, mut leaves) = (Graph::new(), Leaves::random(seed));
    let instance = (case.sample)(&mut random, &mut graph);
    let exact = |v: f64| f64::from(v as f32);
    let mut b = Builder::new(&mut graph, None);
    let (mut operands, mut params) = (Vec::new(), Vec::new());
    for (i, (ty, values)) in instance.operands.iter().enumerate() {
        let name = format!("x{i}");
        let values: Vec<f64> = values.iter().map(|&v| exact(v)).collect();
        leaves = leaves.with(&name, ty.dtype, &ty.shape, &values);
        let (name, ty) = (name.clone(), ty.clone());
        if ty.dtype.is_float() {
            operands.push(b.op(OpKind::Param { name: name.clone(), ty }, &[]));
            params.push((name, operands[i]));
        } else {
            operands.push(b.op(OpKind::Input { name, ty }, &[]));
        }
    }
    let results = b.all(instance.kind.clone(), &operands);
    let loss = loss_of(&mut b, &mut leaves, &mut random, &instance, &results);
    for (i, &value) in results.iter().enumerate() {
        graph.outputs.push(Output { name: format!("y{i}"), value });
    }
    graph.outputs.push(Output { name: "loss".into(), value: loss });
    let wanted: Vec<ValueId> = params.iter().map(|(_, value)| *value).collect();
    let gradients = grad::append(&mut graph, loss, None, &wanted)
        .unwrap_or_else(|error| panic!("{} (seed {seed}): {error}", case.name));
    for ((name, _), gradient) in params.iter().zip(gradients) {
        if let Some(value) = gradient {
            graph.outputs.push(Output { name: format!("d {name}"), value });
        }
    }
    (graph, leaves)
}

/// Returns the sum of the results' elements, each multiplied by a separate weight.
fn loss_of(
    b: &mut Builder<'_>,
    leaves: &mut Leaves,
    random: &mut Random,
    instance: &Instance,
    results: &[ValueId],
) -> ValueId {
    let mut loss = b.number(0.0);
    for (i, &y) in results[..instance.observed(results.len())].iter().enumerate() {
        let ty = b.ty(y);
        if !ty.dtype.is_float() {
            continue;
        }
        let values: Vec<f64> =
            (0..ty.elements()).map(|_| f64::from(random.uniform(-1.0, 1.0) as f32)).collect();
        let name = format!("weights{i}");
        *leaves = leaves.clone().with(&name, ty.dtype, &ty.shape, &values);
        let weights = b.op(OpKind::Input { name, ty }, &[]);
        let product = b.mul(y, weights);
        let axes: Vec<_> = (0..b.shape(y).rank()).collect();
        let sum = b.reduce(ReduceOp::Sum, product, &axes);
        loss = b.add(loss, sum);
    }
    loss
}
