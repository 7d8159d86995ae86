//! Recomputation: less memory, the same bits. `checkpoint` here, `memory_budget` in `budget`.

mod budget;
mod segments;

use gradloom::ir::{Graph, OpKind};
use gradloom::prelude::*;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};

const BATCH: usize = 3;
const CONTEXT: usize = 10;

/// A small GPT-2 with dropout, so that random numbers are among what is computed again.
fn gpt(layers: usize) -> Gpt2 {
    let config = Gpt2Config { vocabulary: 29, context: CONTEXT, width: 24, heads: 3, layers, dropout: 0.2 };
    Gpt2::new(&config).unwrap()
}

fn trainer(model: Gpt2) -> Trainer<Gpt2, 2> {
    Trainer::new(model)
        .inputs([i32("ids", [BATCH, CONTEXT]), i32("targets", [BATCH, CONTEXT])])
        .loss(|gpt, [ids, targets]| gpt.loss(ids, targets))
        .optimizer(AdamW::new(3e-3).weight_decay(0.1))
        .clip_norm(1.0)
        .seed(5)
}

fn ids(shift: usize) -> Vec<i32> {
    (0..BATCH * CONTEXT).map(|i| ((i * 13 + shift * 7) % 29) as i32).collect()
}

/// The losses of a few steps, bit by bit, and every byte that persists afterwards (the moments hold the gradients).
fn run(mut train: Train<Gpt2, 2>) -> (Vec<u32>, Vec<(String, Vec<u8>)>) {
    let losses = (0..4)
        .map(|step| {
            let losses = train.step([&ids(step), &ids(step + 1)]).unwrap();
            losses.loss().unwrap().to_bits()
        })
        .collect();
    let store = train.store();
    (losses, store.entries().into_iter().map(|e| (e.name.clone(), store.read(&e.name).unwrap())).collect())
}

fn count(graph: &Graph, kind: &OpKind) -> usize {
    graph.entry_ops().filter(|(_, op)| op.kind == *kind).count()
}
