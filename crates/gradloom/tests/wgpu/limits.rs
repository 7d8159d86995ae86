//! Tests adapters with limits smaller than a value: the value is bound in parts, or the computation is split.

use super::not_webgpu;
use gradloom::nn::{Embedding, Linear, Module};
use gradloom::{AdamW, Device, ErrorKind, Tensor, Train, Trainer, i32};
use gradloom_core::fuse::Fusion;

/// As in GPT-2, the token table is by far the largest value, and the output layer shares it.
#[derive(Module)]
struct Model {
    tokens: Embedding,
    inner: Linear,
    outer: Linear,
}

const VOCABULARY: usize = 301;
const WIDTH: usize = 20;
const TOKENS: usize = 9;

impl Model {
    fn loss(&self, ids: Tensor, targets: Tensor) -> Tensor {
        let hidden = self.inner.forward(self.tokens.forward(ids)).gelu();
        let hidden = self.outer.forward(hidden);
        hidden.matmul(self.tokens.weight.tensor().transpose(0, 1)).cross_entropy(targets)
    }
}

fn device(limit: fn(&mut gradloom_codegen::pipeline::Limits)) -> Device {
    let name = gradloom_testing::adapter::name();
    gradloom::testing::wgpu_limited(&name, limit, Fusion::SumsApart).unwrap_or_else(|error| panic!("{error}"))
}

fn compiled(device: &Device) -> Result<Train<Model, 2>, gradloom::Error> {
    let model = Model {
        tokens: Embedding::new(VOCABULARY, WIDTH),
        inner: Linear::new(WIDTH, 33),
        outer: Linear::new(33, WIDTH),
    };
    Trainer::new(model)
        .inputs([i32("ids", [TOKENS]), i32("targets", [TOKENS])])
        .loss(|model, [ids, targets]| model.loss(ids, targets))
        .optimizer(AdamW::new(0.01))
        .clip_norm(1.0)
        .seed(5)
        .compile(device)
}

fn losses(train: &mut Train<Model, 2>) -> Vec<f32> {
    let step = |step: usize| {
        let ids: Vec<i32> = (0..TOKENS).map(|i| ((i * 53 + step * 7) % VOCABULARY) as i32).collect();
        let targets: Vec<i32> = (0..TOKENS).map(|i| ((i * 31 + step) % VOCABULARY) as i32).collect();
        train.step((&ids, &targets)).unwrap().loss().unwrap()
    };
    (0..6).map(step).collect()
}

#[test]
fn a_value_larger_than_a_binding_is_bound_in_pieces() {
    if not_webgpu() {
        return;
    }
    // The table has 24,080 bytes, more than the limits below, as GPT-2's 154 MB exceed WebGPU's default of
    // 128 MiB.
    let whole = losses(&mut compiled(&device(|_| {})).unwrap());
    for (case, limited) in [
        device(|limits| limits.binding_bytes = 20 << 10),
        device(|limits| limits.binding_bytes = 8192),
        device(|limits| (limits.binding_bytes, limits.storage_buffers) = (20 << 10, 8)),
    ]
    .iter()
    .enumerate()
    {
        let mut train = compiled(limited).unwrap_or_else(|error| panic!("case {case}: {error}"));
        assert_eq!(losses(&mut train), whole, "case {case}");
    }
    assert!(whole[5] < whole[0], "{whole:?}");
}

#[test]
fn what_cannot_be_bound_says_how_much_it_needs_and_what_to_do() {
    if not_webgpu() {
        return;
    }
    let error = compiled(&device(|limits| (limits.binding_bytes, limits.storage_buffers) = (1024, 8))).err();
    let error = error.expect("the table would take 24 bindings");
    assert_eq!(error.kind(), ErrorKind::Plan);
    let text = error.to_string();
    assert!(text.contains("storage buffers of at most 1024 bytes, the adapter allows 8"), "{text}");
    assert!(text.contains("make the batch, the context or the vocabulary smaller"), "{text}");
}
