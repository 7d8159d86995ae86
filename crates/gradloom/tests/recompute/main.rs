//! Tests recomputation, by `checkpoint` and by `Trainer::memory_budget`: it takes less memory, and the bits
//! are the same.

mod budget;
mod segments;

use gradloom::ir::{Graph, OpKind, Type};
use gradloom::prelude::*;
use gradloom::reference::{HostTensor, evaluate};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};

const BATCH: usize = 3;
const TIME: usize = 10;
const VOCABULARY: usize = 64;
const CONTEXT: usize = 64;

/// Returns a small GPT-2 with dropout, so that random numbers are recomputed, too.
fn gpt(layers: usize) -> Gpt2 {
    let config = Gpt2Config {
        vocabulary: VOCABULARY,
        context: CONTEXT,
        width: 32,
        heads: 4,
        layers,
        dropout: 0.2,
        ..Gpt2Config::default()
    };
    Gpt2::new(&config).unwrap()
}

fn trainer_of(model: Gpt2, batch: usize, time: usize) -> Trainer<Gpt2, 2> {
    Trainer::new(model)
        .inputs([i32("ids", [batch, time]), i32("targets", [batch, time])])
        .loss(|gpt, [ids, targets]| gpt.loss(ids, targets))
        .optimizer(AdamW::new(3e-3).weight_decay(0.1))
        .clip_norm(1.0)
        .seed(5)
}

/// Returns a trainer with small activations, for tests that run steps.
fn trainer(model: Gpt2) -> Trainer<Gpt2, 2> {
    trainer_of(model, BATCH, TIME)
}

/// Returns a trainer whose activations far outweigh the parameters, for tests that only plan steps.
fn long_trainer(model: Gpt2) -> Trainer<Gpt2, 2> {
    trainer_of(model, 16, CONTEXT)
}

fn ids(shift: usize) -> Vec<i32> {
    (0..BATCH * TIME).map(|i| ((i * 13 + shift * 7) % VOCABULARY) as i32).collect()
}

/// Returns the bits of a few losses, and the bytes of all parameters and states afterwards (the moments
/// depend on the gradients).
fn run(mut train: Train<Gpt2, 2>) -> (Vec<u32>, Vec<(String, Vec<u8>)>) {
    let losses = (0..4).map(|step| {
        let step = train.step([&ids(step), &ids(step + 1)]).unwrap();
        step.loss().unwrap().to_bits()
    });
    let losses = losses.collect();
    (losses, snapshot(&train))
}

/// Returns the bytes of every parameter and state.
fn snapshot<M: Module, const N: usize>(train: &Train<M, N>) -> Vec<(String, Vec<u8>)> {
    let store = train.store();
    store.entries().into_iter().map(|e| (e.name.clone(), store.read(&e.name).unwrap())).collect()
}

/// Returns the number of ops with the given name.
fn count(graph: &Graph, name: &str) -> usize {
    graph.entry_ops().filter(|(_, op)| op.kind.name() == name).count()
}

/// Checks in float64 that the outputs and next values that both graphs have are equal.
#[track_caller]
fn assert_same_meaning(before: &Graph, after: &Graph) {
    let [before, after] = [before, after].map(|graph| evaluate(graph, &leaf).unwrap());
    let loss = before.output("loss").unwrap().to_f64()[0];
    assert!(loss.is_finite() && loss > 0.0);
    assert_eq!(after.outputs[0].0, "loss");
    let of = |list: &[(String, HostTensor)], name: &str| {
        list.iter().find(|(known, _)| known == name).map(|(_, tensor)| tensor.to_f64())
    };
    let (mut compared, everything) = (0, [(&before.outputs, &after.outputs), (&before.next, &after.next)]);
    for (before, after) in everything {
        for (name, want) in before.iter().filter(|(name, _)| of(after, name).is_some()) {
            for (got, want) in of(after, name).unwrap().into_iter().zip(want.to_f64()) {
                assert!((got - want).abs() <= 1e-9 * want.abs().max(1e-3), "{name}: {got} for {want}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0);
}

/// Returns a value for each leaf: small numbers, or valid indices.
fn leaf(kind: &OpKind) -> Option<HostTensor> {
    let (name, ty) = match kind {
        OpKind::Input { name, ty } | OpKind::Param { name, ty } => (name, ty.clone()),
        // Values that correspond to betas of 0.9 and 0.999; all are in the range of their hyperparameter.
        OpKind::Scalar { name, dtype } => {
            let value = match name.as_str() {
                "optim.ln_beta1" => 0.9f64.ln(),
                "optim.ln_beta2" => 0.999f64.ln(),
                name if name.starts_with("rng.") => 3.0,
                _ => 0.5,
            };
            return Some(HostTensor::from_f64(Type::scalar(*dtype), [value]));
        }
        _ => return None,
    };
    let start: usize = name.bytes().map(usize::from).sum();
    let values = (start..start + ty.elements()).map(|i| match ty.dtype {
        DType::F32 => ((i * 37 % 101) as f64 - 50.0) / 200.0,
        _ => (i * 13 % VOCABULARY) as f64,
    });
    Some(HostTensor::from_f64(ty.clone(), values))
}
