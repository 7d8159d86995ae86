//! Computes the ops of a `checkpoint` a second time where the backward pass needs them.
//!
//! In: the ops of the forward pass and the segments among them that `checkpoint` marked. Out: for each op
//! that is differentiated, the op as its rule shall see it: with operands and results that were computed
//! again. Always holds: a copy reads what is outside of its segment through a [`OpKind::Barrier`] that waits
//! for the cotangent with which the segment is entered, so that it is not merged with the original, nor can
//! run before; random bits keep their site, hence their numbers; the copies of a nested segment are copied
//! again.

use super::expand::Segment;
use crate::collections::{IdSet, SortedMap};
use crate::ir::{Builder, Graph, Op, OpId, OpKind, ValueId};

/// The copies that the walk over the forward ops, last to first, is using.
pub(super) struct Recomputation<'f> {
    /// The ops of the forward pass in order.
    pub(super) forward: &'f [OpId],
    /// Inner ones before those around them, the last ones of the forward pass at the end.
    segments: Vec<Segment>,
    /// The segments that the walk is in and that have been computed again, from the outermost inwards.
    entered: Vec<Copies>,
    /// All ops that were added.
    added: IdSet<OpId>,
}

/// One segment, computed again.
struct Copies {
    segment: Segment,
    /// The copy of each value that the segment defines.
    values: SortedMap<ValueId, ValueId>,
}

impl<'f> Recomputation<'f> {
    pub(super) fn new(forward: &'f [OpId], segments: Vec<Segment>) -> Self {
        Self { forward, segments, entered: Vec::new(), added: IdSet::new() }
    }

    /// Returns an op of the forward pass with the values that its rule may read. `cotangent` arrives at the
    /// op.
    pub(super) fn op(&mut self, graph: &mut Graph, position: usize, cotangent: ValueId) -> Op {
        self.entered.retain(|copies| copies.segment.contains(&position));
        // Segments that lie behind will not be entered any more.
        while self.segments.last().is_some_and(|segment| segment.start > position) {
            self.segments.pop();
        }
        // A segment stands after those inside it: the other way round, the outer ones come first.
        let around: Vec<Segment> =
            self.segments.iter().rev().filter(|segment| segment.contains(&position)).cloned().collect();
        for segment in around.into_iter().skip(self.entered.len()) {
            self.enter(graph, segment, cotangent);
        }
        let mut op = graph.ops[self.forward[position]].clone();
        for value in op.operands.iter_mut().chain(&mut op.results) {
            *value = self.present(*value);
        }
        op
    }

    /// Returns the innermost copy of a value, or the value itself outside of all segments that were
    /// entered.
    fn present(&self, value: ValueId) -> ValueId {
        self.entered.iter().rev().find_map(|copies| copies.values.get(&value).copied()).unwrap_or(value)
    }

    /// Appends the ops of a segment once more.
    fn enter(&mut self, graph: &mut Graph, segment: Segment, cotangent: ValueId) {
        let first_new = graph.blocks[graph.entry].ops.len();
        let mut values = SortedMap::new();
        let mut outside: SortedMap<ValueId, ValueId> = SortedMap::new();
        for &id in &self.forward[segment.clone()] {
            let op = graph.ops[id].clone();
            if is_constant(&op.kind) {
                // There is nothing to save, and passes see through constants but not through barriers.
                continue;
            }
            let mut builder = Builder::new(graph, op.origin);
            let operands: Vec<ValueId> = op
                .operands
                .iter()
                .map(|operand| match values.get(operand) {
                    Some(&copy) => copy,
                    None => *outside.get_or_insert_with(*operand, || {
                        let value = self.present(*operand);
                        let constant =
                            builder.graph.defining_op(value).is_some_and(|op| is_constant(&op.kind));
                        if constant { value } else { builder.op(OpKind::Barrier, &[value, cotangent]) }
                    }),
                })
                .collect();
            let results = builder.all(op.kind, &operands);
            values.extend(op.results.into_iter().zip(results));
        }
        self.added.extend(&graph.blocks[graph.entry].ops[first_new..]);
        self.entered.push(Copies { segment, values });
    }

    /// Removes the copies that no rule has read.
    pub(super) fn remove_unused(self, graph: &mut Graph, gradients: &[Option<ValueId>]) {
        let mut read: IdSet<ValueId> = gradients.iter().flatten().copied().collect();
        let entry = graph.entry;
        let mut ops = std::mem::take(&mut graph.blocks[entry].ops);
        ops.reverse();
        ops.retain(|id| {
            let op = &graph.ops[*id];
            let stays = !self.added.contains(id) || op.results.iter().any(|value| read.contains(value));
            if stays {
                read.extend(&op.operands);
            }
            stays
        });
        ops.reverse();
        graph.blocks[entry].ops = ops;
    }
}

fn is_constant(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Constant { .. } | OpKind::Iota { .. })
}
