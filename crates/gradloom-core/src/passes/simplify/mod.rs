//! Algebraic simplification, which removes ops or replaces them by cheaper ones.
//!
//! Results are bitwise identical in float32, except for the payload of a NaN. `x * 1` and `x - 0` are
//! therefore removed, but `x * 0` (NaN) and `x + 0` (`-0`) are not. The only reassociation is that of a sum
//! with scattered updates, which are added one by one.

mod arithmetic;
mod movement;
mod sums;

use super::rewriter::rebuild;
use crate::ir::{Builder, Graph, Id, Op, OpKind, ValueId};

/// Simplifies the ops of all blocks.
pub fn simplify(graph: &Graph) -> Graph {
    let uses = use_counts(graph);
    rebuild(
        graph,
        |_| true,
        |builder, op| {
            let found = sums::add_to_scattered(builder, &uses, op)
                .or_else(|| movement::transposed_dot(builder, &uses, op))
                .or_else(|| simplified(builder, op.kind, op.operands));
            found.map(|value| vec![value])
        },
    )
}

/// Returns a cheaper value that equals the op's result, if a rule finds one.
fn simplified(b: &mut Builder<'_>, kind: &OpKind, x: &[ValueId]) -> Option<ValueId> {
    match kind {
        OpKind::Unary(op) => arithmetic::unary(b, *op, x[0]),
        OpKind::Binary(op) => arithmetic::binary(b, *op, x[0], x[1]),
        OpKind::Select => arithmetic::select(b, x[0], x[1], x[2]),
        OpKind::Cast { dtype } => arithmetic::cast(b, *dtype, x[0]),
        OpKind::Reduce { axes, .. } => movement::reduce(b, axes, x[0]),
        OpKind::Reshape { shape } => movement::reshape(b, shape, x[0]),
        OpKind::Permute { perm } => movement::permute(b, perm, x[0]),
        OpKind::Broadcast { shape } => movement::broadcast(b, shape, x[0]),
        OpKind::Slice { start, limit, step } => movement::slice(b, [start, limit, step], x[0]),
        OpKind::Pad { low, high, interior, .. } => movement::pad(b, [low, high, interior], x[0]),
        OpKind::Concat { axis } => movement::concat(b, *axis, x),
        _ => None,
    }
}

/// Appends an op with one result, or its simplification.
fn emit(b: &mut Builder<'_>, kind: OpKind, operands: &[ValueId]) -> ValueId {
    simplified(b, &kind, operands).unwrap_or_else(|| b.op(kind, operands))
}

/// Returns the number of reads of each value, by id. A barrier does not read the awaited value.
pub(super) fn use_counts(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.values.len()];
    let read = |op: &Op| if op.kind == OpKind::Barrier { 1 } else { op.operands.len() };
    let operands = graph.ops.iter().flat_map(|(_, op)| &op.operands[..read(op)]);
    let results = graph.blocks.iter().flat_map(|(_, block)| &block.results);
    let updates =
        graph.updates.iter().flat_map(|u| [&u.target, &u.value].into_iter().chain(u.region.iter().flatten()));
    let read = graph.outputs.iter().map(|o| &o.value).chain(graph.guards.iter().map(|g| &g.value));
    for value in operands.chain(results).chain(updates).chain(read) {
        uses[value.index()] += 1;
    }
    uses
}
