//! Rewriting of the graph so that chosen forward ops are recomputed for their late readers.
//!
//! A copy is placed directly before its first reader, so it is live no longer than necessary. It reads kept
//! values through a [`OpKind::Barrier`], so that no pass merges it with the original.

use super::live::{Forward, is_constant};
use crate::collections::{IdMap, IdSet, sort_by_key};
use crate::ir::{Builder, Graph, Id, OpId, OpKind, ValueId};
use crate::passes::dce::dce;

/// Replaces the operands of all ops after the forward pass by copies of the `chosen` ops' results. The last
/// op of the forward pass computes `last`.
pub(super) fn rewrite(forward: &Forward<'_>, last: ValueId, chosen: &IdSet<OpId>) -> Graph {
    let mut graph = forward.graph.clone();
    graph.cursor = graph.entry;
    let entry = graph.entry;
    let old = std::mem::take(&mut graph.blocks[entry].ops);
    let repeated = with_views(forward, &old, chosen);
    let mut copies =
        Copies { forward, repeated, values: IdMap::new(), barriers: IdMap::new(), products: [last, last] };
    for id in old {
        if forward.is_late(id) {
            for i in 0..forward.graph.ops[id].operands.len() {
                let operand = forward.graph.ops[id].operands[i];
                copies.make(&mut graph, operand);
                graph.ops[id].operands[i] = copies.values.get(&operand).copied().unwrap_or(operand);
            }
            if matches!(graph.ops[id].kind, OpKind::Dot(_) | OpKind::AttentionGrad(_)) {
                copies.products = [copies.products[1], graph.ops[id].results[0]];
            }
        }
        graph.blocks[entry].ops.push(id);
    }
    dce(&graph)
}

/// Returns, for each op by id, whether it is chosen or a view of a chosen op's result.
fn with_views(forward: &Forward<'_>, ops: &[OpId], chosen: &IdSet<OpId>) -> Vec<bool> {
    let mut repeated = vec![false; forward.graph.ops.len()];
    for &id in ops.iter().filter(|&&id| !forward.is_late(id)) {
        let op = &forward.graph.ops[id];
        repeated[id.index()] = chosen.contains(&id)
            || (op.kind.is_view() && repeated[forward.definition(op.operands[0]).index()]);
    }
    repeated
}

struct Copies<'f, 'g> {
    forward: &'f Forward<'g>,
    /// For each op by id, true if it is recomputed and has no copy yet.
    repeated: Vec<bool>,
    /// The copy of each value that has one.
    values: IdMap<ValueId, ValueId>,
    /// The values that copies read in place of kept values.
    barriers: IdMap<ValueId, ValueId>,
    /// Results of the last two products of the backward pass. Copies wait for the earlier one, because the
    /// reader of a copy may also read the later product and could not be fused with that product if the copy
    /// had to run between them.
    products: [ValueId; 2],
}

impl Copies<'_, '_> {
    /// Appends the copy of a value and of the values from which it is computed, as far as they are recomputed
    /// and have no copies yet.
    fn make(&mut self, graph: &mut Graph, value: ValueId) {
        let mut needed: Vec<OpId> = Vec::new();
        let mut waiting = vec![value];
        while let Some(value) = waiting.pop() {
            let id = self.forward.definition(value);
            if std::mem::take(&mut self.repeated[id.index()]) {
                needed.push(id);
                waiting.extend(&self.forward.graph.ops[id].operands);
            }
        }
        sort_by_key(&mut needed, |&id| self.forward.position(id));
        for id in needed {
            let op = &self.forward.graph.ops[id];
            let mut builder = Builder::new(graph, op.origin);
            let operands: Vec<ValueId> =
                op.operands.iter().map(|&operand| self.operand(&mut builder, operand)).collect();
            let results = builder.all(op.kind.clone(), &operands);
            self.values.extend(op.results.iter().copied().zip(results));
        }
    }

    /// Returns the value that a copy reads in place of an operand of the original.
    fn operand(&mut self, builder: &mut Builder<'_>, operand: ValueId) -> ValueId {
        if let Some(&copy) = self.values.get(&operand) {
            return copy;
        }
        if is_constant(&builder.graph.ops[self.forward.source(operand)].kind) {
            return operand;
        }
        let after = self.products[0];
        *self.barriers.get_or_insert_with(operand, || builder.op(OpKind::Barrier, &[operand, after]))
    }
}
