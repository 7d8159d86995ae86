//! The kernel that decides whether a step may commit, as a shader.

use super::dispatch::{Context, Shaders, checked};
use super::operands::{Operands, Shared};
use super::print::print;
use super::shader_builder::ShaderBuilder;
use crate::simt::kernels;
use crate::step::{Window, windows};
use gradloom_core::error::Result;
use gradloom_core::kernel::{Access, Kernel, Launch, Phase};

/// The shader of a plan's [`guards`](kernels::guards); `launch` is any of the plan's.
///
/// # Errors
/// As [`super::shaders`].
pub fn guards(launch: &Launch, context: &Context<'_>) -> Result<Shaders> {
    let Context { plan, limits, .. } = *context;
    let mut reads: Vec<Access> = plan.guards.iter().map(|(_, access)| access.clone()).collect();
    let windows: Vec<Window<'_>> = windows(plan).collect();
    reads.extend(windows.iter().map(|window| window.start.clone()));
    // Each may be a parameter of its own.
    let shared = if reads.len() >= limits.storage_buffers { Shared::Segment } else { Shared::Nothing };
    let launch =
        Launch { kernel: Kernel::Copy, reads, writes: Vec::new(), phase: Phase::Compute, ..launch.clone() };
    let operands = Operands::new(&launch, context, shared);
    let kernel = kernels::guards(&operands.views(false), &windows);
    let dispatch = print(&kernel, ShaderBuilder::new(&operands, limits, false, 0));
    checked(Shaders { operands, dispatches: vec![dispatch] }, &launch, context)
}
