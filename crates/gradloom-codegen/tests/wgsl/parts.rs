//! Tests of split sums: the kernels that compute the partial sums, and those that combine them.

use super::{adapters, checked, graph, plan};
use gradloom_codegen::pipeline::Target;
use gradloom_codegen::wgsl::{Limits, Precision, tuning::Problem};
use gradloom_core::fuse::{Fusion, fuse};
use gradloom_core::kernel::{Kernel, Store};
use gradloom_core::plan::Plan;

/// Returns the limits that WebGPU guarantees.
fn portable() -> Limits {
    adapters()[0]
}

/// Returns the number of parts of each column sum that a plan's launches compute partially, and the number of
/// sums that each group combines.
fn parts(plan: &Plan) -> (Vec<usize>, Vec<usize>) {
    let (mut left, mut taken) = (Vec::new(), Vec::new());
    for launch in &plan.launches {
        match &launch.kernel {
            Kernel::Loop(body) => left.extend(body.stores.iter().filter_map(|store| match store {
                Store::ColumnReduce { parts, .. } => Some(*parts),
                Store::Value { .. } => None,
            })),
            Kernel::Group(members) => taken.push(members.len()),
            _ => {}
        }
    }
    (left, taken)
}

#[test]
fn sums_of_columns_wait_for_each_other() {
    let graph = graph(
        "%0: f32[1024, 64] = input \"x\"\n%1: f32[1000, 130] = input \"y\"\n%2: f32[64] = sum %0 {axes=[0]}\n\
         %3: f32[1000, 130] = exp %1\n%4: f32[130] = sum %3 {axes=[0]}\noutput \"a\" %2\noutput \"b\" %4",
    );
    let (left, taken) = parts(&plan(&graph, &portable()));
    assert!(left.len() == 2 && left.iter().all(|&parts| parts > 1), "{left:?}");
    assert_eq!(taken, [2], "one kernel finishes both");
    for limits in adapters() {
        let dispatches = checked(&graph, &limits);
        assert_eq!(dispatches.iter().filter(|d| d.label != "guards").count(), 3);
    }
}

#[test]
fn a_sum_that_is_needed_is_finished_first() {
    let graph = graph(
        "%0: f32[1024, 64] = input \"x\"\n%1: f32[64] = sum %0 {axes=[0]}\n%2: f32[64] = exp %1\n\
         %3: f32[64, 64] = input \"y\"\n%4: f32[1, 64] = reshape %2\n%5: f32[1, 64] = dot %4, %3 {lhs_contract=[1], rhs_contract=[0]}\n\
         output \"a\" %5",
    );
    let plan = plan(&graph, &portable());
    let (left, taken) = parts(&plan);
    assert_eq!((left.len(), taken), (1, vec![1]));
}

/// The result of a split-K product is an operand of a product whose columns a separate loop sums up.
#[test]
fn a_product_that_a_split_product_needs_is_finished_first() {
    let graph = graph(
        "%0: f32[32, 4096] = input \"x\"\n%1: f32[4096, 32] = input \"y\"\n%2: f32[32, 64] = input \"z\"\n\
         %3: f32[32, 32] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}\n\
         %4: f32[32, 64] = dot %3, %2 {lhs_contract=[1], rhs_contract=[0]}\n%5: f32[64] = sum %4 {axes=[0]}\n\
         output \"a\" %4\noutput \"b\" %5",
    );
    // The plan's verifier refuses reads of values that were not written.
    let names: Vec<&str> = plan(&graph, &portable()).launches.iter().map(|l| l.kernel.name()).collect();
    assert_eq!(names, ["dot", "reduce", "dot", "reduce"]);
}

#[test]
fn few_rows_are_summed_at_once() {
    let graph = graph("%0: f32[100, 64] = input \"x\"\n%1: f32[64] = sum %0 {axes=[0]}\noutput \"a\" %1");
    assert_eq!(parts(&plan(&graph, &portable())), (vec![1], vec![]));
    for limits in adapters() {
        let labels: Vec<String> = checked(&graph, &limits).into_iter().map(|d| d.label).collect();
        assert!(labels.iter().any(|label| label == "1 kernels: sums of columns"), "{labels:?}");
    }
}

#[test]
fn the_terms_of_a_small_weights_gradient_become_a_batch() {
    let text = |results: usize| {
        format!(
            "%0: f32[8, 512, {results}] = input \"x\"\n%1: f32[8, 512, {results}] = input \"y\"\n\
             %2: f32[{results}, {results}] = dot %0, %1 {{lhs_contract=[0, 1], rhs_contract=[0, 1]}}\noutput \"a\" %2"
        )
    };
    let plan_of = |results: usize| plan(&graph(&text(results)), &portable());
    let small = plan_of(64);
    assert_eq!(small.launches.len(), 2);
    let parts_of = |plan: &Plan| plan.launches[0].writes[0].layout.shape.elements();
    assert!(parts_of(&small) >= 2 * 64 * 64 && small.launches[0].workspace == 0);
    // This result is too large for partial sums in memory, so the kernels of the product add them.
    let large = plan_of(384);
    assert_eq!((large.launches.len(), parts_of(&large)), (1, 384 * 384));
    assert!(large.launches[0].workspace > 0);
    for limits in adapters() {
        checked(&graph(&text(64)), &limits);
    }
}

/// The number of parts of a product is part of its choice, so both the whole product and its parts are tuning
/// problems.
#[test]
fn a_product_that_is_cut_is_also_named_whole() {
    let graph = graph(
        "%0: f32[4096, 64] = input \"x\"\n%1: f32[4096, 64] = input \"y\"\n\
         %2: f32[64, 64] = dot %0, %1 {lhs_contract=[0], rhs_contract=[0]}\noutput \"a\" %2",
    );
    let fused = fuse(&graph, Fusion::SumsApart).unwrap();
    let problems = Target::wgsl(portable(), Precision::F32).problems(&graph, &fused);
    let terms = problems.iter().map(|problem| match problem {
        Problem::Product(product) => (product.batch_count(), product.k),
        Problem::Attention(..) => panic!("there is none"),
    });
    let terms: Vec<(usize, usize)> = terms.collect();
    assert_eq!(terms[0], (1, 4096));
    assert!(terms.len() == 2 && terms[1].0 > 1 && terms[1].0 * terms[1].1 == 4096, "{terms:?}");
}
