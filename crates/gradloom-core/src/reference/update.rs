//! Values of parameters and states after a step.

use super::error::{in_op, trap};
use super::{EntryValues, HostTensor, movement};
use crate::error::{Error, Result};
use crate::ir::{Definition, Graph, ValueId};

/// Returns each updated parameter or state once, in the order of its first update, with its value after the
/// step.
///
/// All updates read the values at the start of the step. Regions of the same target are written in the order
/// of the updates. A region out of bounds is a trap, even if nothing is committed, and the step fails.
pub(super) fn next_values(
    graph: &Graph,
    values: &EntryValues,
    commit: bool,
) -> Result<Vec<(String, HostTensor)>> {
    let mut next: Vec<(ValueId, HostTensor)> = Vec::new();
    for update in &graph.updates {
        let at = next.iter().position(|(target, _)| *target == update.target).unwrap_or_else(|| {
            next.push((update.target, values[update.target].clone()));
            next.len() - 1
        });
        let current = &mut next[at].1;
        let updated = match &update.region {
            None => values[update.value].clone(),
            Some(region) => {
                let starts: Vec<&HostTensor> = region.iter().map(|&v| &values[v]).collect();
                movement::dynamic_update_slice(current, &values[update.value], &starts)
                    .map_err(|error| name_target(error, graph, update.target))?
            }
        };
        if commit {
            *current = updated;
        }
    }
    let named = next.into_iter().map(|(target, tensor)| (leaf_name(graph, target).to_string(), tensor));
    Ok(named.collect())
}

fn leaf_name(graph: &Graph, target: ValueId) -> &str {
    graph.defining_op(target).and_then(|op| Graph::leaf_name(&op.kind)).unwrap_or_default()
}

fn name_target(error: Error, graph: &Graph, target: ValueId) -> Error {
    let message = format!("the update of {:?}: {}", leaf_name(graph, target), error.message());
    let error = trap(message);
    match graph.values[target].definition {
        Definition::Result(op, _) => in_op(error, graph, op),
        Definition::BlockParam(..) => error,
    }
}
