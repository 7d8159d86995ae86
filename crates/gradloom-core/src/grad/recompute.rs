//! Recomputes the ops of a `checkpoint` where the backward pass needs them.
//!
//! Given the forward ops and the segments marked by `checkpoint`, `Recomputation` returns each differentiated
//! op with recomputed operands and results. A copy reads values from outside its segment through a
//! [`OpKind::Barrier`] that waits for the cotangent with which the segment is entered, so that the copy is
//! neither merged with the original nor run early. Random bits keep their site and therefore their values.
//! The copies of a nested segment are copied again.

use super::expand::Segment;
use crate::collections::{IdSet, SortedMap};
use crate::ir::{Builder, Graph, Op, OpId, OpKind, ValueId};

/// The copies in use during the traversal of the forward ops from last to first.
pub(super) struct Recomputation<'f> {
    /// Forward ops in order.
    pub(super) forward: &'f [OpId],
    /// Segments in forward order, inner ones before the enclosing ones.
    segments: Vec<Segment>,
    /// Recomputed segments that contain the current op, from the outermost to the innermost.
    entered: Vec<Copies>,
    /// All ops added by recomputation.
    added: IdSet<OpId>,
}

/// A recomputed segment.
struct Copies {
    segment: Segment,
    /// Copy of each value that the segment defines.
    values: SortedMap<ValueId, ValueId>,
}

impl<'f> Recomputation<'f> {
    pub(super) fn new(forward: &'f [OpId], segments: Vec<Segment>) -> Self {
        Self { forward, segments, entered: Vec::new(), added: IdSet::new() }
    }

    /// Returns a forward op with the values that its rule may read. `cotangent` is a cotangent of the op's
    /// results.
    pub(super) fn op(&mut self, graph: &mut Graph, position: usize, cotangent: ValueId) -> Op {
        self.entered.retain(|copies| copies.segment.contains(&position));
        // Drop segments after the current position, which are not entered any more.
        while self.segments.last().is_some_and(|segment| segment.start > position) {
            self.segments.pop();
        }
        // Iterate in reverse, because inner segments precede the enclosing ones in `segments` but must be
        // entered last.
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

    /// Returns the innermost copy of a value, or the value itself if no entered segment defines it.
    fn present(&self, value: ValueId) -> ValueId {
        self.entered.iter().rev().find_map(|copies| copies.values.get(&value).copied()).unwrap_or(value)
    }

    /// Appends copies of the ops of a segment.
    fn enter(&mut self, graph: &mut Graph, segment: Segment, cotangent: ValueId) {
        let first_new = graph.blocks[graph.entry].ops.len();
        let mut values = SortedMap::new();
        let mut outside: SortedMap<ValueId, ValueId> = SortedMap::new();
        for &id in &self.forward[segment.clone()] {
            let op = graph.ops[id].clone();
            if is_constant(&op.kind) {
                // Do not copy constants. A copy would save nothing, and passes do not fold constants through
                // barriers.
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
