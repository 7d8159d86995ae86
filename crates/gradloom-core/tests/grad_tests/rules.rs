//! Compares every gradient rule with central differences of the f64 reference, on random shapes, away from
//! kinks and ties.

use crate::leaves::Leaves;
use crate::random::Random;
use gradloom_core::grad::{Differentiability, append, differentiability};
use gradloom_core::ir::{Builder, Graph, OpKind, Output, ReduceOp, Type, ValueId};
use gradloom_core::reference::{HostData, HostTensor};
use gradloom_testing::table::{CASES, Instance, NOT_DIFFERENTIABLE, samples};
use std::collections::BTreeSet;

/// Number of random instances of each case.
const INSTANCES: u64 = 24;

/// Appends the sum over the elements of all float results, each multiplied by a random weight so that every
/// element matters.
fn loss_of(b: &mut Builder<'_>, leaves: &mut Leaves, random: &mut Random, results: &[ValueId]) -> ValueId {
    let mut loss = b.number(0.0);
    for (i, &y) in
        results.iter().enumerate().filter(|(_, y)| b.graph.ty(**y).dtype.is_float()).collect::<Vec<_>>()
    {
        let ty = b.ty(y);
        let values: Vec<_> = (0..ty.elements()).map(|_| random.uniform(-1.0, 1.0)).collect();
        let weights = leaves.input(b, &format!("weights{i}"), ty, &values);
        let product = b.mul(y, weights);
        let axes: Vec<_> = (0..b.shape(y).rank()).collect();
        let sum = b.reduce(ReduceOp::Sum, product, &axes);
        loss = b.add(loss, sum);
    }
    b.graph.outputs.push(Output { name: "loss".into(), value: loss });
    loss
}

/// Returns the five-point central difference of the loss with respect to one element. Its error is of fourth
/// order.
fn difference(graph: &Graph, leaves: &Leaves, name: &str, element: usize) -> f64 {
    const STEP: f64 = 1e-3;
    let at = |offset: f64| {
        let mut moved = leaves.clone();
        let tensor = moved.0.get_mut(name).unwrap();
        let HostData::Float(values) = &mut tensor.data else { panic!("{name} is not a float") };
        values[element] += offset * STEP;
        moved.run(graph).output("loss").unwrap().to_f64()[0]
    };
    (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * STEP)
}

/// Compares the gradients of the given parameters with central differences.
fn check(name: &str, graph: &Graph, leaves: &Leaves, loss: ValueId, params: &[(String, ValueId)]) {
    let mut backward = graph.clone();
    let wrt: Vec<_> = params.iter().map(|p| p.1).collect();
    let gradients = append(&mut backward, loss, None, &wrt).unwrap_or_else(|e| panic!("{name}: {e}"));
    for ((param, value), gradient) in params.iter().zip(&gradients) {
        let Some(gradient) = *gradient else {
            // A loop without iterations does not read its stacked operands, which have no elements and no
            // gradient.
            assert_eq!(graph.ty(*value).elements(), 0, "{name}: no gradient for {param}\n{backward}");
            continue;
        };
        assert_eq!(backward.ty(gradient), graph.ty(*value), "{name}: type of the gradient of {param}");
        backward.outputs.push(Output { name: format!("d {param}"), value: gradient });
    }
    let results = leaves.run(&backward);
    for (param, _) in params {
        let Some(gradient) = results.output(&format!("d {param}")) else { continue };
        let gradient = gradient.to_f64();
        for (element, got) in gradient.into_iter().enumerate() {
            let want = difference(graph, leaves, param, element);
            let tolerance = 1e-6 * got.abs().max(want.abs()).max(1e-2);
            assert!(
                (got - want).abs() <= tolerance,
                "{name}: d loss / d {param}[{element}] is {got}, differences give {want}\n{backward}"
            );
        }
    }
}

/// Builds the op of an instance with leaves as operands. Operands whose gradients are checked are parameters.
fn build(
    graph: &mut Graph,
    leaves: &mut Leaves,
    instance: &Instance,
) -> (Vec<(String, ValueId)>, Vec<ValueId>) {
    let mut b = Builder::new(graph, None);
    let mut params = Vec::new();
    let mut operands = Vec::new();
    for (i, (ty, values)) in instance.operands.iter().enumerate() {
        let name = format!("x{i}");
        if ty.dtype.is_float() {
            operands.push(leaves.param(&mut b, &name, &ty.shape, values));
            params.push((name, operands[i]));
        } else {
            operands.push(leaves.input(&mut b, &name, ty.clone(), values));
        }
    }
    let results = b.all(instance.kind.clone(), &operands);
    (params, results)
}

#[test]
fn every_rule_matches_central_differences() {
    for case in CASES {
        let mut compared = 0;
        for seed in 0..INSTANCES {
            let mut random = Random::new(seed);
            let (mut graph, mut leaves) = (Graph::new(), Leaves::default());
            let instance = (case.sample)(&mut random, &mut graph);
            assert_eq!(instance.kind.name(), case.name);
            assert_eq!(differentiability(&instance.kind), Differentiability::Flows, "{}", case.name);
            let (params, results) = build(&mut graph, &mut leaves, &instance);
            let mut b = Builder::new(&mut graph, None);
            let loss =
                loss_of(&mut b, &mut leaves, &mut random, &results[..instance.observed(results.len())]);
            check(&format!("{} (seed {seed})", case.name), &graph, &leaves, loss, &params);
            compared += instance
                .operands
                .iter()
                .filter(|(ty, _)| ty.dtype.is_float())
                .map(|(_, v)| v.len())
                .sum::<usize>();
        }
        assert!(compared >= 40, "{}: only {compared} elements were compared", case.name);
    }
}

#[test]
fn a_gradient_for_one_operand_alone_is_the_same() {
    for case in CASES {
        let mut random = Random::new(5);
        let (mut graph, mut leaves) = (Graph::new(), Leaves::default());
        let instance = (case.sample)(&mut random, &mut graph);
        let (params, results) = build(&mut graph, &mut leaves, &instance);
        let mut b = Builder::new(&mut graph, None);
        let loss = loss_of(&mut b, &mut leaves, &mut random, &results[..instance.observed(results.len())]);
        let wrt: Vec<_> = params.iter().map(|p| p.1).collect();
        let values = |wrt: &[ValueId]| -> Vec<HostTensor> {
            let mut graph = graph.clone();
            for (i, gradient) in append(&mut graph, loss, None, wrt).unwrap().into_iter().enumerate() {
                graph.outputs.push(Output { name: i.to_string(), value: gradient.unwrap() });
            }
            leaves.run(&graph).outputs.into_iter().skip(1).map(|(_, tensor)| tensor).collect()
        };
        let together = values(&wrt);
        for (i, &param) in wrt.iter().enumerate() {
            assert_eq!(values(&[param]), together[i..=i], "{}: operand {i}", case.name);
        }
    }
}

/// Returns a distinct index for each variant of [`OpKind`]. A new variant must be added here, to `samples`,
/// and to the table of cases or the list of non-differentiable ops.
fn position(kind: &OpKind) -> usize {
    match kind {
        OpKind::Input { .. } => 0,
        OpKind::Param { .. } => 1,
        OpKind::State { .. } => 2,
        OpKind::Scalar { .. } => 3,
        OpKind::Constant { .. } => 4,
        OpKind::Iota { .. } => 5,
        OpKind::RandomBits { .. } => 6,
        OpKind::Unary(_) => 7,
        OpKind::Binary(_) => 8,
        OpKind::Compare(_) => 9,
        OpKind::Select => 10,
        OpKind::Cast { .. } => 11,
        OpKind::Reduce { .. } => 12,
        OpKind::ArgReduce { .. } => 13,
        OpKind::Reshape { .. } => 14,
        OpKind::Permute { .. } => 15,
        OpKind::Broadcast { .. } => 16,
        OpKind::Slice { .. } => 17,
        OpKind::Pad { .. } => 18,
        OpKind::Concat { .. } => 19,
        OpKind::DynamicSlice { .. } => 20,
        OpKind::DynamicUpdateSlice => 21,
        OpKind::Dot(_) => 22,
        OpKind::Gather { .. } => 23,
        OpKind::Scatter { .. } => 24,
        OpKind::Attention(_) => 25,
        OpKind::AttentionGrad(_) => 26,
        OpKind::Repeat { .. } => 27,
        OpKind::Checkpoint { .. } => 28,
        OpKind::Custom(_) => 29,
        OpKind::Barrier => 30,
        OpKind::Composite(_) => 31,
        OpKind::Windows { .. } => 32,
        OpKind::Conv(_) => 33,
        OpKind::Cumulate { .. } => 34,
        OpKind::Sort { .. } => 35,
        OpKind::Words => 36,
        OpKind::Dequantize { .. } => 37,
        OpKind::Collective { .. } => 38,
    }
}
const VARIANTS: usize = 39;

#[test]
fn every_primitive_is_tested_or_listed_as_not_differentiable() {
    let mut graph = Graph::new();
    let samples = samples(&mut graph);
    let positions: BTreeSet<_> = samples.iter().map(position).collect();
    assert_eq!(positions, (0..VARIANTS).collect(), "samples() lacks a variant of OpKind");
    let tested: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
    let not: BTreeSet<_> = NOT_DIFFERENTIABLE.iter().copied().collect();
    assert_eq!(tested.intersection(&not).count(), 0);
    let names: BTreeSet<_> = samples.iter().map(|kind| kind.name()).collect();
    let known: BTreeSet<_> = tested.union(&not).copied().collect();
    let missing: Vec<_> = names.difference(&known).collect();
    assert!(missing.is_empty(), "no case in `gradloom-testing/src/table` for {missing:?}");
    let unknown: Vec<_> = known.difference(&names).collect();
    assert!(unknown.is_empty(), "cases in `gradloom-testing/src/table` of no primitive: {unknown:?}");
    for kind in samples {
        let flows = differentiability(&kind) == Differentiability::Flows;
        assert_eq!(flows, tested.contains(kind.name()), "{}", kind.name());
    }
}

#[test]
fn the_seed_scales_the_gradient() {
    let (mut graph, mut leaves) = (Graph::new(), Leaves::default());
    let mut b = Builder::new(&mut graph, None);
    let x = leaves.param(&mut b, "x", &[3], &[1.0, -2.0, 0.5]);
    let y = b.mul(x, x);
    let loss = b.reduce(ReduceOp::Sum, y, &[0]);
    let scale = leaves.input(&mut b, "scale", Type::scalar(gradloom_core::ir::DType::F32), &[1024.0]);
    let gradient = append(&mut graph, loss, Some(scale), &[x]).unwrap()[0].unwrap();
    graph.outputs.push(Output { name: "dx".into(), value: gradient });
    assert_eq!(leaves.run(&graph).output("dx").unwrap().to_f64(), [2048.0, -4096.0, 1024.0]);
}

/// Checks values with several consumers at several depths, and a softmax cross-entropy after layer
/// normalization.
#[test]
fn compositions_match_central_differences() {
    use gradloom_core::ir::{DType, DotAxes, UnaryOp};
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let mut numbers = |n: usize| (0..n).map(|_| random.uniform(-1.0, 1.0)).collect::<Vec<_>>();
        let (mut graph, mut leaves) = (Graph::new(), Leaves::default());
        let mut b = Builder::new(&mut graph, None);
        let x = leaves.param(&mut b, "x", &[4, 3], &numbers(12));
        let w = leaves.param(&mut b, "w", &[3, 5], &numbers(15));
        let targets = leaves.input(&mut b, "targets", Type::new(DType::I32, [4, 1]), &[0.0, 4.0, 2.0, 2.0]);

        // Layer normalization, in which x is read three times.
        let mean = b.reduce_keep(ReduceOp::Sum, x, &[1]);
        let mean = b.mul_number(mean, 1.0 / 3.0);
        let shape = b.shape(x);
        let mean = b.broadcast(mean, &shape);
        let centred = b.sub(x, mean);
        let square = b.mul(centred, centred);
        let variance = b.reduce_keep(ReduceOp::Sum, square, &[1]);
        let variance = b.add_number(variance, 0.1);
        let inverse = b.unary(UnaryOp::Rsqrt, variance);
        let inverse = b.broadcast(inverse, &shape);
        let normal = b.mul(centred, inverse);
        // w is read twice: by this product, and transposed by the next one.
        let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![0], ..DotAxes::default() };
        let scores = b.dot(normal, w, axes.clone());
        let gram = b.dot(scores, w, DotAxes { lhs_contract: vec![1], rhs_contract: vec![1], ..axes });
        let energy = b.mul(gram, x);
        let energy = b.reduce(ReduceOp::Sum, energy, &[0, 1]);
        // Cross-entropy. The maximum is only a shift and is detached.
        let shape = b.shape(scores);
        let top = b.reduce_keep(ReduceOp::Max, scores, &[1]);
        let top = b.unary(UnaryOp::Detach, top);
        let top = b.broadcast(top, &shape);
        let shifted = b.sub(scores, top);
        let exp = b.unary(UnaryOp::Exp, shifted);
        let total = b.reduce(ReduceOp::Sum, exp, &[1]);
        let log_total = b.unary(UnaryOp::Log, total);
        let chosen = b.op(OpKind::Gather { batch: 1 }, &[shifted, targets]);
        let chosen = b.reshape(chosen, [4]);
        let rows = b.sub(log_total, chosen);
        let entropy = b.reduce(ReduceOp::Sum, rows, &[0]);
        let loss = b.add(energy, entropy);
        graph.outputs.push(Output { name: "loss".into(), value: loss });
        check("composition", &graph, &leaves, loss, &[("x".into(), x), ("w".into(), w)]);
    }
}
