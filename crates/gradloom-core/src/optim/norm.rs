//! The norm of gradients.

use crate::ir::{Builder, CollectiveOp, OpKind, ReduceOp, UnaryOp, ValueId};

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
