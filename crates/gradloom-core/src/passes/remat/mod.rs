//! Rematerialisation: values of the forward pass are computed again in the backward pass instead of kept,
//! until the step fits into a memory budget.
//!
//! In: a graph after the other passes, where its forward pass ends, a number of bytes, and a way to plan a
//! graph. Out: a graph with the same meaning and bits whose planned peak is within the budget, or the error
//! that says how far it could be brought. Always holds: as few values are given up as meet the budget, in the
//! order of `choice.rs`; it is the real plan that is held against the budget, with all that fusion and
//! sharing of bytes save.

mod choice;
mod cost;
mod live;
mod rewrite;

use crate::collections::IdSet;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Graph, OpId, ValueId};
use crate::plan::{Plan, report};
use live::Forward;

/// Number of prefixes that are planned before the search narrows down.
const PROBES: usize = 8;
/// The bisection ends when this share of the values, or one, is in question.
const SHARE: usize = 128;

/// Returns the ops of the forward pass that are worth computing again: sets in the order in which to add
/// them, each of which frees the results of one op that is kept. The forward pass ends with the op that
/// computes `last`.
pub fn candidates(graph: &Graph, last: ValueId) -> Vec<Vec<OpId>> {
    choice::order(&Forward::new(graph, last))
}

/// Returns the graph in which everything after the forward pass reads copies of what the `chosen` ops
/// compute. They must be some first sets of [`candidates`], together.
pub fn recompute(graph: &Graph, last: ValueId, chosen: &IdSet<OpId>) -> Graph {
    rewrite::rewrite(&Forward::new(graph, last), last, chosen)
}

/// Brings the peak ([`crate::plan::Totals::peak`]) of a step down to `budget` bytes. The forward pass ends
/// with the op that computes `last`, usually the loss. `plan` lowers and plans a graph for the device.
///
/// # Errors
/// When the budget cannot be met: the message names the least number of bytes that was found, and the
/// largest values.
pub fn fit(
    graph: &Graph,
    last: ValueId,
    budget: u64,
    plan: &mut dyn FnMut(&Graph) -> Result<Plan>,
) -> Result<Graph> {
    let first = plan(graph)?;
    if first.totals.peak() <= budget {
        return Ok(graph.clone());
    }
    let forward = Forward::new(graph, last);
    let sets = choice::order(&forward);
    let mut attempt = |count: usize| -> Result<(Graph, Plan)> {
        let chosen: IdSet<OpId> = sets[..count].iter().flatten().copied().collect();
        let graph = rewrite::rewrite(&forward, last, &chosen);
        let plan = plan(&graph)?;
        Ok((graph, plan))
    };
    // The peak need not fall with every value, so probes come before the bisection.
    let probes = PROBES.min(sets.len());
    let (mut misses, mut least) = (0, (graph.clone(), first));
    for probe in 1..=probes {
        let count = probe * sets.len() / probes;
        let found = attempt(count)?;
        if found.1.totals.peak() <= budget {
            let step = (sets.len() / SHARE).max(1);
            return narrow(misses, count, step, found.0, budget, &mut attempt);
        }
        misses = count;
        if found.1.totals.peak() < least.1.totals.peak() {
            least = found;
        }
    }
    Err(too_small(&least.0, &least.1, budget))
}

/// Returns the graph with the fewest values given up, more than `misses` and at most `fits`, as far as a
/// bisection down to `step` of them finds it.
fn narrow(
    mut misses: usize,
    mut fits: usize,
    step: usize,
    mut graph: Graph,
    budget: u64,
    attempt: &mut dyn FnMut(usize) -> Result<(Graph, Plan)>,
) -> Result<Graph> {
    while fits - misses > step {
        let middle = misses.midpoint(fits);
        let (found, plan) = attempt(middle)?;
        if plan.totals.peak() <= budget {
            (fits, graph) = (middle, found);
        } else {
            misses = middle;
        }
    }
    Ok(graph)
}

/// Returns the error of a budget that cannot be kept.
fn too_small(graph: &Graph, plan: &Plan, budget: u64) -> Error {
    let (peak, totals) = (plan.totals.peak(), &plan.totals);
    let mut error = Error::new(
        ErrorKind::Plan,
        format!(
            "the step needs {peak} bytes of memory, the least that was found by computing values again; \
             the budget is {budget}"
        ),
    )
    .note(format!(
        "parameters and states take {} bytes, values of the step {}, constants and scratch {}",
        totals.store,
        totals.step,
        totals.constants + totals.workspace
    ));
    for note in report::largest(graph, plan) {
        error = error.note(note);
    }
    error.help(format!("allow {peak} bytes, or make the batch, the context or the model smaller"))
}
