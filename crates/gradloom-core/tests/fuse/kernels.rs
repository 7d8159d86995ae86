//! Kernels that the general rules form. The tests also evaluate the kernels of every graph in f64.

use super::{fused, graph, meaning};
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{Graph, Output};
use gradloom_core::kernel::{Body, Kernel, Level, NodeKind, Store};
use gradloom_core::nn::{LayerNorm, Linear};
use gradloom_core::passes;
use gradloom_core::trace::{Input, Tensor, f32, gradients, i32, trace};

/// Returns a traced graph after the passes, with its results as outputs.
fn traced(inputs: &[Input], build: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Graph {
    traced_with(&(), inputs, build)
}

fn traced_with(
    model: &dyn gradloom_core::nn::Module,
    inputs: &[Input],
    build: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
) -> Graph {
    let traced = trace(model, inputs, true, |x| build(x), |results| results).unwrap();
    let mut graph = traced.graph;
    for (i, value) in traced.results.into_iter().enumerate() {
        graph.outputs.push(Output { name: format!("y{i}"), value });
    }
    passes::run(graph).0
}

/// Returns the names of the kernels in order. The name of a group includes its size.
#[track_caller]
pub(super) fn kernels(graph: &Graph) -> Vec<String> {
    meaning::check(graph, 7);
    let fused = fused(graph, Fusion::On);
    fused
        .kernels
        .iter()
        .map(|spec| match &spec.kernel {
            Kernel::Group(parts) => format!("{} {}s", parts.len(), parts[0].kernel.name()),
            Kernel::Dot { .. } => "dot with epilogue".to_string(),
            kernel => kernel.name().to_string(),
        })
        .collect()
}

pub(super) fn body(graph: &Graph, kernel: usize) -> Body {
    match &fused(graph, Fusion::On).kernels[kernel].kernel {
        Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } => body.clone(),
        other => panic!("{} has no body", other.name()),
    }
}

pub(super) fn loads(body: &Body) -> usize {
    body.nodes.iter().filter(|n| matches!(n.kind, NodeKind::Load(_)) && n.level == Level::Element).count()
}

#[test]
fn layer_norm_is_one_row_kernel_each_way() {
    let norm = LayerNorm::new(32);
    let forward = traced_with(&norm, &[f32("x", [4, 6, 32])], |x| vec![norm.forward(x[0])]);
    assert_eq!(kernels(&forward), ["row"]);
    assert_eq!((body(&forward, 0).rows, body(&forward, 0).columns), (24, 32));

    let both = traced_with(&norm, &[f32("x", [4, 6, 32]), f32("g", [4, 6, 32])], |x| {
        let y = norm.forward(x[0]);
        let [dx, dw, db] = gradients((y * x[1]).sum(), [x[0], norm.weight.tensor(), norm.bias.tensor()]);
        vec![y, dx, dw, db]
    });
    // Nothing separates the forward and backward pass here, so they are one kernel; the gradients of gain and
    // bias are sums over its rows.
    assert_eq!(kernels(&both), ["row"]);
    let body = body(&both, 0);
    assert_eq!(body.stores.iter().filter(|s| matches!(s, Store::ColumnReduce { .. })).count(), 2);
    assert!(loads(&body) <= 4, "x, g, gain and bias:\n{body}");
}

#[test]
fn softmax_and_cross_entropy_are_one_row_kernel_each_way() {
    let softmax = traced(&[f32("x", [10, 20]), f32("g", [10, 20])], |x| {
        let y = x[0].softmax(-1);
        let [dx] = gradients((y * x[1]).sum(), [x[0]]);
        vec![y, dx]
    });
    assert_eq!(kernels(&softmax), ["row"]);

    let loss = traced(&[f32("x", [10, 20]), i32("t", [10])], |x| {
        // A map precedes the loss, instead of a model's product.
        let logits = x[0] * 2.0;
        let loss = logits.cross_entropy(x[1]);
        let [dx] = gradients(loss, [x[0]]);
        vec![loss, dx]
    });
    assert_eq!(kernels(&loss), ["row", "reduce"]);
    let body = body(&loss, 0);
    assert!(body.can_trap(), "a target may be out of range:\n{body}");
    assert_eq!(loads(&body), 1, "only the logits:\n{body}");
}

#[test]
fn a_product_takes_bias_activation_and_residual() {
    let first = Linear::new(8, 16);
    let graph = traced_with(&first, &[f32("x", [6, 8]), f32("r", [6, 16])], |x| {
        vec![first.forward(x[0]).gelu_tanh() + x[1]]
    });
    assert_eq!(kernels(&graph), ["dot with epilogue"]);
}

#[test]
fn the_backward_pass_computes_the_activation_again_from_one_stored_value() {
    let first = Linear::new(8, 16);
    let second = Linear::new(16, 4);
    let model = (first, second);
    let graph = traced_with(&Pair(&model.0, &model.1), &[f32("x", [6, 8])], |x| {
        let y = model.1.forward(model.0.forward(x[0]).gelu_tanh());
        let [dw, db] =
            gradients(y.square().sum(), [model.0.weight.tensor(), model.0.bias.as_ref().unwrap().tensor()]);
        vec![dw, db]
    });
    let names = kernels(&graph);
    assert_eq!(names, ["dot with epilogue", "dot with epilogue", "dot with epilogue", "dot"], "{graph}");
    // The first kernel stores the activation, and the value from which its gradient is computed.
    assert_eq!(body(&graph, 0).stores.len(), 2, "{}", body(&graph, 0));
    assert_eq!(loads(&body(&graph, 2)), 1, "{}", body(&graph, 2));
    assert!(
        body(&graph, 2).stores.iter().any(|s| matches!(s, Store::ColumnReduce { .. })),
        "the bias' gradient"
    );
}

struct Pair<'a>(&'a Linear, &'a Linear);

impl gradloom_core::nn::Module for Pair<'_> {
    fn visit(&self, visitor: &mut gradloom_core::nn::Visitor<'_>) {
        visitor.field("first", self.0);
        visitor.field("second", self.1);
    }
}

#[test]
fn views_cost_nothing_unless_they_cannot_be_strides() {
    let graph = graph(
        r#"
        %0: f32[4, 6] = input "x"
        %1: f32[6, 4] = permute %0 {perm=[1, 0]}
        %2: f32[24] = reshape %1
        %3: f32[24] = exp %2
        %4: f32[8, 3] = reshape %3
        %5: f32[4, 3] = slice %4 {start=[0, 0], limit=[8, 3], step=[2, 1]}
        %6: f32[4, 3] = neg %5
        output "y" %6"#,
    );
    assert_eq!(kernels(&graph), ["map", "map"]);
}

#[test]
fn independent_updates_are_one_launch() {
    let graph = graph(
        r#"
        %0: f32[5] = param "a"
        %1: f32[2, 3] = param "b"
        %2: f32[5] = input "da"
        %3: f32[2, 3] = input "db"
        %4: f32[5] = sub %0, %2
        %5: f32[2, 3] = sub %1, %3
        update %0 <- %4
        update %1 <- %5"#,
    );
    assert_eq!(kernels(&graph), ["2 maps"]);
}

#[test]
fn the_norm_of_many_values_is_two_launches() {
    let graph = traced(&[f32("a", [5]), f32("b", [2, 3]), f32("c", [1])], |x| {
        let square = |t: Tensor| t.square().sum().reshape([1]);
        vec![gradloom_core::trace::concat(0, &[square(x[0]), square(x[1]), square(x[2])]).sum().sqrt()]
    });
    let names = kernels(&graph);
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[1], "reduce");
}

#[test]
fn a_long_sum_is_left_to_many_tasks() {
    let graph = traced(&[f32("x", [300, 100])], |x| vec![x[0].square().sum()]);
    assert_eq!(kernels(&graph), ["reduce"]);
    let body = body(&graph, 0);
    assert_eq!((body.rows, body.columns), (30_000, 1));
    assert!(matches!(body.stores[..], [Store::ColumnReduce { .. }]), "{body}");
    assert_eq!(loads(&body), 1, "an element for each position:\n{body}");
}

/// Checks that a single long row is not split, which would separate the exponentials from their sum.
#[test]
fn the_softmax_of_a_single_row_of_thousands_is_one_kernel() {
    for columns in [1, 2_000, 10_000] {
        let graph = traced(&[f32("x", [1, columns])], |x| vec![x[0].softmax(-1)]);
        assert_eq!(kernels(&graph).len(), 1, "{columns} columns: {:?}", kernels(&graph));
    }
}

#[test]
fn what_stands_between_two_kernels_keeps_them_apart() {
    // The sum needs the product, which needs the exponential: the two maps cannot be one kernel.
    let graph = graph(
        r#"
        %0: f32[4, 4] = input "x"
        %1: f32[4, 4] = exp %0
        %2: f32[4, 4] = dot %1, %1 {lhs_contract=[1], rhs_contract=[0]}
        %3: f32[4, 4] = add %1, %2
        output "y" %3"#,
    );
    assert_eq!(kernels(&graph), ["map", "dot with epilogue"]);
}

#[test]
fn fusion_can_be_switched_off() {
    let norm = LayerNorm::new(32);
    let graph = traced_with(&norm, &[f32("x", [4, 32])], |x| vec![norm.forward(x[0])]);
    let kernels = fused(&graph, Fusion::Off).kernels;
    let ops = |body: &Body| body.nodes.iter().filter(|node| !node.kind.operands().is_empty()).count();
    let is_single = |kernel: &Kernel| kernel.body().is_none_or(|body| ops(body) + body.stores.len() <= 2);
    assert!(kernels.len() > 8 && kernels.iter().all(|spec| is_single(&spec.kernel)));
}

#[test]
fn axes_of_extent_1_do_not_stand_in_the_way_of_a_reduction() {
    let graph = traced(&[f32("x", [1, 8, 4]), f32("y", [5, 1, 6])], |x| {
        vec![x[0].square().sum_axes(1), x[1].square().sum_axes(2), x[1].square().sum_axes(0)]
    });
    let names = kernels(&graph);
    assert!(names.iter().all(|name| name == "reduce"), "{names:?}");
    let middle = traced(&[f32("x", [3, 8, 4])], |x| vec![x[0].square().sum_axes(1)]);
    assert_eq!(kernels(&middle), ["map", "reduce"]);
}

#[test]
fn bools_are_gathered_and_not_summed() {
    let graph = graph(
        r#"
        %0: f32[5, 6] = input "x"
        %1: i32[5] = input "t"
        %2: f32[5, 6] = constant 0.5
        %3: bool[5, 6] = lt %2, %0
        %4: bool[5] = gather %3, %1 {batch=1}
        output "y" %4"#,
    );
    assert_eq!(kernels(&graph), ["map", "gather"]);
}

#[test]
fn an_update_stays_out_of_a_group_that_reads_what_it_overwrites() {
    // The second update reads the target of the first one in another order, so one launch could not write it
    // in place.
    let graph = graph(
        r#"
        %0: f32[4, 4] = param "w"
        %1: f32[4, 4] = state "average" {init=0.0}
        %2: f32[4, 4] = input "g"
        %3: f32[4, 4] = sub %0, %2
        %4: f32[4, 4] = permute %0 {perm=[1, 0]}
        %5: f32[4, 4] = add %1, %4
        update %0 <- %3
        update %1 <- %5"#,
    );
    assert_eq!(kernels(&graph), ["map", "map"]);
}

#[test]
fn what_can_trap_is_not_computed_again_by_updates() {
    let graph = graph(
        r#"
        %0: f32[4, 6] = param "w"
        %1: f32[4, 6] = constant 0.0
        %2: i32[4] = input "t"
        %3: f32[4] = input "g"
        %4: f32[4, 6] = scatter_add %1, %2, %3 {batch=1}
        %5: f32[4] = sum %4 {axes=[1]}
        %6: f32[4, 6] = sub %0, %4
        output "y" %5
        update %0 <- %6"#,
    );
    kernels(&graph);
    assert!(
        fused(&graph, Fusion::On).kernels.iter().all(|kernel| !(kernel.commit && kernel.can_trap(&graph)))
    );
}
