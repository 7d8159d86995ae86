//! Clipping by value, and by global norm with PyTorch's formula (`clip_grad_norm_`):
//! `g · min(1, max_norm / (norm + 1e-6))`. Pascanu, Mikolov, Bengio, 2013.

use crate::ir::{BinaryOp, Builder, CollectiveOp, OpKind, ReduceOp, UnaryOp, ValueId};

/// Appends the global norm of the gradients, which is the Euclidean norm of all their elements and has rank
/// 0. If a gradient comes with a number of ranks, it is that of one rank's shard of a parameter.
pub fn global_norm(
    builder: &mut Builder<'_>,
    gradients: impl IntoIterator<Item = (ValueId, Option<usize>)>,
) -> ValueId {
    let (mut squares, mut of_shards, mut all_ranks) = (Vec::new(), Vec::new(), 1);
    for (gradient, ranks) in gradients {
        let square = builder.mul(gradient, gradient);
        let axes: Vec<usize> = (0..builder.shape(square).rank()).collect();
        let sum = builder.reduce(ReduceOp::Sum, square, &axes);
        let sum = builder.reshape(sum, [1]);
        match ranks {
            None => squares.push(sum),
            Some(ranks) => {
                of_shards.push(sum);
                all_ranks = ranks;
            }
        }
    }
    if !of_shards.is_empty() {
        let own = total(builder, &of_shards);
        let own = builder.reshape(own, [1]);
        let op = CollectiveOp::AllReduce;
        squares.push(builder.op(OpKind::Collective { op, ranks: all_ranks, rounded: false }, &[own]));
    }
    let total = total(builder, &squares);
    builder.unary(UnaryOp::Sqrt, total)
}

/// Appends the sum of vectors of one element, which has rank 0.
fn total(builder: &mut Builder<'_>, numbers: &[ValueId]) -> ValueId {
    let all = builder.op(OpKind::Concat { axis: 0 }, numbers);
    builder.reduce(ReduceOp::Sum, all, &[0])
}

/// Clamps the elements of gradients to `-limit..=limit`; `limit` is f32 of rank 0.
pub fn clip_by_value(builder: &mut Builder<'_>, gradients: &[ValueId], limit: ValueId) -> Vec<ValueId> {
    let least = builder.neg(limit);
    gradients
        .iter()
        .map(|&gradient| {
            let shape = builder.shape(gradient);
            let (limit, least) = (builder.broadcast(limit, &shape), builder.broadcast(least, &shape));
            let bounded = builder.binary(BinaryOp::Min, gradient, limit);
            builder.binary(BinaryOp::Max, bounded, least)
        })
        .collect()
}

/// Scales all gradients down by the same factor, so that their global norm becomes at most `max_norm`. The
/// global norm before scaling is `norm`. `norm` and `max_norm` are f32 of rank 0.
pub fn clip_by_global_norm(
    builder: &mut Builder<'_>,
    gradients: &[ValueId],
    norm: ValueId,
    max_norm: ValueId,
) -> Vec<ValueId> {
    let safe = builder.add_number(norm, 1e-6);
    let ratio = builder.div(max_norm, safe);
    let one = builder.number(1.0);
    let factor = builder.binary(BinaryOp::Min, ratio, one);
    gradients
        .iter()
        .map(|&gradient| {
            let shape = builder.shape(gradient);
            let factor = builder.broadcast(factor, &shape);
            builder.mul(gradient, factor)
        })
        .collect()
}
