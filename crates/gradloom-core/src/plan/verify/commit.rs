//! Checks that a plan performs the updates of its graph.

use super::super::{Plan, Role};
use super::contents::{Content, replay};
use super::{broken, structure};
use crate::collections::IdMap;
use crate::error::Result;
use crate::ir::{Graph, ValueId};
use crate::kernel::Phase;

/// Checks a plan against its graph: every update takes effect, no other parameter or state changes, and no
/// launch of the commit can trap. Includes the checks of [`super::verify`].
///
/// # Errors
/// Returns [`crate::error::ErrorKind::Verify`], naming the launch or the target.
pub fn verify_commit(graph: &Graph, plan: &Plan) -> Result<()> {
    structure::check(plan)?;
    let contents = replay(plan)?;
    if let Some(launch) = plan.hoisted.iter().find(|l| l.kernel.can_trap(graph, l.op)) {
        return Err(broken(format!("a hoisted launch ({}) can trap", launch.kernel.name())));
    }
    for (i, launch) in plan.launches.iter().enumerate() {
        if launch.phase == Phase::Commit && launch.kernel.can_trap(graph, launch.op) {
            return Err(broken(format!("launch {i} ({}) can trap in the commit", launch.kernel.name())));
        }
    }
    let mut updates: IdMap<ValueId, Vec<ValueId>> = IdMap::new();
    for update in &graph.updates {
        updates.get_or_insert_with(update.target, Vec::new).push(update.value);
    }
    let persists = |role| matches!(role, Role::Parameter | Role::Frozen | Role::State);
    for buffer in plan.buffers.iter().filter(|b| persists(b.role) && b.bytes > 0) {
        let target = buffer.value;
        let held = contents.of(buffer);
        let kept = held == Some(Content::Value(target));
        let updated = match held {
            Some(Content::Updated(value)) => value == target,
            Some(Content::Value(value)) => plan.buffer(value).is_some_and(|b| b.role == Role::Next),
            None => false,
        };
        let right = match updates.get(&target) {
            None => kept,
            // Updating a value to itself keeps it.
            Some(values) => updated || (kept && values.iter().all(|&value| is_same(graph, value, target))),
        };
        if !right {
            let name = graph.defining_op(target).and_then(|op| Graph::leaf_name(&op.kind)).unwrap_or("?");
            return Err(broken(format!("{target} (`{name}`) holds {held:?} at the end of the step")));
        }
    }
    Ok(())
}

/// Returns `true` if a value is the other value or a view of it. The kinds of views are not checked.
fn is_same(graph: &Graph, mut value: ValueId, other: ValueId) -> bool {
    while value != other {
        match graph.defining_op(value) {
            Some(op) if op.kind.is_view() => value = op.operands[0],
            _ => return false,
        }
    }
    true
}
