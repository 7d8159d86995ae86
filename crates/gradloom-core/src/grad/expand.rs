//! Inlining of block ops: `repeat` becomes its trips, `checkpoint` its block.
//!
//! In: a graph. Out: the same graph, whose entry block runs no other block, and which of its ops came out of
//! a `checkpoint`. Always holds: a value of the entry block keeps its id and meaning, so that the caller's
//! handles stay valid; inlined ops keep their origins.

use crate::collections::{IdMap, IdSet, SortedMap};
use crate::ir::{BlockId, Builder, Definition, Graph, OpId, OpKind, ValueId};
use crate::verify::check_expansion;
use std::ops::Range;

/// Positions in the entry block of the ops of one `checkpoint`. Two segments are nested or apart.
pub(super) type Segment = Range<usize>;

/// Inlines the `repeat` and `checkpoint` ops of the entry block, and those inside them. A graph whose blocks
/// the verifier refuses for what they would become stays as it is.
pub fn expand_blocks(graph: &mut Graph) {
    if check_expansion(graph).is_ok() {
        expand_segments(graph);
    }
}

/// Inlines the blocks of a graph that passed [`check_expansion`]; returns where each `checkpoint` went, inner
/// ones before those around them.
pub(super) fn expand_segments(graph: &mut Graph) -> Vec<Segment> {
    let mut segments = Vec::new();
    if !graph.entry_ops().any(|(_, op)| op.kind.block().is_some()) {
        return segments;
    }
    let cursor = std::mem::replace(&mut graph.cursor, graph.entry);
    let entry = graph.entry;
    for id in std::mem::take(&mut graph.blocks[entry].ops) {
        match graph.ops[id].kind.block() {
            None => graph.blocks[entry].ops.push(id),
            Some(_) => replace(graph, id, &mut segments),
        }
    }
    graph.cursor = cursor;
    segments
}

/// Appends what a block op computes to the entry block, as the definition of the block op's results.
fn replace(graph: &mut Graph, id: OpId, segments: &mut Vec<Segment>) {
    let (operands, old) = (graph.ops[id].operands.clone(), graph.ops[id].results.clone());
    let first = graph.blocks[graph.entry].ops.len();
    let inlined = inline(graph, id, &operands, segments);
    // A result gets its old id only where an inlined op defines it and no other result claimed it before.
    let mut claimed: IdSet<ValueId> = IdSet::new();
    let inlined: Vec<_> = inlined
        .into_iter()
        .map(|value| {
            let new = is_defined_since(graph, first, value) && claimed.insert(value);
            if new { value } else { copy(graph, id, value) }
        })
        .collect();
    let mut renamed = IdMap::new();
    for (old, new) in old.into_iter().zip(inlined) {
        swap_definitions(graph, old, new);
        renamed.insert(new, old);
    }
    for &id in &graph.blocks[graph.entry].ops[first..] {
        for operand in &mut graph.ops[id].operands {
            *operand = renamed.get(operand).copied().unwrap_or(*operand);
        }
    }
}

/// Appends what a block op computes on the given operands; returns its results.
fn inline(graph: &mut Graph, id: OpId, operands: &[ValueId], segments: &mut Vec<Segment>) -> Vec<ValueId> {
    match graph.ops[id].kind {
        OpKind::Repeat { .. } => repeat(graph, id, operands, segments),
        OpKind::Checkpoint { block } => {
            let first = graph.blocks[graph.entry].ops.len();
            let results = run(graph, block, operands, segments);
            segments.push(first..graph.blocks[graph.entry].ops.len());
            results
        }
        _ => unreachable!("{} runs no block", graph.ops[id].kind.name()),
    }
}

fn repeat(graph: &mut Graph, id: OpId, operands: &[ValueId], segments: &mut Vec<Segment>) -> Vec<ValueId> {
    let OpKind::Repeat { block, trip, carried } = graph.ops[id].kind else {
        unreachable!("the caller looked at the kind")
    };
    let origin = graph.ops[id].origin;
    let (carried, stacked) = operands.split_at(carried);
    let mut carried = carried.to_vec();
    let mut slices: Vec<Vec<ValueId>> = vec![Vec::new(); graph.blocks[block].results.len() - carried.len()];
    for turn in 0..trip {
        let mut builder = Builder::new(graph, origin);
        let entering = stacked.iter().map(|&whole| slice_of(&mut builder, whole, turn)).collect::<Vec<_>>();
        let mut leaving = run(graph, block, &[&carried[..], &entering].concat(), segments);
        for (slices, slice) in slices.iter_mut().zip(leaving.split_off(carried.len())) {
            slices.push(slice);
        }
        carried = leaving;
    }
    let types: Vec<_> = graph.ops[id].results[carried.len()..].iter().map(|&v| graph.ty(v).clone()).collect();
    let mut builder = Builder::new(graph, origin);
    for (ty, slices) in types.into_iter().zip(slices) {
        // No trip has no slice to take the type from.
        let stack = if slices.is_empty() { builder.splat(&ty, 0.0) } else { stack(&mut builder, &slices) };
        carried.push(stack);
    }
    carried
}

/// Appends the ops of a block with the given values for its parameters; returns its results.
fn run(graph: &mut Graph, block: BlockId, operands: &[ValueId], segments: &mut Vec<Segment>) -> Vec<ValueId> {
    let body = graph.blocks[block].clone();
    let mut values: SortedMap<ValueId, ValueId> =
        body.params.into_iter().zip(operands.iter().copied()).collect();
    for id in body.ops {
        let op = graph.ops[id].clone();
        let operands: Vec<_> = op.operands.iter().map(|v| values[v]).collect();
        let results = match op.kind.block() {
            Some(_) => inline(graph, id, &operands, segments),
            None => Builder::new(graph, op.origin).all(op.kind, &operands),
        };
        values.extend(op.results.into_iter().zip(results));
    }
    body.results.iter().map(|v| values[v]).collect()
}

/// Appends element `index` of the first axis, without that axis.
fn slice_of(builder: &mut Builder<'_>, whole: ValueId, index: usize) -> ValueId {
    let shape = builder.shape(whole);
    let (mut start, mut limit) = (vec![0; shape.rank()], shape.to_vec());
    (start[0], limit[0]) = (index, index + 1);
    let kept = builder.op(OpKind::Slice { start, limit, step: vec![1; shape.rank()] }, &[whole]);
    builder.reshape(kept, &shape[1..])
}

/// Appends the values along a new first axis.
fn stack(builder: &mut Builder<'_>, slices: &[ValueId]) -> ValueId {
    let shape = [&[1], &builder.shape(slices[0])[..]].concat();
    let kept: Vec<_> = slices.iter().map(|&slice| builder.reshape(slice, shape.clone())).collect();
    builder.op(OpKind::Concat { axis: 0 }, &kept)
}

/// Appends a second definition of a value: the reshape to its own shape.
fn copy(graph: &mut Graph, id: OpId, value: ValueId) -> ValueId {
    let shape = graph.ty(value).shape.clone();
    let origin = graph.ops[id].origin;
    Builder::new(graph, origin).op(OpKind::Reshape { shape }, &[value])
}

/// Returns whether an op of the entry block at or after a position defines the value.
fn is_defined_since(graph: &Graph, first: usize, value: ValueId) -> bool {
    let Definition::Result(op, _) = graph.values[value].definition else { return false };
    graph.blocks[graph.entry].ops[first..].contains(&op)
}

/// Exchanges the places where two values of one type are defined.
fn swap_definitions(graph: &mut Graph, a: ValueId, b: ValueId) {
    let (at_a, at_b) = (graph.values[a].definition, graph.values[b].definition);
    for (value, at) in [(a, at_b), (b, at_a)] {
        let Definition::Result(op, index) = at else { unreachable!("only results of ops are exchanged") };
        graph.ops[op].results[index] = value;
        graph.values[value].definition = at;
    }
}
