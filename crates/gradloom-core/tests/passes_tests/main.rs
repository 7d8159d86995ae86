//! Passes. The tests check the effect of each pass on a graph, and that graphs compute the same values as
//! before.

mod cse;
mod dce;
mod expand;
mod fold;
mod meaning;
mod pipeline;
mod remat;
mod simplify;
mod sums;

use gradloom_core::ir::{Graph, OpKind, parse};
use gradloom_core::verify::verify;
use gradloom_testing::{generate, random};
use meaning::{Leaf, assert_alike};

/// Parses and verifies a graph from the lines of its text form.
#[track_caller]
fn graph(lines: &str) -> Graph {
    let graph = parse(&format!("graph {{\n{lines}\n}}")).unwrap_or_else(|error| panic!("{error:?}\n{lines}"));
    verify(&graph).unwrap_or_else(|error| panic!("{error}\n{lines}"));
    graph
}

/// Checks that a pass, followed by dead code elimination, returns the graph `after`, which computes the same
/// values as `before`.
#[track_caller]
fn becomes(pass: fn(&Graph) -> Graph, before: &str, after: &str) {
    let (before, wanted) = (graph(before), graph(after));
    let got = gradloom_core::passes::dce::dce(&pass(&before));
    verify(&got).unwrap_or_else(|error| panic!("{error}\n{got}"));
    assert_eq!(got.to_string(), wanted.to_string(), "from\n{before}");
    for seed in 0..4 {
        assert_alike(&before, &got, &Leaf::new(seed), 1e-9);
    }
}

/// Checks that a pass does not change a graph.
#[track_caller]
fn stays(pass: fn(&Graph) -> Graph, lines: &str) {
    assert_eq!(pass(&graph(lines)).to_string(), graph(lines).to_string());
}

/// Returns the number of ops with this name in the entry block.
fn count(graph: &Graph, name: &str) -> usize {
    graph.entry_ops().filter(|(_, op)| op.kind.name() == name).count()
}

fn inputs(graph: &Graph) -> Vec<String> {
    let names = graph.entry_ops().filter_map(|(_, op)| match &op.kind {
        OpKind::Input { name, .. } => Some(name.clone()),
        _ => None,
    });
    names.collect()
}
