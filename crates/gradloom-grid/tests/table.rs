//! Runs the table of ops on the simulated grid, with kernels for WebGPU and for CUDA.

#[path = "../../gradloom-runtime/tests/common/table.rs"]
mod table;

use gradloom_codegen::pipeline::{Limits, Precision, Target};
use gradloom_runtime::Device;

/// Returns grids with the limits that every WebGPU adapter guarantees, and with those of NVIDIA GPUs.
fn devices_of_the_table() -> Vec<(&'static str, Device)> {
    let targets = [
        ("portable", Target::wgsl(Limits::portable(), Precision::F32)),
        ("cuda", Target::cuda(Limits::cuda(), Precision::F32)),
    ];
    targets.map(|(name, target)| (name, gradloom_grid::device(target))).into()
}
