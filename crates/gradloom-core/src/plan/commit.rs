//! Placement of updates in the store. An update is written in place if the launch that computes the next
//! value may overwrite the target, and is otherwise copied at the end of the commit.
//!
//! Every read of a parameter or state returns its value at the start of the step, regardless of the order of
//! the commit.

use super::copies;
use super::order::CommitOrder;
use super::types::first_commit;
use crate::collections::{IdMap, IdSet};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Graph, OpId, Type, Update, ValueId};
use crate::kernel::{Access, Kernel, Launch, Layout, Lowered, Overwrites, Phase, Schedule};

/// The result of [`place`].
pub(super) struct Committed {
    /// The target parameter or state of each buffer that is written in place.
    pub(super) in_place: IdMap<ValueId, ValueId>,
    /// Name, buffer and layout of each output.
    pub(super) outputs: Vec<(String, Access)>,
    /// Name, buffer and layout of each value that must be finite before the commit.
    pub(super) guards: Vec<(String, Access)>,
}

/// Decides for each update whether it is written in place, and adds the necessary copies to `launches`.
pub(super) fn place(graph: &Graph, lowered: &mut Lowered, launches: &mut Vec<Launch>) -> Result<Committed> {
    let targets: IdSet<ValueId> = graph.updates.iter().map(|u| u.target).collect();
    let mut snapshots = Snapshots { targets: &targets, copies: IdMap::new(), launches: Vec::new() };

    let outputs: Vec<(String, Access)> = graph
        .outputs
        .iter()
        .map(|o| (o.name.clone(), snapshots.before_commit(graph, lowered, o.value)))
        .collect();
    // Guards are checked before the commit, so they can be read from their original locations.
    let guards: Vec<(String, Access)> =
        graph.guards.iter().map(|g| (g.name.clone(), lowered.access[&g.value].clone())).collect();
    // Buffers that must not move, because they are read after the commit or already share the bytes of
    // another target.
    let mut kept: IdSet<ValueId> = outputs.iter().map(|(_, access)| access.buffer).collect();

    let mut order = CommitOrder::new(launches);
    let mut overwrites = None;
    let mut in_place = IdMap::new();
    let mut copying = Vec::new();
    for update in &graph.updates {
        let source = &lowered.access[&update.value];
        let whole = update.region.is_none();
        if whole && source.buffer == update.target && source.layout == lowered.access[&update.target].layout {
            continue;
        }
        if whole
            && !kept.contains(&source.buffer)
            && can_write_in_place(lowered, launches, &order, &mut overwrites, update, source)
            && order.write_after_reads(source.buffer, update.target)
        {
            in_place.insert(source.buffer, update.target);
            kept.insert(source.buffer);
            continue;
        }
        if whole && update.must_alias {
            return Err(must_alias_error(graph, update));
        }
        kept.insert(source.buffer);
        let mut reads = vec![snapshots.before_commit(graph, lowered, update.value)];
        for &start in update.region.iter().flatten() {
            reads.push(snapshots.before_commit(graph, lowered, start));
        }
        copying.push(Launch {
            op: asking_op(graph, update.value),
            kernel: if whole { Kernel::Copy } else { Kernel::WriteRegion },
            reads,
            writes: vec![lowered.access[&update.target].clone()],
            may_alias: Vec::new(),
            schedule: Schedule::Whole,
            workspace: 0,
            phase: Phase::Commit,
        });
    }
    if let Some(update) = graph.updates.iter().find(|update| {
        let own_bytes = |buffer: ValueId| in_place.get(&buffer) == Some(&update.target);
        let mut others = launches.iter().chain(&snapshots.launches);
        update.must_alias && others.any(|launch| copies::copies(launch, update.target, &own_bytes))
    }) {
        return Err(copied_error(graph, update));
    }
    order.apply(launches);
    let first = first_commit(launches);
    launches.splice(first..first, snapshots.launches);
    launches.extend(copying);
    Ok(Committed { in_place, outputs, guards })
}

/// Copies of values that are still read after the commit overwrites them.
struct Snapshots<'t> {
    targets: &'t IdSet<ValueId>,
    copies: IdMap<ValueId, Access>,
    launches: Vec<Launch>,
}

impl Snapshots<'_> {
    /// Returns an access to the value that remains valid during and after the commit. This is a copy if the
    /// value is in a parameter or state that this step updates.
    fn before_commit(&mut self, graph: &Graph, lowered: &mut Lowered, value: ValueId) -> Access {
        let access = lowered.access[&value].clone();
        if !self.targets.contains(&access.buffer) {
            return access;
        }
        if let Some(copy) = self.copies.get(&value) {
            return copy.clone();
        }
        let copy = lowered.temporary(Type::new(access.dtype, access.layout.shape.clone()));
        self.launches.push(Launch {
            op: asking_op(graph, value),
            kernel: Kernel::Copy,
            reads: vec![access],
            writes: vec![copy.clone()],
            may_alias: Vec::new(),
            schedule: Schedule::Whole,
            workspace: 0,
            phase: Phase::Compute,
        });
        self.copies.insert(value, copy.clone());
        copy
    }
}

/// Returns `true` if the launch that computes the source can write it directly to the target.
fn can_write_in_place<'l>(
    lowered: &Lowered,
    launches: &'l [Launch],
    order: &CommitOrder,
    overwrites: &mut Option<(usize, Overwrites<'l>)>,
    update: &Update,
    source: &Access,
) -> bool {
    let target = &lowered.access[&update.target];
    let natural = Layout::contiguous(&source.layout.shape);
    if source.layout != natural
        || lowered.buffers[&source.buffer].bytes() != lowered.buffers[&target.buffer].bytes()
    {
        return false;
    }
    let Some(producer) = order.producer(source.buffer) else { return false };
    let launch = &launches[producer];
    // A library cannot keep back what a commit must not write, so it writes memory of the step.
    if launch.kernel.is_collective() {
        return false;
    }
    // Buffers computed by the same launch are consecutive, so cache the overwrites of the last launch.
    if overwrites.as_ref().is_none_or(|(of, _)| *of != producer) {
        *overwrites = Some((producer, Overwrites::new(launch)));
    }
    let Some((_, overwrites)) = overwrites else { return false };
    overwrites.allow_buffer(source.buffer, target.buffer)
}

fn copied_error(graph: &Graph, update: &Update) -> Error {
    update_error(graph, update, "must be in place, but the step copies it")
        .note(
            "an output or another update reads its old value after the commit, or an op needs a changed \
             or contiguous copy of it",
        )
        .help("read what you need of it with an op that gives a new tensor, or allow the copy")
}

fn must_alias_error(graph: &Graph, update: &Update) -> Error {
    update_error(graph, update, "must be in place, but cannot be")
        .note(
            "its next value is no result of its own, is needed before the commit (by an output, a guard, or \
             an op that can trap), \
             or its old value is needed by an op that needs its next value, too",
        )
        .help("update a region of it instead, or allow the copy")
}

fn update_error(graph: &Graph, update: &Update, what: &str) -> Error {
    let target = graph.defining_op(update.target).and_then(|op| Graph::leaf_name(&op.kind)).unwrap_or("?");
    let error = Error::new(ErrorKind::Plan, format!("the update of `{target}` {what}"));
    graph.blame(graph.defining_op(update.value), error)
}

fn asking_op(graph: &Graph, value: ValueId) -> OpId {
    match graph.values[value].definition {
        crate::ir::Definition::Result(op, _) => op,
        crate::ir::Definition::BlockParam(..) => unreachable!("values of the entry block are results"),
    }
}
