//! The results of the forward pass that later ops read: which ones are kept, and which of those can be
//! recomputed.
//!
//! [`Forward`] is created from a graph without block ops and the last op of its forward pass. Views own no
//! bytes, so a reader of a view reads its source, the op that owns the bytes.

use crate::collections::IdSet;
use crate::ir::{Definition, Graph, Id, Op, OpId, OpKind, ValueId};

/// The ops of a graph and the end of its forward pass.
pub(super) struct Forward<'g> {
    pub(super) graph: &'g Graph,
    /// Position of each op in the entry block, by id; `usize::MAX` for other ops.
    position: Vec<usize>,
    /// Position of the last op of the forward pass.
    end: usize,
    /// Ops whose results are read by name or persist.
    pinned: IdSet<OpId>,
}

impl<'g> Forward<'g> {
    /// Finds the forward pass of `graph`, whose last op computes `last`.
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

    /// Returns the op that owns the bytes of a value.
    pub(super) fn source(&self, value: ValueId) -> OpId {
        let mut op = self.definition(value);
        while self.graph.ops[op].kind.is_view() {
            op = self.definition(self.graph.ops[op].operands[0]);
        }
        op
    }

    /// Returns the position of an op in the entry block.
    pub(super) fn position(&self, op: OpId) -> usize {
        self.position[op.index()]
    }

    /// Returns `true` if an op is after the forward pass.
    pub(super) fn is_late(&self, op: OpId) -> bool {
        self.position(op) > self.end
    }

    /// Returns the sources of the values that an op reads.
    pub(super) fn reads(&self, op: &'g Op) -> impl Iterator<Item = OpId> + '_ {
        // A barrier does not read the awaited value, so only its first operand counts.
        let read = if op.kind == OpKind::Barrier { 1 } else { op.operands.len() };
        op.operands[..read].iter().map(|&value| self.source(value))
    }

    /// Returns `true` if a forward op may be recomputed in the backward pass.
    pub(super) fn is_repeatable(&self, op: OpId) -> bool {
        let Op { kind, operands, .. } = &self.graph.ops[op];
        let constant = |&value: &ValueId| is_constant(&self.graph.ops[self.source(value)].kind);
        // Exclude user-defined ops, whose costs are unknown, collective ops, which wait, and values that
        // depend only on constants, which are constants too.
        !kind.is_external_leaf()
            && !is_constant(kind)
            && !matches!(kind, OpKind::Custom(_) | OpKind::Collective { .. })
            && !self.pinned.contains(&op)
            && !self.is_late(op)
            && !operands.iter().all(constant)
    }

    /// Returns the forward ops that own bytes that are read after the forward pass.
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

/// Returns `true` if an op's value is known without running any launch.
pub(super) fn is_constant(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Constant { .. } | OpKind::Iota { .. })
}
