//! Choices of fusion where several are correct: which kernels share a launch, which values are stored or
//! recomputed, and when kernels run.

use super::kernels::{body, kernels, loads};
use super::{fused, graph};
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Kernel;

/// Builds a graph of four square leaves and three products, whose operands are the values with the given
/// numbers.
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
    // Comparisons of positions alone are not precomputed, as comparing is cheaper than loading the result.
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

/// Builds `x · f(f(..f(s)))`, with `functions` applications of f to the scalar s.
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
    // With two users, the scalar is computed once, in a separate kernel.
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

/// Builds an attention over [batch, heads, time, depth], whose result is read under each of the given
/// permutations of its axes.
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
             %{whole}: f32[192] = reshape %{permuted}\n%{result}: f32[192] = exp %{whole}\n\
             output \"y{i}\" %{result}\n"
        );
    }
    graph(&text)
}

#[test]
fn attention_writes_its_result_in_the_order_in_which_all_read_it() {
    // The reshape is a view of the result in that order, so it needs no copy.
    let reads = |graph: &Graph| {
        let kernels = fused(graph, Fusion::On).kernels;
        assert_eq!(kernels[0].kernel.name(), "attention");
        kernels[0].writes[0].layout.is_contiguous()
    };
    let heads_beside_each_other = attention_seen_as(&[[0, 2, 1, 3]]);
    assert_eq!(kernels(&heads_beside_each_other), ["attention", "map"]);
    assert!(!reads(&heads_beside_each_other));
    assert!(!reads(&attention_seen_as(&[[0, 2, 1, 3], [0, 2, 1, 3]])));
    // If two permutations disagree, or one would split rows, the result keeps its order.
    assert!(reads(&attention_seen_as(&[[0, 2, 1, 3], [1, 0, 2, 3]])));
    assert!(reads(&attention_seen_as(&[[0, 1, 3, 2]])));
}

/// Builds `dot(v², w) + v`, where v is the sine of the sum of `inputs` inputs.
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
    // Keeping a value costs five reads of it, in addition to writing it and reading it once.
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

/// Checks the gradient of a bias next to a loop that reads the same cotangent.
#[test]
fn sums_over_rows_follow_a_product_or_join_a_loop_that_reads_it() {
    let product = r#"%0: f32[6, 4] = input "x"
        %1: f32[4, 5] = input "w"
        %2: f32[6, 5] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
        %3: f32[5] = sum %2 {axes=[0]}
        %4: f32[6] = sum %2 {axes=[1]}
        output "bias" %3
        output "product" %2"#;
    let sums_in = |lines: &str, fusion: Fusion| -> Vec<&'static str> {
        let kernels = fused(&graph(lines), fusion).kernels;
        let sums = |kernel: &Kernel| match kernel {
            Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } => body.has_column_reductions(),
            _ => false,
        };
        kernels.iter().filter(|spec| sums(&spec.kernel)).map(|spec| spec.kernel.name()).collect()
    };
    let read = &format!("{product}\noutput \"most\" %4");
    let product = &product.replace("        %4: f32[6] = sum %2 {axes=[1]}\n", "");
    for (lines, fusion, found) in [
        (product, Fusion::On, "dot"),
        (product, Fusion::SumsApart, "dot"),
        (read, Fusion::On, "dot"),
        (read, Fusion::SumsApart, "reduce"),
    ] {
        assert_eq!(sums_in(lines, fusion), [found], "{fusion:?}\n{lines}");
    }
}
