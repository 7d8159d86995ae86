//! Inlining of block ops: `repeat` becomes its iterations, `checkpoint` its block.
//!
//! After inlining, the entry block runs no other block. Values of the entry block keep their ids and
//! meanings, so the caller's handles remain valid, and inlined ops keep their origins. The positions of ops
//! from a `checkpoint` are returned.

use crate::collections::{IdMap, IdSet, SortedMap};
use crate::ir::{BlockId, Builder, Definition, Graph, OpId, OpKind, ValueId};
use crate::verify::check_expansion;
use std::ops::Range;

/// Positions in the entry block of the ops of one `checkpoint`. Any two segments are nested or disjoint.
pub(super) type Segment = Range<usize>;

/// Inlines the `repeat` and `checkpoint` ops of the entry block, including nested ones. Leaves the graph
/// unchanged if the verifier rejects the expansion of its blocks.
pub fn expand_blocks(graph: &mut Graph) {
    if check_expansion(graph).is_ok() {
        expand_segments(graph);
    }
}

/// Inlines the blocks of a graph that passed [`check_expansion`]. Returns the segment of each `checkpoint`,
/// inner ones before the enclosing ones.
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

/// Appends the ops of a block op to the entry block, so that they define the block op's results.
fn replace(graph: &mut Graph, id: OpId, segments: &mut Vec<Segment>) {
    let (operands, old) = (graph.ops[id].operands.clone(), graph.ops[id].results.clone());
    let first = graph.blocks[graph.entry].ops.len();
    let inlined = inline(graph, id, &operands, segments);
    // A result keeps its old id only if an inlined op defines it and no other result has claimed it.
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

/// Appends the ops of a block op with the given operands. Returns its results.
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
        // Without iterations, no slice determines the type, so use an empty constant of the known type.
        let stack = if slices.is_empty() { builder.splat(&ty, 0.0) } else { stack(&mut builder, &slices) };
        carried.push(stack);
    }
    carried
}

/// Appends the ops of a block with the given values for its parameters. Returns its results.
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

/// Appends element `index` of the first axis, with that axis removed.
fn slice_of(builder: &mut Builder<'_>, whole: ValueId, index: usize) -> ValueId {
    let shape = builder.shape(whole);
    let (mut start, mut limit) = (vec![0; shape.rank()], shape.to_vec());
    (start[0], limit[0]) = (index, index + 1);
    let kept = builder.op(OpKind::Slice { start, limit, step: vec![1; shape.rank()] }, &[whole]);
    builder.reshape(kept, &shape[1..])
}

/// Appends the concatenation of the values along a new first axis.
fn stack(builder: &mut Builder<'_>, slices: &[ValueId]) -> ValueId {
    let shape = [&[1], &builder.shape(slices[0])[..]].concat();
    let kept: Vec<_> = slices.iter().map(|&slice| builder.reshape(slice, shape.clone())).collect();
    builder.op(OpKind::Concat { axis: 0 }, &kept)
}

/// Appends a copy of a value, as a reshape to the same shape.
fn copy(graph: &mut Graph, id: OpId, value: ValueId) -> ValueId {
    let shape = graph.ty(value).shape.clone();
    let origin = graph.ops[id].origin;
    Builder::new(graph, origin).op(OpKind::Reshape { shape }, &[value])
}

/// Returns `true` if an op at or after position `first` of the entry block defines the value.
fn is_defined_since(graph: &Graph, first: usize, value: ValueId) -> bool {
    let Definition::Result(op, _) = graph.values[value].definition else { return false };
    graph.blocks[graph.entry].ops[first..].contains(&op)
}

/// Exchanges the definitions of two values of the same type.
fn swap_definitions(graph: &mut Graph, a: ValueId, b: ValueId) {
    let (at_a, at_b) = (graph.values[a].definition, graph.values[b].definition);
    for (value, at) in [(a, at_b), (b, at_a)] {
        let Definition::Result(op, index) = at else { unreachable!("only results of ops are exchanged") };
        graph.ops[op].results[index] = value;
        graph.values[value].definition = at;
    }
}
