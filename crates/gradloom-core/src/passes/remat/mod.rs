//! Rematerialization, which recomputes values of the forward pass in the backward pass instead of keeping
//! them, until the step fits into a memory budget.
//!
//! [`fit`] takes a graph after the other passes, the last value of its forward pass, a budget in bytes and a
//! function that plans a graph. It returns a graph with bitwise identical results whose planned peak is
//! within the budget, or an error with the lowest peak that it found. As few values as necessary are given
//! up, in the order of `choice.rs`. The budget is compared with the actual plan, which includes the savings
//! of fusion and memory reuse.

mod choice;
mod cost;
mod live;
mod rewrite;

use crate::collections::IdSet;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Graph, OpId, ValueId};
use crate::plan::Plan;
use crate::plan::report::{self, exact_bytes, human_bytes};
use live::Forward;

/// Number of prefixes that are planned before the bisection.
const PROBES: usize = 8;
/// The bisection ends when the interval is one value or `1 / SHARE` of all values.
const SHARE: usize = 128;

/// Returns the forward ops that are worth recomputing, as sets in the order in which they should be added.
/// Each set frees the results of one kept op. The last op of the forward pass computes `last`.
pub fn candidates(graph: &Graph, last: ValueId) -> Vec<Vec<OpId>> {
    choice::order(&Forward::new(graph, last))
}

/// Returns the graph in which all ops after the forward pass read copies of the results of the `chosen` ops.
/// The `chosen` ops must be the union of a prefix of [`candidates`].
pub fn recompute(graph: &Graph, last: ValueId, chosen: &IdSet<OpId>) -> Graph {
    rewrite::rewrite(&Forward::new(graph, last), last, chosen)
}

/// Reduces the peak ([`crate::plan::Totals::peak`]) of a step to at most `budget` bytes. The last op of the
/// forward pass computes `last`, usually the loss. `plan` lowers and plans a graph for the device.
///
/// # Errors
/// Returns an error if the budget cannot be met. The message contains the lowest peak that was found, and the
/// notes list the largest values.
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
    // The peak does not necessarily decrease with every value, so probe several prefixes before the
    // bisection.
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

/// Returns the graph with the fewest values given up, more than `misses` and at most `fits`, found by
/// bisection to a resolution of `step` values.
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

/// Returns the error for a budget that cannot be met.
fn too_small(graph: &Graph, plan: &Plan, budget: u64) -> Error {
    let (peak, totals) = (plan.totals.peak(), &plan.totals);
    let mut error = Error::new(
        ErrorKind::Plan,
        format!(
            "the step needs {} of memory, the least that was found by computing values again; the budget is {}",
            exact_bytes(peak),
            exact_bytes(budget)
        ),
    )
    .note(format!(
        "parameters and states take {}, values of the step {}, constants and scratch {}",
        human_bytes(totals.store),
        human_bytes(totals.step),
        human_bytes(totals.constants + totals.workspace)
    ));
    for note in report::largest(graph, plan) {
        error = error.note(note);
    }
    error.help(format!("allow {peak} bytes, or make the batch, the context or the model smaller"))
}
