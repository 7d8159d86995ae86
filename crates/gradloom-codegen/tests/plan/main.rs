//! Tests of plans of graphs in text form, lowered for the CPU: the order of launches, the locations of
//! values, and errors.

mod aliases;
mod custom;
mod files;
mod hoist;
mod json;
mod memory;
mod random_graphs;
mod store;
mod updates;
mod verify;
mod verify_kernels;
mod views;

use gradloom_codegen::pipeline::Target;
use gradloom_core::error::{Error, Result};
use gradloom_core::fuse::{Fusion, fuse};
use gradloom_core::ir::{Graph, ValueId, parse};
use gradloom_core::kernel::{Launch, NodeKind, Phase, Store};
use gradloom_core::plan::{self, Buffer, Plan, StoreLayout};
use gradloom_testing::generate;

/// Parses a graph from the lines of its text form, and verifies it.
#[track_caller]
fn graph(lines: &str) -> Graph {
    let graph = parse(&format!("graph {{\n{lines}\n}}")).unwrap_or_else(|error| panic!("{error:?}\n{lines}"));
    gradloom_core::verify::verify(&graph).unwrap_or_else(|error| panic!("{error}\n{lines}"));
    graph
}

fn plan_within(graph: &Graph, limit: Option<u64>) -> Result<Plan> {
    // Use one kernel per op, so that the tests do not depend on fusion.
    let lowered = Target::cpu(1).lower(graph, fuse(graph, Fusion::Off)?);
    let mut store = StoreLayout::default();
    store.extend(graph).expect("a new store takes any graph");
    plan::plan(graph, lowered, &store, limit)
}

/// Returns the verified plan of a graph.
#[track_caller]
fn planned(lines: &str) -> Plan {
    plan_of(&graph(lines))
}

#[track_caller]
fn plan_of(graph: &Graph) -> Plan {
    let plan = plan_within(graph, None).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    plan::verify_commit(graph, &plan)
        .unwrap_or_else(|error| panic!("{error}\n{graph}{}", plan.report(graph)));
    plan
}

/// Returns the verified plan of a graph whose ops are fused.
#[track_caller]
fn fused(lines: &str) -> Plan {
    let graph = graph(lines);
    let mut store = StoreLayout::default();
    store.extend(&graph).expect("a new store takes any graph");
    let lowered = Target::cpu(1).lower(&graph, fuse(&graph, Fusion::On).unwrap());
    let plan = plan::plan(&graph, lowered, &store, None).unwrap();
    plan::verify_commit(&graph, &plan).unwrap_or_else(|error| panic!("{error}\n{}", plan.report(&graph)));
    plan
}

#[track_caller]
fn refused(lines: &str) -> Error {
    let graph = graph(lines);
    match plan_within(&graph, None) {
        Ok(plan) => panic!("this was planned:\n{}", plan.report(&graph)),
        Err(error) => error,
    }
}

/// Returns the launches as "phase kernel", in order.
fn steps(plan: &Plan) -> Vec<String> {
    plan.launches.iter().map(|l| format!("{} {}", phase(l), name(l))).collect()
}

/// Returns the name of a launch's kernel. The name of a loop is that of its last op.
fn name(launch: &Launch) -> &'static str {
    let Some(body) = launch.kernel.body() else { return launch.kernel.name() };
    match (&body.stores[0], &body.nodes.last().unwrap().kind) {
        (Store::ColumnReduce { op, .. }, _) | (_, NodeKind::Reduce(op, _)) => op.name(),
        (_, NodeKind::Unary(op, _)) => op.name(),
        (_, NodeKind::Binary(op, _)) => op.name(),
        (_, NodeKind::Compare(op, _)) => op.name(),
        (_, NodeKind::Select(_)) => "select",
        (_, NodeKind::Cast(_)) => "cast",
        (_, other) => panic!("{other:?} is no op"),
    }
}

fn phase(launch: &Launch) -> &'static str {
    match launch.phase {
        Phase::Compute => "compute",
        Phase::Commit => "commit",
    }
}

/// Returns the buffer of a value, given its number in the text.
#[track_caller]
fn buffer(plan: &Plan, number: u32) -> &Buffer {
    plan.buffer(ValueId(number)).unwrap_or_else(|| panic!("%{number} has no buffer"))
}
