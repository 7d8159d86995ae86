//! Fusion. The tests check the resulting kernels, and that the kernels compute the values of the graph.

mod choices;
mod custom;
mod files;
mod kernels;
mod meaning;
mod size;

use gradloom_core::fuse::{Fused, Fusion, fuse};
use gradloom_core::ir::{Graph, parse};
use gradloom_testing::{generate, random};

/// Parses a graph from the lines of its text form.
#[track_caller]
fn graph(lines: &str) -> Graph {
    let graph = parse(&format!("graph {{\n{lines}\n}}")).unwrap_or_else(|error| panic!("{error:?}\n{lines}"));
    gradloom_core::verify::verify(&graph).unwrap_or_else(|error| panic!("{error}\n{lines}"));
    graph
}

#[track_caller]
fn fused(graph: &Graph, fusion: Fusion) -> Fused {
    fuse(graph, fusion).unwrap_or_else(|error| panic!("{error}\n{graph}"))
}
