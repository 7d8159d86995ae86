//! The kernel that decides whether a step may commit, as a CUDA kernel.

use super::launch::{CudaKernel, placed};
use crate::simt::kernels::{self, View, Views};
use crate::step::{Window, windows};
use gradloom_core::kernel::Access;
use gradloom_core::plan::Plan;

/// Returns a plan's [`guards`](kernels::guards).
pub(super) fn guards(plan: &Plan) -> CudaKernel {
    let windows: Vec<Window<'_>> = windows(plan).collect();
    let guards = plan.guards.iter().map(|(_, access)| access);
    let reads: Vec<&Access> = guards.chain(windows.iter().map(|window| window.start)).collect();
    let views = Views {
        reads: reads.iter().map(|access| View::of(access, false)).collect(),
        writes: Vec::new(),
        gated: false,
        in_place: false,
    };
    let kernel = kernels::guards(&views, &windows);
    placed(&[kernel], 0, &views, plan, [&reads, &[]], &(0..0)).remove(0)
}
