//! Compares programs on the CPU with the float64 reference and with each other, from graph to results.

mod aborted;
mod data;
mod dtypes;
mod hoisted;
mod placement;
mod reference;
mod results;
mod stored;
mod sums;
#[path = "../common/table.rs"]
mod table;
mod updates;
mod worlds;

use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{Graph, parse};
use gradloom_core::reference::Evaluation;
use gradloom_cpu::CpuDevice as _;
use gradloom_cpu::{Loops, always_waking};
use gradloom_runtime::Device;
use gradloom_testing::values;

/// Returns a graph from the lines of its text form.
#[track_caller]
fn graph(lines: &str) -> Graph {
    parse(&format!("graph {{\n{lines}\n}}")).unwrap_or_else(|error| panic!("{error:?}\n{lines}"))
}

/// Returns the CPU with one thread, and with two threads.
fn devices() -> [Device; 2] {
    [Device::cpu_with_threads(1).unwrap(), always_waking(2)]
}

/// Returns the CPU in each configuration in which it computes the table of ops.
fn devices_of_the_table() -> Vec<(&'static str, Device)> {
    let devices = [
        ("alone", Device::cpu_with_threads(1)),
        ("in threads", Ok(always_waking(3))),
        ("interpreted", Device::cpu_with_loops(2, Loops::Interpreted)),
        ("op by op", Device::cpu_with_fusion(2, Fusion::Off)),
    ];
    devices.map(|(name, device)| (name, device.unwrap())).into()
}

/// Returns the number of random graphs of a test; `GRADLOOM_RANDOM_GRAPHS` overrides it.
fn random_graphs() -> u64 {
    std::env::var("GRADLOOM_RANDOM_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

/// Returns the bits of all results of a step, so that equal NaNs compare equal.
fn bits(evaluation: &Evaluation) -> Vec<(String, Vec<u64>)> {
    values(evaluation)
        .map(|(name, tensor)| (name, tensor.to_f64().into_iter().map(f64::to_bits).collect()))
        .chain([(format!("{:?}", evaluation.not_finite), Vec::new())])
        .collect()
}
