//! Tests of shaders of small graphs: each must be valid for every driver, and within the limits for which it
//! was generated.

mod attention;
mod check;
mod files;
mod groups;
mod kernels;
mod parts;
mod random_graphs;
mod tuning;

use check::check;
use gradloom_codegen::pipeline::Target;
use gradloom_codegen::step::Owner;
use gradloom_codegen::wgsl::{self, Choices, Dispatch, Limits, Precision};
use gradloom_core::fuse::fuse;
use gradloom_core::ir::{Graph, parse};
use gradloom_core::plan::{self, Plan, StoreLayout};

/// Parses a graph from the lines of its text form, and verifies it.
#[track_caller]
fn graph(lines: &str) -> Graph {
    let graph = parse(&format!("graph {{\n{lines}\n}}")).unwrap_or_else(|error| panic!("{error:?}\n{lines}"));
    gradloom_core::verify::verify(&graph).unwrap_or_else(|error| panic!("{error}\n{lines}"));
    graph
}

/// Returns the choices for an adapter: products in f16 if it has matrix instructions for f16.
fn choices(limits: &Limits) -> Choices {
    Choices::by_rule(if limits.cooperative { Precision::F16 } else { Precision::F32 })
}

/// Returns the verified plan of a graph for an adapter.
#[track_caller]
fn plan(graph: &Graph, limits: &Limits) -> Plan {
    plan_with(graph, limits, &choices(limits))
}

/// Returns the verified plan of a graph for an adapter, with given choices.
#[track_caller]
fn plan_with(graph: &Graph, limits: &Limits, choices: &Choices) -> Plan {
    plan_for(graph, &Target::wgsl(*limits, choices.precision()).with_choices(choices.clone()))
}

/// Returns the verified plan of a graph for any target.
#[track_caller]
fn plan_for(graph: &Graph, target: &Target) -> Plan {
    let mut store = StoreLayout::default();
    store.extend(graph).expect("a new store takes any graph");
    let lowered = target.lower(graph, fuse(graph, target.fusion).unwrap_or_else(|error| panic!("{error}")));
    let plan = plan::plan(graph, lowered, &store, None).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    plan::verify_commit(graph, &plan)
        .unwrap_or_else(|error| panic!("{error}\n{graph}{}", plan.report(graph)));
    plan
}

/// Returns the checked shaders of all launches of a graph and of its guards.
#[track_caller]
fn checked(graph: &Graph, limits: &Limits) -> Vec<Dispatch> {
    checked_with(graph, limits, &choices(limits))
}

/// Returns the checked shaders of a graph, with given choices; those of its guards come last.
#[track_caller]
fn checked_with(graph: &Graph, limits: &Limits, choices: &Choices) -> Vec<Dispatch> {
    let plan = plan_with(graph, limits, choices);
    let cuts = wgsl::Cuts::default();
    let context = wgsl::Context { plan: &plan, graph, limits, cuts: &cuts };
    let units = wgsl::units(&context).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    let (guards, units): (Vec<_>, Vec<_>) = units.into_iter().partition(|unit| unit.owner == Owner::Guards);
    let all: Vec<_> = units.into_iter().chain(guards).flat_map(|unit| unit.dispatches).collect();
    all.iter().for_each(|dispatch| check(dispatch, limits));
    all
}

/// Returns the limits of four adapters: those that WebGPU guarantees, and those of a driver that runs on a
/// CPU, of a large GPU, and of a driver that splits vectors into scalars.
fn adapters() -> [Limits; 4] {
    let software =
        Limits { workgroup_memory: 32 << 10, subgroup: Some(8), software: true, ..Limits::portable() };
    let large = Limits {
        invocations: 1024,
        workgroup_memory: 48 << 10,
        storage_buffers: 64,
        binding_bytes: 2 << 30,
        subgroup: Some(32),
        f16: true,
        cooperative: true,
        ..Limits::portable()
    };
    let scalar = Limits { software: true, scalar: true, ..Limits::portable() };
    [Limits::portable(), software, large, scalar]
}
