//! Memory planning: ordered launches and buffers with lifetimes and offsets.
//!
//! A [`Plan`] is made from a graph, its launches for one target and the layout of the store. It is a public,
//! printable value that the runtime executes without changes. Invariants, checked by [`verify`]: every launch
//! reads values that were written and not overwritten; compute launches write no persistent values; a launch
//! that reads a parameter or state reads its value at the start of the step.

mod commit;
mod copies;
mod cost;
mod hoist;
mod json;
mod layout;
mod liveness;
mod order;
pub mod report;
mod schedule;
mod store;
mod timeline;
mod types;
mod verify;
mod view;

pub use cost::{Cost, cost};
pub use store::{StoreEntry, StoreLayout};
pub use timeline::{Stay, Timeline};
pub use types::{ALIGNMENT, Buffer, Plan, Region, Role, SCALAR_ALIGNMENT, Totals};
pub use verify::{verify, verify_commit};
pub use view::{LaunchView, PlanView};

use crate::collections::{IdMap, IdSet};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Graph, Op, OpKind, ValueId};
use crate::kernel::{Launch, Lowered};
use report::exact_bytes;

/// Orders launches and places buffers.
///
/// `limit` is the maximum size of the step arena in bytes.
///
/// # Errors
/// Returns an error if the store lacks a parameter or state of the graph, if an update that must alias its
/// target cannot do so, if the values have more bytes than any memory can hold, or if the arena would exceed
/// the limit. In the last case, the notes list the largest values.
pub fn plan(graph: &Graph, mut lowered: Lowered, store: &StoreLayout, limit: Option<u64>) -> Result<Plan> {
    let ordered = schedule::order(graph, &mut lowered);
    let (hoisted, mut launches) = hoist::split(graph, &lowered, ordered);
    let committed = commit::place(graph, &mut lowered, &mut launches)?;
    let mut buffers = used_buffers(graph, &lowered, &hoisted, &launches, &committed);
    check_countable(graph, &buffers)?;
    liveness::set(&mut buffers, &launches, &committed.outputs, &committed.guards);
    let mut plan = Plan {
        buffer_of: buffers.iter().enumerate().map(|(i, b)| (b.value, i)).collect(),
        totals: Totals {
            workspace: hoisted
                .iter()
                .chain(&launches)
                .map(|l| l.workspace)
                .max()
                .unwrap_or(0)
                .next_multiple_of(ALIGNMENT),
            ..Totals::default()
        },
        outputs: committed.outputs,
        guards: committed.guards,
        scratch: vec![0; launches.len()],
        hoisted,
        launches,
        buffers,
    };
    place_in_store(graph, &mut plan, store, &committed.in_place)?;
    layout::place(&mut plan, u64::MAX, 0);
    if let Some(limit) = limit.filter(|&limit| plan.totals.step > limit) {
        return Err(too_large(graph, &plan, limit));
    }
    Ok(plan)
}

/// Returns the buffers used by launches, outputs or the caller, in a deterministic order, with their roles.
fn used_buffers(
    graph: &Graph,
    lowered: &Lowered,
    hoisted: &[Launch],
    launches: &[Launch],
    committed: &commit::Committed,
) -> Vec<Buffer> {
    let updated: IdSet<ValueId> = graph.updates.iter().map(|u| u.target).collect();
    let mut roles: IdMap<ValueId, Role> = IdMap::new();
    let mut order = Vec::new();
    for (_, op) in graph.entry_ops() {
        let (role, always) = match op.kind {
            OpKind::Input { .. } => (Role::Input, true),
            OpKind::Param { .. } if updated.contains(&op.results[0]) => (Role::Parameter, true),
            OpKind::Param { .. } => (Role::Frozen, true),
            OpKind::State { .. } => (Role::State, true),
            OpKind::Scalar { .. } => (Role::Scalar, true),
            OpKind::Constant { .. } | OpKind::Iota { .. } => (Role::Constant, false),
            _ => continue,
        };
        roles.insert(op.results[0], role);
        if always {
            order.push(op.results[0]);
        }
    }
    roles.extend(hoisted.iter().flat_map(|l| &l.writes).map(|write| (write.buffer, Role::Hoisted)));
    let accessed = hoisted.iter().chain(launches).flat_map(|l| l.reads.iter().chain(&l.writes));
    let watched = committed.outputs.iter().chain(&committed.guards).map(|(_, access)| access);
    order.extend(accessed.chain(watched).map(|a| a.buffer));
    let read_back: IdSet<ValueId> = committed.outputs.iter().map(|(_, access)| access.buffer).collect();
    let mut seen = IdSet::new();
    order.retain(|value| seen.insert(*value));
    order
        .into_iter()
        .map(|value| {
            let ty = lowered.buffers[&value].clone();
            let otherwise = if read_back.contains(&value) { Role::Output } else { Role::Temporary };
            let role = roles.get(&value).copied().unwrap_or(otherwise);
            let region = match role {
                Role::Parameter | Role::Frozen | Role::State => Region::Store,
                Role::Constant | Role::Hoisted => Region::Constants,
                _ => Region::Step,
            };
            Buffer { value, bytes: ty.bytes(), ty, role, region, offset: 0, first: 0, last: 0 }
        })
        .collect()
}

/// Places parameters and states at the store's offsets, and values written in place at the offsets of their
/// targets.
fn place_in_store(
    graph: &Graph,
    plan: &mut Plan,
    store: &StoreLayout,
    in_place: &IdMap<ValueId, ValueId>,
) -> Result<()> {
    for buffer in &mut plan.buffers {
        let target = in_place.get(&buffer.value).copied().unwrap_or(buffer.value);
        if buffer.region != Region::Store && target == buffer.value {
            continue;
        }
        let op = graph.defining_op(target).expect("leaves are results of ops");
        let name = Graph::leaf_name(&op.kind).expect("only leaves persist");
        let Some(entry) = store.get(name).filter(|entry| entry.ty == *graph.ty(target)) else {
            return Err(Error::new(
                ErrorKind::Store,
                format!("the store has no `{name}` of type {}", graph.ty(target)),
            ));
        };
        (buffer.region, buffer.offset) = (Region::Store, entry.offset);
        if target == buffer.value {
            plan.totals.store += buffer.bytes.next_multiple_of(ALIGNMENT);
        } else {
            buffer.role = Role::Next;
        }
    }
    Ok(())
}

/// Returns the error for a plan that exceeds the limit. It lists the largest values at the moment of peak
/// use.
fn too_large(graph: &Graph, plan: &Plan, limit: u64) -> Error {
    let (needed, limit) = (exact_bytes(plan.totals.step), exact_bytes(limit));
    let message = format!("the step needs {needed} of memory, the limit is {limit}");
    let op = report::at_peak(plan).into_iter().find_map(|buffer| placed_op(graph, buffer));
    let mut error = graph.blame(op, Error::new(ErrorKind::Plan, message));
    for note in report::largest(graph, plan) {
        error = error.note(note);
    }
    error.help("make the batch or the context smaller")
}

/// Returns the op that computes a buffer, if its location is known.
fn placed_op<'g>(graph: &'g Graph, buffer: &Buffer) -> Option<&'g Op> {
    graph.defining_op(buffer.value).filter(|op| graph.origin(op).is_some())
}

/// Maximum number of bytes of a store, or of all values of a step without memory reuse.
const MOST_BYTES: u64 = u64::MAX >> 9;

/// Returns an error if the values exceed any possible memory. Later code adds their bytes without overflow
/// checks.
fn check_countable(graph: &Graph, buffers: &[Buffer]) -> Result<()> {
    let sizes = buffers.iter().map(|b| b.bytes.checked_next_multiple_of(ALIGNMENT));
    let total = sizes.into_iter().try_fold(0_u64, |total, bytes| total.checked_add(bytes?));
    match total {
        Some(total) if total <= MOST_BYTES => Ok(()),
        _ => {
            let message = "the values of this step have more bytes than any memory can hold";
            let error = Error::new(ErrorKind::Plan, message).help("make the batch or the context smaller");
            let placed = buffers.iter().filter_map(|b| Some((b.bytes, placed_op(graph, b)?)));
            Err(graph.blame(placed.max_by_key(|(bytes, _)| *bytes).map(|(_, op)| op), error))
        }
    }
}
