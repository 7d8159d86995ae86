//! Bounded kernel sizes: how long chains and wide sums are split, and what is recomputed.

use super::fused;
use gradloom_core::fuse::{Fusion, MOST_OPS};
use gradloom_core::ir::{Graph, parse};
use gradloom_core::kernel::Kernel;
use gradloom_core::passes;
use gradloom_core::reference::evaluate;
use gradloom_testing::chains::{self, CHAINS};
use gradloom_testing::compare::{Tolerance, same};
use gradloom_testing::{Leaves, evaluate_fused};

fn chain(name: &str, length: usize) -> Graph {
    let (_, step) = CHAINS.into_iter().find(|(known, _)| *known == name).expect("there is such a chain");
    chains::graph(step, length, 7).unwrap()
}

/// Returns the number of nodes in the body of each kernel.
fn sizes(graph: &Graph) -> Vec<usize> {
    let nodes = |kernel: &Kernel| match kernel {
        Kernel::Loop(body) => body.nodes.len(),
        other => panic!("{other:?}"),
    };
    fused(graph, Fusion::On).kernels.iter().map(|spec| nodes(&spec.kernel)).collect()
}

#[test]
fn long_chains_are_several_kernels_of_one_size() {
    // Two ops per step in the forward pass, five in the backward pass.
    let graph = chain("tanh", 4_000);
    let ops = graph.entry_ops().count();
    let sizes = sizes(&graph);
    // Allow twice as many kernels as ops would fill, as a function counts for more than one op.
    assert!(sizes.len() <= 2 * ops / MOST_OPS + 8, "{} kernels of {ops} ops", sizes.len());
    // Allow twice the size, as a kernel of the backward pass recomputes the values of the forward pass that
    // it needs.
    assert!(sizes.iter().all(|&size| size <= 2 * MOST_OPS), "{sizes:?}");
}

#[test]
fn a_kernel_has_few_functions() {
    let sizes = |text: String| sizes(&passes::run(parse(&text).unwrap()).0);
    let chain = |op: &str| {
        format!(
            "graph {{\n%0: f32[8] = input \"x\"\n^1(%1: f32[8]) {{\n%2: f32[8] = {op}\n-> %2\n}}\n\
             %3: f32[8] = repeat ^1 %0 {{trip=256, carried=1}}\noutput \"y\" %3\n}}"
        )
    };
    // Nodes that load the operands are not counted towards the limit.
    assert_eq!(sizes(chain("mul %1, %1")).len(), 1);
    let functions = sizes(chain("erf %1"));
    assert_eq!(functions.len(), 4, "{functions:?}");
    assert!(functions.iter().all(|&size| size <= 64 + 1), "{functions:?}");
}

#[test]
fn the_gradient_of_a_long_chain_stores_few_of_its_values() {
    let graph = chain("tanh", 4_000);
    let fused = fused(&graph, Fusion::On);
    let stored: usize = fused.kernels.iter().map(|kernel| kernel.writes.len()).sum();
    assert!(stored < 250, "{stored} values of 4,000 are in memory");
}

#[test]
fn cut_chains_mean_what_they_did() {
    for (name, step) in CHAINS {
        let graph = chains::graph(step, 700, 5).unwrap();
        let leaves = Leaves::random(5);
        let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
        let got = evaluate_fused(&graph, &fused(&graph, Fusion::On), &|kind| leaves.value(kind)).unwrap();
        same(&got, &want, Tolerance { relative: 1e-12, absolute: 1e-15 })
            .unwrap_or_else(|what| panic!("{name}: {what}"));
    }
}
