//! Rematerialization. The tests check which ops are chosen, how the graph changes, and that no pass undoes
//! the change.

use super::generate::generate;
use super::meaning::{Leaf, assert_gives};
use super::{count, graph};
use gradloom_core::collections::IdSet;
use gradloom_core::ir::{Graph, OpId, OpKind, ValueId, parse};
use gradloom_core::passes::cse::cse;
use gradloom_core::passes::remat::{candidates, recompute};
use gradloom_core::passes::run;
use gradloom_core::verify::verify;

/// Returns the union of the first `count` sets of candidates.
fn first(sets: &[Vec<OpId>], count: usize) -> IdSet<OpId> {
    sets[..count].iter().flatten().copied().collect()
}

/// Returns the names of the candidates, one string for each set.
fn names(graph: &Graph, last: ValueId) -> Vec<String> {
    let name = |op: &OpId| graph.ops[*op].kind.name();
    candidates(graph, last).iter().map(|ops| ops.iter().map(name).collect::<Vec<_>>().join(" ")).collect()
}

/// A forward pass that ends with the output "loss", and two later ops that read its values.
const CHAIN: &str = "%0: f32[8, 8] = input \"x\"
     %1: f32[8, 8] = param \"w\"
     %2: f32[8, 8] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
     %3: f32[8, 8] = sin %2
     %4: f32[8, 8] = neg %3
     %5: f32[] = sum %4 {axes=[0, 1]}
     %6: f32[8, 8] = permute %3 {perm=[1, 0]}
     %7: f32[8, 8] = mul %6, %4
     output \"loss\" %5
     output \"y\" %7";

#[test]
fn the_cheap_go_first_and_products_last() {
    let graph = graph(CHAIN);
    // While sin is kept, the negation is the cheapest op to recompute. Recomputing sin afterwards requires
    // the product, which is not kept either.
    assert_eq!(names(&graph, graph.output("loss").unwrap()), ["neg", "sin dot"]);
}

#[test]
fn a_copy_stands_before_its_first_late_reader_and_waits() {
    let before = graph(CHAIN);
    let loss = before.output("loss").unwrap();
    let sets = candidates(&before, loss);
    let after = recompute(&before, loss, &first(&sets, 2));
    let expected = graph(
        "%0: f32[8, 8] = input \"x\"
         %1: f32[8, 8] = param \"w\"
         %2: f32[8, 8] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
         %3: f32[8, 8] = sin %2
         %4: f32[8, 8] = neg %3
         %5: f32[] = sum %4 {axes=[0, 1]}
         %6: f32[8, 8] = barrier %0, %5
         %7: f32[8, 8] = barrier %1, %5
         %8: f32[8, 8] = dot %6, %7 {lhs_contract=[1], rhs_contract=[0]}
         %9: f32[8, 8] = sin %8
         %10: f32[8, 8] = permute %9 {perm=[1, 0]}
         %11: f32[8, 8] = neg %9
         %12: f32[8, 8] = mul %10, %11
         output \"loss\" %5
         output \"y\" %12",
    );
    assert_eq!(after.to_string(), expected.to_string());
    assert_eq!(run(after.clone()).0.to_string(), expected.to_string(), "passes must not undo it");
}

#[test]
fn what_is_read_by_name_or_persists_stays() {
    let graph = graph(
        "%0: f32[8] = input \"x\"
         %1: f32[8] = state \"s\" {init=0.0}
         %2: f32[8] = exp %0
         %3: f32[8] = neg %2
         %4: f32[8] = abs %3
         %5: f32[] = sum %4 {axes=[0]}
         %6: f32[8] = mul %3, %4
         %7: f32[8] = mul %6, %2
         output \"loss\" %5
         output \"kept\" %2
         output \"y\" %7
         update %1 <- %3",
    );
    assert_eq!(names(&graph, graph.output("loss").unwrap()), ["abs"]);
}

#[test]
fn a_small_value_is_kept_rather_than_its_sum_added_up_again() {
    let graph = graph(
        "%0: f32[4, 64] = input \"x\"
         %1: f32[4] = sum %0 {axes=[1]}
         %2: f32[4, 1] = reshape %1
         %3: f32[4, 64] = broadcast %2
         %4: f32[4, 64] = sub %0, %3
         %5: f32[] = sum %4 {axes=[0, 1]}
         %6: f32[4, 64] = mul %4, %4
         output \"loss\" %5
         output \"y\" %6",
    );
    assert_eq!(names(&graph, graph.output("loss").unwrap())[0], "sub");
}

#[test]
fn equal_ops_on_both_sides_of_a_barrier_stay_two() {
    let graph = graph(
        "%0: f32[2] = input \"x\"
         %1: f32[2] = exp %0
         %2: f32[2] = barrier %0, %1
         %3: f32[2] = barrier %0, %1
         %4: f32[2] = exp %2
         %5: f32[2] = exp %3
         output \"a\" %1
         output \"b\" %4
         output \"c\" %5",
    );
    // Copies after the same barrier are merged.
    let after = cse(&graph);
    assert_eq!((count(&after, "exp"), count(&after, "barrier")), (2, 1));
    let (after, _) = run(graph);
    assert_eq!((count(&after, "exp"), count(&after, "barrier")), (2, 1));
}

#[test]
fn random_graphs_keep_their_meaning() {
    let mut repeated = 0;
    for seed in 0..200 {
        let (before, _) = run(generate(seed));
        let leaf = Leaf::new(seed);
        let Ok(want) = leaf.run(&before) else { continue };
        let ops: Vec<_> = before.entry_ops().filter(|(_, op)| !op.results.is_empty()).collect();
        for end in [1, 2, 3].map(|quarter| ops.len() * quarter / 4) {
            let last = ops[end].1.results[0];
            let sets = candidates(&before, last);
            for count in (0..=sets.len()).rev().step_by(2) {
                let after = recompute(&before, last, &first(&sets, count));
                verify(&after).unwrap_or_else(|error| panic!("{error}\n{after}"));
                assert_gives(&after, &want, &leaf, 0.0);
                let text = after.to_string();
                assert_eq!(parse_like(&before, &text).to_string(), text);
                let barriers = super::count(&after, "barrier");
                let (again, _) = run(after);
                assert_gives(&again, &want, &leaf, 1e-9);
                assert!(super::count(&again, "barrier") <= barriers);
                repeated += usize::from(count > 0);
            }
        }
    }
    assert!(repeated > 100, "only {repeated} graphs had something to compute again");
}

/// Parses the text of a graph like `graph`, which must not have custom ops, as `parse` rejects them.
fn parse_like(graph: &Graph, text: &str) -> Graph {
    assert!(graph.entry_ops().all(|(_, op)| !matches!(op.kind, OpKind::Custom(_))));
    parse(text).unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

/// Checks that ops are ordered by operations per byte, except that products and attention come last.
#[test]
fn a_short_product_waits_for_dear_maps() {
    // The product has two operations per element, and the exponential has ten.
    let graph = graph(
        "%0: f32[8, 1] = input \"x\"
         %1: f32[1, 8] = input \"y\"
         %2: f32[8, 8] = input \"z\"
         %3: f32[8, 8] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
         %4: f32[8, 8] = exp %2
         %5: f32[8, 8] = mul %3, %4
         %6: f32[] = sum %5 {axes=[0, 1]}
         %7: f32[8, 8] = add %3, %4
         output \"loss\" %6
         output \"y\" %7",
    );
    assert_eq!(names(&graph, graph.output("loss").unwrap()), ["exp", "dot"]);
}

#[test]
fn cheaper_ops_are_computed_again_first() {
    // Each op has one late reader, so the order depends only on the cost per element, which increases from a
    // negation to random bits.
    let graph = graph(
        "%0: f32[8, 8] = input \"x\"
         %1: u32[] = scalar \"a\"
         %2: u32[8, 8] = random_bits %1, %1, %1 {site=0}
         %3: f32[8, 8] = exp %0
         %4: f32[8, 8] = rsqrt %0
         %5: f32[8, 8] = neg %0
         %6: f32[8, 8] = cast %2
         %7: f32[] = sum %6 {axes=[0, 1]}
         %8: f32[8, 8] = cast %2
         %9: f32[8, 8] = mul %3, %4
         %10: f32[8, 8] = mul %9, %5
         output \"loss\" %7
         output \"a\" %8
         output \"b\" %10",
    );
    assert_eq!(names(&graph, graph.output("loss").unwrap()), ["neg", "rsqrt", "exp", "random_bits"]);
}

#[test]
fn products_go_by_the_length_of_what_they_add_up() {
    // One product sums eight terms for each element of a large result, and the other sums four terms for each
    // element of a small result. The product with fewer terms comes first.
    let graph = graph(
        "%0: f32[32, 8] = input \"a\"
         %1: f32[8, 32] = input \"b\"
         %2: f32[4, 4] = input \"c\"
         %3: f32[32, 32] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
         %4: f32[4, 4] = dot %2, %2 {lhs_contract=[1], rhs_contract=[0]}
         %5: f32[] = sum %4 {axes=[0, 1]}
         %6: f32[32, 32] = neg %3
         %7: f32[4, 4] = neg %4
         output \"loss\" %5
         output \"x\" %6
         output \"y\" %7",
    );
    let loss = graph.output("loss").unwrap();
    let shapes: Vec<_> = candidates(&graph, loss)
        .iter()
        .map(|ops| graph.ty(graph.ops[ops[0]].results[0]).to_string())
        .collect();
    assert_eq!(shapes, ["f32[4, 4]", "f32[32, 32]"]);
}

#[test]
fn attention_that_sees_half_costs_half() {
    let graph = graph(
        "%0: f32[1, 2, 8, 4] = input \"q\"
         %1: f32[1, 2, 8, 4], %2: f32[1, 2, 8] = attention %0, %0, %0 {scale=0.5}
         %3: f32[1, 2, 8, 4], %4: f32[1, 2, 8] = attention %0, %0, %0 {scale=0.5, causal}
         %5: f32[] = sum %3 {axes=[0, 1, 2, 3]}
         %6: f32[1, 2, 8, 4] = neg %1
         %7: f32[1, 2, 8, 4] = neg %3
         output \"loss\" %5
         output \"x\" %6
         output \"y\" %7",
    );
    let sets = candidates(&graph, graph.output("loss").unwrap());
    let results: Vec<_> = sets.iter().map(|ops| graph.ops[ops[0]].results[0].0).collect();
    assert_eq!(results, [3, 1]);
}
