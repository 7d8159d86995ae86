//! Programs on a GPU or a software adapter, against the f64 reference.

mod angles;
mod attention;
mod chains;
mod data;
mod index;
mod magnitudes;
mod narrow;
mod pipeline_cache;
mod random;
mod refused;
mod rows;
mod sums;
#[path = "../../../gradloom-runtime/tests/common/table.rs"]
mod table;
mod tuned;
mod turns;
mod worlds;

use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{Graph, parse};
use gradloom_core::reference::evaluate;
use gradloom_runtime::{Device, Program};
use gradloom_testing::{Leaves, values};

/// Returns the device under test, whose adapter's name contains the value of `GRADLOOM_ADAPTER`. If the
/// variable is not set, any adapter is used.
fn device() -> Device {
    let name = gradloom_testing::adapter::name();
    gradloom::testing::gpu(&name).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns `true`, and reports that the test is skipped, if there is no adapter.
fn skipped() -> bool {
    gradloom_testing::adapter::skipped(gradloom_wgpu::adapters().is_empty())
}

/// Returns `true` if a test specific to WebGPU is skipped: as for [`skipped`], and if the device is used
/// through CUDA.
fn not_webgpu() -> bool {
    gradloom_testing::adapter::skipped_on_cuda(gradloom_wgpu::adapters().is_empty())
}

/// Returns the device on which the table of ops is tested, if there is an adapter.
fn devices_of_the_table() -> Vec<(&'static str, Device)> {
    if skipped() { vec![] } else { vec![("GPU", device())] }
}

/// Returns `true` if two numbers are neither equal nor close; NaN is not close to any number.
fn far(a: f64, b: f64, tolerance: f64) -> bool {
    let close = a == b || (a - b).abs() <= tolerance;
    !close
}

/// Parses a graph from its lines in text form.
#[track_caller]
fn graph(lines: &str) -> Graph {
    parse(&format!("graph {{\n{lines}\n}}")).unwrap_or_else(|error| panic!("{error:?}\n{lines}"))
}

/// Returns the number of random graphs per test; the environment variable `GRADLOOM_RANDOM_GRAPHS` sets it.
fn random_graphs() -> u64 {
    std::env::var("GRADLOOM_RANDOM_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(150)
}

/// Returns the device under test with its own limits, and with the limits of a hardware GPU, the minimum
/// limits of WebGPU, and those of a device that splits vectors into scalars.
fn devices() -> Vec<Device> {
    let name = gradloom_testing::adapter::name();
    if gradloom_testing::adapter::is_cuda() {
        return ["cuda", "cuda-uncaptured"].map(|name| gradloom::testing::gpu(name).unwrap()).into();
    }
    let limited = |limit| {
        gradloom::testing::wgpu_limited(&name, limit, Fusion::SumsApart)
            .unwrap_or_else(|error| panic!("{error}"))
    };
    vec![
        device(),
        limited(|limits| (limits.software, limits.scalar) = (false, false)),
        limited(|limits| {
            (limits.software, limits.invocations, limits.workgroup_memory) = (false, 256, 16 << 10);
            (limits.scalar, limits.storage_buffers) = (false, 8);
        }),
        limited(|limits| (limits.software, limits.scalar) = (true, true)),
    ]
}

/// Runs a graph and compares the results with the reference, within `tolerance` of the largest value.
#[track_caller]
fn agree(device: &Device, lines: &str, leaves: &Leaves, tolerance: f64) {
    let graph = graph(lines);
    let want =
        evaluate(&graph, &|kind| leaves.value(kind)).unwrap_or_else(|error| panic!("{error}\n{lines}"));
    let program = Program::standalone(graph, device, &|kind| leaves.value(kind));
    let mut program = program.unwrap_or_else(|error| panic!("{error}\n{lines}"));
    let got = program.evaluate(&|kind| leaves.value(kind)).unwrap_or_else(|error| panic!("{error}\n{lines}"));
    for ((name, got), (_, want)) in values(&got).zip(values(&want)) {
        assert_eq!(got.ty, want.ty);
        let (got, want) = (got.to_f64(), want.to_f64());
        let largest = want.iter().filter(|v| v.is_finite()).fold(1.0_f64, |a, b| a.max(b.abs()));
        for (i, (a, b)) in got.iter().zip(&want).enumerate() {
            let same = a == b || a.is_nan() && b.is_nan();
            assert!(
                same || (a - b).abs() <= tolerance * largest,
                "{name}[{i}] is {a}, expected {b}\n{lines}"
            );
        }
    }
}

/// Runs a graph that must trap, on the device and in the reference.
#[track_caller]
fn traps(device: &Device, lines: &str, leaves: &Leaves) {
    let graph = graph(lines);
    assert!(evaluate(&graph, &|kind| leaves.value(kind)).is_err(), "the reference does not trap:\n{lines}");
    let mut program =
        Program::standalone(graph, device, &|kind| leaves.value(kind)).expect("it can be loaded");
    let result = program.evaluate(&|kind| leaves.value(kind));
    assert!(result.is_err(), "the device does not trap:\n{lines}");
}
