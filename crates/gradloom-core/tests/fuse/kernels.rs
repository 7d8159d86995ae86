//! Which kernels the general rules find. Every graph's kernels are evaluated in float64, too.

use super::{fused, graph, meaning};
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{Graph, Output};
use gradloom_core::kernel::{Body, Kernel, Level, NodeKind, Store};
use gradloom_core::nn::{LayerNorm, Linear};
use gradloom_core::passes;
use gradloom_core::trace::{Input, Tensor, f32, gradients, i32, trace};

/// A traced graph after the passes, whose results are outputs.
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

/// Names of the kernels, in order; groups with their size.
#[track_caller]
fn kernels(graph: &Graph) -> Vec<String> {
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

fn body(graph: &Graph, kernel: usize) -> Body {
    match &fused(graph, Fusion::On).kernels[kernel].kernel {
        Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } => body.clone(),
        other => panic!("{} has no body", other.name()),
    }
}

fn loads(body: &Body) -> usize {
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
    // Nothing stands between the two ways here, so that they are one; gradients of gain and bias are sums over its rows.
    assert_eq!(kernels(&both), ["row"]);
    let body = body(&both, 0);
    assert_eq!(body.stores.iter().filter(|s| matches!(s, Store::Columns { .. })).count(), 2);
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
        // A map before it, as a product would be in a model.
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
    // The activation, and what its gradient follows from.
    assert_eq!(body(&graph, 0).stores.len(), 2, "{}", body(&graph, 0));
    assert_eq!(loads(&body(&graph, 2)), 1, "{}", body(&graph, 2));
    assert!(body(&graph, 2).stores.iter().any(|s| matches!(s, Store::Columns { .. })), "the bias' gradient");
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
    assert!(matches!(body.stores[..], [Store::Columns { .. }]), "{body}");
    assert_eq!(loads(&body), 1, "an element for each position:\n{body}");
}

/// Splitting it would take its exponentials apart from its sum.
#[test]
fn the_softmax_of_a_single_row_of_thousands_is_one_kernel() {
    for columns in [1, 2_000, 10_000] {
        let graph = traced(&[f32("x", [1, columns])], |x| vec![x[0].softmax(-1)]);
        assert_eq!(kernels(&graph).len(), 1, "{columns} columns: {:?}", kernels(&graph));
    }
}

#[test]
fn what_stands_between_two_kernels_keeps_them_apart() {
    // The sum needs the product, which needs the map: the two maps cannot be one kernel.
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
    assert!(kernels.len() > 8 && kernels.iter().all(|k| matches!(k.kernel, Kernel::Op(_))));
}

#[test]
fn axes_of_extent_1_do_not_stand_in_the_way_of_a_reduction() {
    let graph = traced(&[f32("x", [1, 8, 4]), f32("y", [5, 1, 6])], |x| {
        vec![x[0].square().sum_axes(1), x[1].square().sum_axes(2), x[1].square().sum_axes(0)]
    });
    let names = kernels(&graph);
    assert!(names.iter().all(|name| name == "reduce"), "{names:?}");
    let middle = traced(&[f32("x", [3, 8, 4])], |x| vec![x[0].square().sum_axes(1)]);
    assert_eq!(kernels(&middle), ["map", "sum"]);
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
    // The second reads the first's target in another order: one launch could not write it in place.
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

/// Three products of `left` and `right` operands by number, as in `dot %3, %4`, over four square leaves.
fn products(operands: [[usize; 2]; 3]) -> Graph {
    let mut text: String = (0..4).map(|i| format!("%{i}: f32[4, 4] = input \"x{i}\"\n")).collect();
    for (i, [left, right]) in operands.into_iter().enumerate() {
        let number = 4 + i;
        text +=
            &format!("%{number}: f32[4, 4] = dot %{left}, %{right} {{lhs_contract=[1], rhs_contract=[0]}}\n");
    }
    text += "output \"a\" %4\noutput \"b\" %5\noutput \"c\" %6";
    graph(&text)
}

#[test]
fn products_that_share_an_operand_are_one_launch() {
    assert_eq!(kernels(&products([[0, 1], [0, 2], [0, 3]])), ["3 dots"], "the left one, as of q, k and v");
    assert_eq!(kernels(&products([[1, 0], [2, 0], [3, 0]])), ["3 dots"], "the right one");
    assert_eq!(
        kernels(&products([[0, 1], [2, 3], [0, 2]])),
        ["dot", "dot", "dot"],
        "no neighbours share one"
    );
    assert_eq!(
        kernels(&products([[0, 1], [1, 2], [2, 3]])),
        ["dot", "dot", "dot"],
        "shared, but not on one side"
    );
    assert_eq!(kernels(&products([[0, 1], [0, 2], [0, 5]])), ["2 dots", "dot"], "the last needs the second");
    assert_eq!(kernels(&products([[0, 1], [0, 4], [0, 2]])), ["dot", "2 dots"], "the second needs the first");
}

#[test]
fn products_of_the_step_and_of_its_updates_are_apart() {
    let graph = graph(
        r#"
        %0: f32[4, 4] = state "s" {init=1.0}
        %1: f32[4, 4] = input "x"
        %2: f32[4, 4] = dot %1, %0 {lhs_contract=[1], rhs_contract=[0]}
        %3: f32[4, 4] = dot %1, %1 {lhs_contract=[1], rhs_contract=[0]}
        output "y" %2
        update %0 <- %3"#,
    );
    assert_eq!(kernels(&graph), ["dot", "dot"]);
}

#[test]
fn a_table_of_constants_is_a_kernel_of_its_own_that_runs_once() {
    let graph = graph(
        r#"
        %0: f32[8, 16] = input "x"
        %1: f32[8, 16] = iota {axis=1}
        %2: f32[8, 16] = sin %1
        %3: f32[8, 16] = mul %0, %2
        output "y" %3"#,
    );
    assert_eq!(kernels(&graph), ["map", "map"]);
    let fused = fused(&graph, Fusion::On);
    assert_eq!(fused.kernels.iter().map(|kernel| kernel.once).collect::<Vec<_>>(), [true, false]);
    // A position itself is no table: comparing it is cheaper than reading what the comparison gave.
    let light = graph_with_light_positions();
    assert_eq!(kernels(&light), ["map"]);
}

fn graph_with_light_positions() -> Graph {
    graph(
        r#"
        %0: f32[8, 16] = input "x"
        %1: i32[8, 16] = iota {axis=0}
        %2: i32[8, 16] = iota {axis=1}
        %3: bool[8, 16] = le %2, %1
        %4: f32[8, 16] = constant 0.0
        %5: f32[8, 16] = select %3, %0, %4
        output "y" %5"#,
    )
}

#[test]
fn a_concat_of_sums_is_written_by_those_that_compute_them_only_if_nobody_else_needs_them() {
    let sums = |more: &str| {
        graph(&format!(
            r#"
            %0: f32[5] = input "a"
            %1: f32[6] = input "b"
            %2: f32[] = sum %0 {{axes=[0]}}
            %3: f32[] = sum %1 {{axes=[0]}}
            %4: f32[1] = reshape %2
            %5: f32[1] = reshape %3
            %6: f32[2] = concat %4, %5 {{axis=0}}
            output "y" %6{more}"#
        ))
    };
    assert_eq!(kernels(&sums("")), ["2 reduces"]);
    let read = kernels(&sums("\noutput \"sum\" %2"));
    assert!(read.contains(&"concat".to_string()), "{read:?}");
}

/// `x · f(f(..f(s)))` with so many functions of one number.
fn scaled_by_a_number_of(functions: usize) -> Graph {
    let mut text = "%0: f32[8, 8] = input \"x\"\n%1: f32[] = input \"s\"\n".to_string();
    for i in 0..functions {
        text += &format!("%{}: f32[] = sin %{}\n", i + 2, i + 1);
    }
    let last = functions + 1;
    let [one, all, product] = [1, 2, 3].map(|i| last + i);
    text += &format!(
        "%{one}: f32[1, 1] = reshape %{last}\n%{all}: f32[8, 8] = broadcast %{one}\n\
         %{product}: f32[8, 8] = mul %0, %{all}\noutput \"y\" %{product}"
    );
    graph(&text)
}

#[test]
fn a_number_is_computed_where_it_is_used_unless_that_takes_long() {
    assert_eq!(kernels(&scaled_by_a_number_of(8)), ["map"]);
    assert_eq!(kernels(&scaled_by_a_number_of(9)), ["map", "map"]);
    // Two users: it is computed once.
    let shared = graph(
        r#"
        %0: f32[4] = input "x"
        %1: f32[6] = input "y"
        %2: f32[1] = input "s"
        %3: f32[1] = sin %2
        %4: f32[4] = broadcast %3
        %5: f32[6] = broadcast %3
        %6: f32[4] = mul %0, %4
        %7: f32[6] = mul %1, %5
        output "a" %6
        output "b" %7"#,
    );
    assert_eq!(kernels(&shared), ["map", "map", "map"]);
}

#[test]
fn kernels_that_read_the_same_are_one_and_so_are_single_numbers() {
    let siblings = graph(
        r#"
        %0: f32[8, 8] = input "x"
        %1: f32[8, 8] = sin %0
        %2: f32[8] = sum %0 {axes=[1]}
        %3: f32[8] = reduce_max %0 {axes=[1]}
        output "a" %1
        output "b" %2
        output "c" %3"#,
    );
    assert_eq!(kernels(&siblings), ["row"]);
    let numbers = graph(
        r#"
        %0: f32[] = input "x"
        %1: f32[] = input "y"
        %2: f32[] = sin %0
        %3: f32[] = exp %1
        output "a" %2
        output "b" %3"#,
    );
    assert_eq!(kernels(&numbers), ["map"]);
    let apart = graph(
        r#"
        %0: f32[4] = input "x"
        %1: f32[5] = input "y"
        %2: f32[4] = sin %0
        %3: f32[5] = exp %1
        output "a" %2
        output "b" %3"#,
    );
    assert_eq!(kernels(&apart), ["map", "map"], "they read nothing in common");
}

/// Attention over [batch, heads, time, depth], whose results go where the given permutations of their axes put them.
fn attention_seen_as(perms: &[[usize; 4]]) -> Graph {
    let mut text: String = ["q", "k", "v"]
        .iter()
        .enumerate()
        .map(|(i, n)| format!("%{i}: f32[2, 3, 4, 8] = input \"{n}\"\n"))
        .collect();
    text += "%3: f32[2, 3, 4, 8], %4: f32[2, 3, 4] = attention %0, %1, %2 {causal, scale=0.5}\n";
    for (i, perm) in perms.iter().enumerate() {
        let shape = perm.map(|axis| [2, 3, 4, 8][axis]);
        let [permuted, whole, result] = [0, 1, 2].map(|j| 5 + 3 * i + j);
        text += &format!(
            "%{permuted}: f32{shape:?} = permute %3 {{perm={perm:?}}}\n\
             %{whole}: f32[192] = reshape %{permuted}\n%{result}: f32[192] = exp %{whole}\noutput \"y{i}\" %{result}\n"
        );
    }
    graph(&text)
}

#[test]
fn attention_writes_its_result_in_the_order_in_which_all_read_it() {
    // The copy that the reshape would need is not there: it is a view of what was written in that order.
    let reads = |graph: &Graph| {
        let kernels = fused(graph, Fusion::On).kernels;
        assert_eq!(kernels[0].kernel.name(), "attention");
        kernels[0].writes[0].layout.is_contiguous()
    };
    let heads_beside_each_other = attention_seen_as(&[[0, 2, 1, 3]]);
    assert_eq!(kernels(&heads_beside_each_other), ["attention", "map"]);
    assert!(!reads(&heads_beside_each_other));
    assert!(!reads(&attention_seen_as(&[[0, 2, 1, 3], [0, 2, 1, 3]])));
    // Two that disagree, or an order that would take rows apart: as it is.
    assert!(reads(&attention_seen_as(&[[0, 2, 1, 3], [1, 0, 2, 3]])));
    assert!(reads(&attention_seen_as(&[[0, 1, 3, 2]])));
}

/// `dot(v², w) + v` where v is the sine of a sum of so many inputs.
fn skip_connection_from_a_sum_of(inputs: usize) -> Graph {
    let mut text: String = (0..inputs).map(|i| format!("%{i}: f32[8, 8] = input \"x{i}\"\n")).collect();
    let mut next = inputs;
    let mut push = |line: String| {
        text += &format!("%{next}: f32[8, 8] = {line}\n");
        next += 1;
        next - 1
    };
    let w = push("param \"w\"".into());
    let sum = (1..inputs).fold(0, |sum, i| push(format!("add %{sum}, %{i}")));
    let v = push(format!("sin %{sum}"));
    let square = push(format!("mul %{v}, %{v}"));
    let dot = push(format!("dot %{square}, %{w} {{lhs_contract=[1], rhs_contract=[0]}}"));
    let y = push(format!("add %{dot}, %{v}"));
    graph(&format!("{text}output \"y\" %{y}"))
}

#[test]
fn what_is_far_away_is_computed_again_from_a_few_inputs_and_kept_otherwise() {
    // Keeping a value costs five reads of it, besides those of writing it and reading it once.
    for (inputs, stored) in [(1, 1), (2, 1), (5, 1), (7, 2)] {
        let graph = skip_connection_from_a_sum_of(inputs);
        assert_eq!(kernels(&graph), ["map", "dot with epilogue"]);
        assert_eq!(body(&graph, 0).stores.len(), stored, "{inputs} inputs:\n{}", body(&graph, 0));
        let again = if stored == 1 { inputs } else { 1 };
        assert_eq!(loads(&body(&graph, 1)), again, "{inputs} inputs:\n{}", body(&graph, 1));
    }
}

#[test]
fn what_a_guard_or_the_start_of_a_window_needs_is_not_left_to_the_updates() {
    let graph = graph(
        r#"
        %0: f32[4] = param "w"
        %1: f32[4] = input "g"
        %2: f32[8] = state "ring" {init=0.0}
        %3: i32[] = input "n"
        %4: f32[] = sum %1 {axes=[0]}
        %5: f32[4] = sub %0, %1
        %6: i32[] = constant 4
        %7: i32[] = min %3, %6
        guard "sum" %4
        update %0 <- %5
        update %2[%7] <- %1"#,
    );
    let kernels = fused(&graph, Fusion::On).kernels;
    let commit: Vec<_> = kernels.iter().map(|spec| (spec.writes[0].buffer.0, spec.commit)).collect();
    let of = |value: u32| commit.iter().find(|(buffer, _)| *buffer == value).map(|(_, commit)| *commit);
    assert_eq!([of(4), of(7), of(5)], [Some(false), Some(false), Some(true)], "{commit:?}");
}

#[test]
fn what_can_trap_is_not_left_to_the_updates() {
    let graph = graph(
        r#"
        %0: f32[4, 3] = state "s" {init=0.0}
        %1: i32[4] = input "rows"
        %2: f32[4, 3] = gather %0, %1 {batch=0}
        %3: f32[4, 3] = neg %2
        update %0 <- %3"#,
    );
    let kernels = fused(&graph, Fusion::On).kernels;
    let when: Vec<_> = kernels.iter().map(|spec| (spec.kernel.name(), spec.commit)).collect();
    assert_eq!(when, [("gather", false), ("map", true)]);
}
