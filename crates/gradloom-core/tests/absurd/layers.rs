//! Layers with absurd sizes. A constructor must return a layer or panic at its caller's location; the layer
//! is then applied to tensors of all types.

use super::values::{Absurd, PerAxis, each};
use super::{Report, types};
use gradloom_core::ir::{DType, Type};
use gradloom_core::nn::layers::*;
use gradloom_core::nn::{CausalSelfAttention, Init, KeyValueCache, LowRank, Module, Param, State};
use gradloom_core::trace::{AttentionOptions, ConvOptions, PoolOptions, Tensor};

/// Creates a layer and applies it to tensors of all types.
fn layer<L: Module>(
    report: &mut Report,
    name: &str,
    arguments: &dyn Fn() -> String,
    make: impl FnOnce() -> L,
    forward: impl Fn(&L, Tensor) -> Tensor,
) {
    let call = || format!("{name} with {}", arguments());
    let Some(layer) = report.made(&call, make) else { return };
    for ty in &types() {
        report.traced(name, &layer, &[ty], arguments, &|x| _ = forward(&layer, x[0]));
    }
}

macro_rules! layers {
    ($report:ident; $([$($arg:ident: $ty:ty),*] $make:expr, $forward:expr;)*) => {$(
        each!([$($arg: $ty),*] {
            layer(&mut $report, stringify!($make), &|| format!("{:?}", ($($arg,)*)), || $make, $forward);
        });
    )*};
}

#[test]
fn layers_of_any_size() {
    let mut r = Report::new();
    layers! { r;
        [a: usize, b: usize] Linear::new(*a, *b), |l, x| l.forward(x);
        [a: usize, b: usize] Linear::no_bias(*a, *b).init(Init::Zeros), |l, x| l.forward(x);
        [a: usize, b: usize] Embedding::new(*a, *b).init(Init::Ones), |l, x| l.forward(x);
        [p: f64] Dropout::new(*p), |l, x| l.forward(x);
        [a: usize] LayerNorm::new(*a), |l, x| l.forward(x);
        [a: usize] RmsNorm::new(*a), |l, x| l.forward(x);
        [a: usize, b: usize] GroupNorm::new(*a, *b), |l, x| l.forward(x);
        [a: usize] BatchNorm::new(*a), |l, x| l.forward(x);
        [a: usize, b: usize] Lstm::new(*a, *b), |l, x| l.forward(x);
        [a: usize, b: usize] Lstm::new(*a, *b), |l, x| l.run(x, (x, x)).0;
        [a: usize, b: usize] Gru::new(*a, *b), |l, x| l.forward(x);
        [a: usize, b: usize] Gru::new(*a, *b), |l, x| l.run(x, x).0;
        [a: usize, b: usize] CausalSelfAttention::new(*a, *b).init(Init::Zeros, Init::Zeros), |l, x| l.forward(x);
        [a: usize, b: usize] CausalSelfAttention::new(*a, *b), |l, x| l.forward_by(x, |[q, _, _]| q);
        [a: usize, b: usize] MultiHeadAttention::new(*a, *b), |l, x| l.forward(x, AttentionOptions::causal());
        [a: usize, b: usize] TransformerBlock::new(*a, *b).norm_last(), |l, x| l.forward(x);
        [a: usize, p: f64] TransformerBlock::new(2, 1).hidden(*a).dropout(*p).causal(), |l, x| l.forward(x);
        [p: f64] MultiHeadAttention::new(2, 1).dropout(*p), |l, x| l.over(x, x, AttentionOptions::full());
        [s: PerAxis] MaxPool2d::new(&s.0[..]), |l, x| l.forward(x);
        [s: PerAxis, p: PerAxis] AvgPool2d::new(2).options(PoolOptions::new().stride(&s.0[..]).padding(&p.0[..])),
            |l, x| l.forward(x);
        [s: PerAxis] AdaptiveAvgPool2d::new(&s.0[..]), |l, x| l.forward(x);
        [] Flatten, |l, x| l.forward(x);
        [] Sequential::new().layer(Flatten).function(Tensor::mean), |l, x| l.forward(x);
        [a: usize, b: usize] [Param::new([*a, *b], Init::Zeros)], |l, x| x.matmul(&l[0]);
        [a: usize, v: f64] [State::new([*a], DType::F32, *v)], |l, x| { l[0].set(x); l[0].tensor() };
        [a: usize, v: f64] [State::new([*a], DType::I32, *v)], |l, x| { l[0].update_at(&[x], x); l[0].tensor() };
        [v: f64] [State::new([2], DType::I32, *v).kept_as(DType::I32)], |l, _| l[0].tensor();
        [a: usize, b: usize] KeyValueCache::new(*a, *b, 4, 2), |l, x| l.extend(x, x, x, x);
        [a: usize, b: usize] KeyValueCache::new(1, 2, *a, *b), |l, x| l.extend(x, x, x, x);
        [w: usize] KeyValueCache::new(1, 2, 4, 2).windowed((*w).max(1)), |l, x| l.extend(x, x, x, x);
    }
    r.check(15_000);
}

#[test]
fn attention_with_a_context_of_any_size() {
    let mut r = Report::new();
    layers! { r;
        [a: usize, b: usize, c: usize] MultiHeadAttention::with_context(*a, *b, *c, 1),
            |l, x| l.over(x, x, AttentionOptions::full());
        [a: usize, b: usize, c: usize] MultiHeadAttention::with_context(*a, *b, 2, *c),
            |l, x| l.over(x, x, AttentionOptions::full());
    }
    r.check(500);
}

#[test]
fn convolutions_of_any_size() {
    let mut r = Report::new();
    layers! { r;
        [a: usize, b: usize, s: usize] Conv1d::new(*a, *b, *s, ConvOptions::new()).no_bias(), |l, x| l.forward(x);
        [a: usize, b: usize, s: usize] ConvTranspose1d::new(*a, *b, *s, ConvOptions::new()).init(Init::Zeros),
            |l, x| l.forward(x);
        [a: usize, b: usize, s: PerAxis] Conv2d::new(*a, *b, &s.0[..], ConvOptions::new()), |l, x| l.forward(x);
        [a: usize, b: usize, s: PerAxis] ConvTranspose2d::new(*a, *b, &s.0[..], ConvOptions::new()),
            |l, x| l.forward(x);
        [a: usize, b: usize, g: usize] Conv2d::new(*a, *b, 2, ConvOptions::new().groups(*g)), |l, x| l.forward(x);
    }
    r.check(10_000);
}

#[test]
fn adapters_of_any_size() {
    let mut r = Report::new();
    each!([n: usize, a: f64, p: f64] {
        let call = || format!("LowRank::new({n}).alpha({a}).dropout({p})");
        let attached = r.run(&call, || {
            let model = Linear::new(2, 3);
            LowRank::new(*n).alpha(*a).dropout(*p).attach(&model).map(|_| model)
        });
        if let Some(Ok(model)) = attached {
            let ty = Type::new(DType::F32, [4, 2]);
            r.traced("an adapter", &model, &[&ty], &call, &|x| _ = model.forward(x[0]));
        }
    });
    assert!(!usize::values().is_empty());
    // Errors of `LowRank::attach` have no source location, so they are not counted as refusals.
    r.check_without_refusals(500);
}
