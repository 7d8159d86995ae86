//! Fused loops against an interpreter of bodies, in random layouts, with every instruction set and several
//! threads.

mod interpreter;
mod kernels;
mod random;

use crate::testing::{Job, Tensor};
use gradloom_codegen::cpu::loop_workspace;
use gradloom_core::ir::DType;
use gradloom_core::kernel::{Body, Kernel, Layout};

/// Returns a launch of a body.
fn job(body: &Body, reads: Vec<Tensor>, results: Vec<(DType, Layout, Option<usize>)>) -> Job {
    body.check().expect("a valid body");
    Job { workspace: loop_workspace(body), kernel: Kernel::Loop(body.clone()), reads, results }
}

/// Runs it everywhere.
fn run(body: &Body, job: &Job) -> Result<Vec<Vec<f64>>, crate::Trap> {
    job.run(|launch, level, loops| super::prepare_loop(launch, body, level, loops))
}
