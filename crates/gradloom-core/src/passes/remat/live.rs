//! The results of the forward pass that later ops read: which are kept, and which of those can be computed
//! again.
//!
//! In: a graph without block ops and the last op of its forward pass. Out: [`Forward`]. Views own no bytes: a
//! reader of a view reads the op behind it, its source.

use crate::collections::IdSet;
use crate::ir::{Definition, Graph, Id, Op, OpId, OpKind, ValueId};

/// The ops of a graph, with where the forward pass ends.
pub(super) struct Forward<'g> {
    pub(super) graph: &'g Graph,
    /// Position of each op in the entry block, by id; `usize::MAX` for ops elsewhere.
    position: Vec<usize>,
    /// Position of the op that ends the forward pass.
    end: usize,
    /// Ops whose results are read by name or persist.
    pinned: IdSet<OpId>,
}

impl<'g> Forward<'g> {
    /// Finds the forward pass of `graph`, which ends with the op that computes `last`.
    pub(super) fn new(graph: &'g Graph, last: ValueId) -> Self {
        let mut position = vec![usize::MAX; graph.ops.len()];
        for (i, (id, _)) in graph.entry_ops().enumerate() {
            position[id.index()] = i;
        }
        let mut forward = Self { graph, position, end: 0, pinned: IdSet::new() };
        forward.end = forward.position[forward.definition(last).index()];
        let read = graph.outputs.iter().map(|o| o.value).chain(graph.guards.iter().map(|g| g.value));
        let next = graph.updates.iter().flat_map(|u| u.region.iter().flatten().copied().chain([u.value]));
        forward.pinned = read.chain(next).map(|value| forward.source(value)).collect();
        forward
    }

    /// Returns the op that defines a value of the entry block.
    pub(super) fn definition(&self, value: ValueId) -> OpId {
        match self.graph.values[value].definition {
            Definition::Result(op, _) => op,
            Definition::BlockParam(..) => unreachable!("values of the entry block are results"),
        }
    }

    /// Returns the op that owns the bytes behind a value.
    pub(super) fn source(&self, value: ValueId) -> OpId {
        let mut op = self.definition(value);
        while self.graph.ops[op].kind.is_view() {
            op = self.definition(self.graph.ops[op].operands[0]);
        }
        op
    }

    /// Returns the position in the entry block.
    pub(super) fn position(&self, op: OpId) -> usize {
        self.position[op.index()]
    }

    /// Returns whether an op stands after the forward pass.
    pub(super) fn is_late(&self, op: OpId) -> bool {
        self.position(op) > self.end
    }

    /// Returns the sources of what an op reads; none for leaves.
    pub(super) fn reads(&self, op: &'g Op) -> impl Iterator<Item = OpId> + '_ {
        // A barrier does not read the value that it waits for.
        let read = if op.kind == OpKind::Barrier { 1 } else { op.operands.len() };
        op.operands[..read].iter().map(|&value| self.source(value))
    }

    /// Returns whether an op of the forward pass may be computed a second time, late.
    pub(super) fn is_repeatable(&self, op: OpId) -> bool {
        let Op { kind, operands, .. } = &self.graph.ops[op];
        let constant = |&value: &ValueId| is_constant(&self.graph.ops[self.source(value)].kind);
        // A user's code has an unknown cost. What depends on constants alone is a constant.
        !kind.is_external_leaf()
            && !is_constant(kind)
            && !matches!(kind, OpKind::Custom(_))
            && !self.pinned.contains(&op)
            && !self.is_late(op)
            && !operands.iter().all(constant)
    }

    /// Returns the ops of the forward pass that own bytes which are read later.
    pub(super) fn kept(&self) -> IdSet<OpId> {
        let late = self.graph.entry_ops().filter(|(id, op)| self.is_late(*id) && !op.kind.is_view());
        let read = late.flat_map(|(_, op)| self.reads(op));
        read.chain(self.pinned.iter().copied()).filter(|&op| !self.is_late(op)).collect()
    }

    /// Returns the number of bytes of an op's results.
    pub(super) fn bytes(&self, op: OpId) -> f64 {
        self.graph.ops[op].results.iter().map(|&value| self.graph.ty(value).bytes() as f64).sum()
    }
}

/// Returns whether an op's value is known without running anything.
pub(super) fn is_constant(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Constant { .. } | OpKind::Iota { .. })
}
