//! Checks a training step on a GPU, before and after the passes.
//!
//! In: a step with moderate numbers. Out: nothing, or which of the two graphs the GPU computes wrongly. The
//! module `check` checks the earlier stages.

use super::Counts;
use super::check::{Failure, Subject, failure};
use gradloom_core::ir::Graph;
use gradloom_core::passes;
use gradloom_runtime::{Device, Program};
use gradloom_testing::Leaves;
use gradloom_testing::float32::compare_steps;

/// Number of steps that a program runs.
const STEPS: usize = 2;

/// Runs both graphs.
///
/// # Errors
/// Returns the failure of the first graph that fails.
pub(super) fn check(subject: &Subject, device: &Device, counts: &mut Counts) -> Result<(), Failure> {
    let Subject { graph, leaves, .. } = subject;
    run("as it is", graph, leaves, device, counts)?;
    run("after the passes", &passes::run(graph.clone()).0, leaves, device, counts)
}

fn run(
    which: &str,
    graph: &Graph,
    leaves: &Leaves,
    device: &Device,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let stage = || format!("the graph {which} on {}", device.description());
    let program = Program::standalone(graph.clone(), device, &|kind| leaves.value(kind));
    let mut program = program.map_err(failure(stage()))?;
    let compared = compare_steps(graph, leaves, STEPS, &mut |values| program.evaluate(&values));
    let report = |message| format!("{message}\n{graph}{}", program.plan().report(graph));
    counts.compared += compared.map_err(|message| failure(stage())(report(message)))?;
    Ok(())
}
