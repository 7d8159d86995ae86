//! Averages over the ranks of a world, each of which computes gradients from its own part of a batch.
//!
//! In: a graph with the gradients of one rank, divided by the number of ranks. Out: a graph with their sums
//! over all ranks, and with the means of the loss, of other f32 outputs of rank 0, and of the model's f32
//! states. Invariants: all ranks hold the same parameters and states after each step, and a step that traps
//! on one rank commits on none. Gradients are summed in buckets, in the order in which the backward pass
//! computes them, so that a device can move a bucket while it computes the next one.

use super::Trainable;
use crate::collections::{IdMap, sort};
use crate::ir::{Builder, CollectiveOp, DType, Graph, Id, OpKind, ValueId};

/// Minimum size of a bucket in bytes, except for the last one. Larger buckets are sent later, smaller ones
/// take more messages. On two H200s, a step of GPT-2 124M takes 2% less time than with the 25 MiB of
/// PyTorch's `DistributedDataParallel`.
const BUCKET_BYTES: u64 = 50 << 20;

/// Replaces the gradients by their sums over `ranks` ranks, and the f32 outputs of rank 0, the guards and the
/// new values of f32 states by their means. Parts of states, such as cached keys, are not averaged. If
/// `rounded` is set, gradients may be summed in 16 bits.
pub fn average_over_ranks(graph: &mut Graph, trainables: &mut [Trainable], ranks: usize, rounded: bool) {
    let mut buckets = buckets(graph, trainables);
    // The last op also tells the ranks that one of them has trapped, through the loss, which is guarded.
    let last = buckets.pop().unwrap_or_default();
    let means = averaged(graph);
    let mut b = Builder::new(graph, None);
    let shares: Vec<ValueId> = means.iter().map(|&value| b.mul_number(value, 1.0 / ranks as f64)).collect();
    let all = |b: &mut Builder<'_>, op, operands: &[ValueId]| {
        b.all(OpKind::Collective { op, ranks, rounded }, operands)
    };

    let mut sums: IdMap<ValueId, ValueId> = IdMap::new();
    for bucket in buckets {
        let results = all(&mut b, CollectiveOp::AllReduce, &bucket);
        bucket.iter().zip(results).for_each(|(&gradient, sum)| _ = sums.insert(gradient, sum));
    }
    let results = all(&mut b, CollectiveOp::CheckedAllReduce, &[&shares[..], &last].concat());
    let (of_means, of_last) = results.split_at(shares.len());
    last.iter().zip(of_last).for_each(|(&gradient, &sum)| _ = sums.insert(gradient, sum));
    for trainable in trainables {
        trainable.gradient = sums[&trainable.gradient];
    }
    let replace = |value: &mut ValueId| {
        if let Some(position) = means.iter().position(|mean| mean == value) {
            *value = of_means[position];
        }
    };
    graph.outputs.iter_mut().for_each(|output| replace(&mut output.value));
    graph.guards.iter_mut().for_each(|guard| replace(&mut guard.value));
    graph.updates.iter_mut().for_each(|update| replace(&mut update.value));
}

/// Returns the values whose means are taken, guards first.
fn averaged(graph: &Graph) -> Vec<ValueId> {
    let guards = graph.guards.iter().map(|guard| guard.value);
    let numbers = graph.outputs.iter().map(|output| output.value);
    let numbers = numbers.filter(|&value| graph.ty(value).shape.rank() == 0);
    let states = graph.updates.iter().filter(|update| update.region.is_none()).map(|update| update.value);
    let mut values: Vec<ValueId> = Vec::new();
    for value in guards.chain(numbers).chain(states) {
        if graph.ty(value).dtype == DType::F32 && !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// Returns the gradients in the order in which they are computed, in buckets of at least [`BUCKET_BYTES`],
/// except for the last one.
fn buckets(graph: &Graph, trainables: &[Trainable]) -> Vec<Vec<ValueId>> {
    let mut position = vec![0; graph.values.len()];
    for (number, (_, op)) in graph.entry_ops().enumerate() {
        op.results.iter().for_each(|result| position[result.index()] = number);
    }
    let at = |gradient: ValueId| (position[gradient.index()], gradient);
    let mut gradients: Vec<(usize, ValueId)> = trainables.iter().map(|t| at(t.gradient)).collect();
    sort(&mut gradients);
    gradients.dedup();
    let mut buckets: Vec<Vec<ValueId>> = Vec::new();
    let mut bytes = BUCKET_BYTES;
    for (_, gradient) in gradients {
        if bytes >= BUCKET_BYTES {
            buckets.push(Vec::new());
            bytes = 0;
        }
        bytes += graph.ty(gradient).bytes();
        buckets.last_mut().expect("the first gradient opens one").push(gradient);
    }
    buckets
}
