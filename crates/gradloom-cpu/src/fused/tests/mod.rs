//! Compares fused loops with an interpreter of bodies, in random layouts, with every instruction set and
//! several numbers of threads.

mod interpreter;
mod kernels;
mod random;

use crate::prepare::prepare_at;
use crate::testing::{Job, Tensor};
use gradloom_codegen::cpu::loop_workspace;
use gradloom_core::ir::{DType, Graph};
use gradloom_core::kernel::{Body, Kernel, Layout, Schedule};

/// Returns a job that launches a body.
fn job(body: &Body, reads: Vec<Tensor>, results: Vec<(DType, Layout, Option<usize>)>) -> Job {
    body.check().expect("a valid body");
    Job {
        workspace: loop_workspace(body),
        kernel: Kernel::Loop(body.clone()),
        reads,
        results,
        schedule: Schedule::Whole,
    }
}

/// Runs a job with every instruction set, in both modes of loops, and on several numbers of threads.
fn run(job: &Job) -> Result<Vec<Vec<f64>>, crate::Trap> {
    job.run(|launch, level, loops| prepare_at(launch, &Graph::new(), level, loops))
}
