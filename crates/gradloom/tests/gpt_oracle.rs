//! Compares GPT-2 with PyTorch in float64: logits, loss, every gradient, and the losses of 20 AdamW steps.

mod common;

use common::{Oracle, assert_near, norm, set_parameters, widen};
use gradloom::ir::{DType, OpKind, Type};
use gradloom::prelude::*;
use gradloom::reference::{HostTensor, evaluate};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use std::cell::RefCell;
use std::collections::BTreeMap;

const BATCH: usize = 2;
const CONTEXT: usize = 12;

fn model() -> Gpt2 {
    let config = Gpt2Config {
        vocabulary: 37,
        context: CONTEXT,
        width: 24,
        heads: 3,
        layers: 2,
        ..Gpt2Config::default()
    };
    Gpt2::new(&config).unwrap()
}

fn trainer(clip: bool, device: &Device) -> Train<Gpt2, 2> {
    let mut trainer = Trainer::new(model())
        .inputs([i32("ids", [BATCH, CONTEXT]), i32("targets", [BATCH, CONTEXT])])
        .loss(|gpt, [ids, targets]| gpt.forward(ids).capture("logits").cross_entropy(targets))
        .optimizer(AdamW::new(3e-3).weight_decay(0.1));
    if clip {
        trainer = trainer.clip_norm(1.0);
    }
    trainer.compile(device).unwrap()
}

fn load_weights(train: &Train<Gpt2, 2>, oracle: &Oracle) -> usize {
    let store = train.store();
    let parameters: Vec<(String, Type, Vec<f32>)> = store
        .entries()
        .into_iter()
        .filter(|entry| entry.init.is_none())
        .map(|entry| {
            assert_eq!(oracle.shape(&entry.name), &entry.ty.shape[..], "{}", entry.name);
            let values = oracle.f32(&entry.name);
            (entry.name, entry.ty, values)
        })
        .collect();
    set_parameters(&store, &parameters);
    parameters.len()
}

#[test]
fn float32_agrees_with_pytorch() {
    agrees(&Device::cpu(), 1e-5);
}

#[cfg(feature = "wgpu")]
#[test]
fn a_gpu_agrees_with_pytorch() {
    if let Some(device) = common::gpu() {
        agrees(&device, GPU_TOLERANCE);
        agrees_when_clipped(&device);
    }
}

/// Tolerance of logits and gradients relative to their norm. Functions may be less accurate than on the CPU.
#[cfg(feature = "wgpu")]
const GPU_TOLERANCE: f64 = 1e-4;

/// In bf16, logits and gradients are off by a few roundings of the operands of products and attention, and
/// not less.
#[test]
fn bf16_agrees_with_pytorch_within_its_roundings() {
    let device = Device::cpu().in_precision(Precision::Bf16);
    let unit = 2f64.powi(-8);
    let off = agrees_within(&device, 4.0 * unit, 0.02);
    assert!(off > unit / 20.0, "logits are not rounded: {off:.1e}");
}

fn agrees(device: &Device, tolerance: f64) {
    agrees_within(device, tolerance, 1e-4);
}

/// Checks logits and gradients within a tolerance relative to their norm, and losses within another. Returns
/// the distance of the logits from PyTorch's, relative to their norm.
fn agrees_within(device: &Device, tolerance: f64, of_losses: f64) -> f64 {
    let oracle = Oracle::load("gpt_oracle.safetensors");
    let mut train = trainer(false, device);
    assert_eq!(load_weights(&train, &oracle), 28);
    let (ids, targets) = (oracle.i32("ids"), oracle.i32("targets"));

    let mut names = Vec::new();
    train
        .model()
        .visit(&mut gradloom::nn::Visitor::new(&mut |name: &str, _: &Param| names.push(name.to_string())));
    let mut gradients = train
        .infer([i32("ids", [BATCH, CONTEXT]), i32("targets", [BATCH, CONTEXT])], |gpt, [ids, targets]| {
            let loss = gpt.loss(ids, targets);
            let mut found = Vec::new();
            let mut collect = |_: &str, param: &Param| found.push(param.tie());
            gpt.visit(&mut gradloom::nn::Visitor::new(&mut collect));
            found.iter().map(|param| gradloom::gradients(loss, [param.tensor()])[0]).collect::<Vec<_>>()
        })
        .unwrap();
    let got = gradients.run([&ids, &targets]).unwrap();
    assert_eq!(got.len(), names.len());
    let global = norm(&names.iter().map(|n| norm(oracle.get(&format!("grad.{n}")))).collect::<Vec<_>>());
    for (name, gradient) in names.iter().zip(&got) {
        assert_near(name, &widen(gradient), oracle.get(&format!("grad.{name}")), tolerance, 1e-3 * global);
    }

    let mut off = 0.0;
    for (i, &want) in oracle.get("adamw.losses").iter().enumerate() {
        let step = train.step([&ids, &targets]).unwrap();
        if i == 0 {
            let (logits, want) = (widen(&step.get("logits").unwrap()), oracle.get("logits"));
            assert_near("logits", &logits, want, tolerance, 0.0);
            off = norm(&logits.iter().zip(want).map(|(x, y)| x - y).collect::<Vec<_>>()) / norm(want);
        }
        let loss = f64::from(step.loss().unwrap());
        assert!((loss / want - 1.0).abs() < of_losses, "loss of step {i}: {loss} against {want}");
    }
    off
}

#[test]
fn float32_agrees_with_pytorch_when_clipped() {
    agrees_when_clipped(&Device::cpu());
}

fn agrees_when_clipped(device: &Device) {
    let oracle = Oracle::load("gpt_oracle.safetensors");
    let mut train = trainer(true, device);
    load_weights(&train, &oracle);
    let (ids, targets) = (oracle.i32("ids"), oracle.i32("targets"));
    for (i, (&want, &want_norm)) in
        oracle.get("clipped.losses").iter().zip(oracle.get("clipped.norms")).enumerate()
    {
        let step = train.step([&ids, &targets]).unwrap();
        let (loss, norm) = (step.loss().unwrap(), step.get("gradient_norm").unwrap()[0]);
        assert!((f64::from(loss) / want - 1.0).abs() < 1e-4, "loss of step {i}: {loss} against {want}");
        assert!(
            (f64::from(norm) / want_norm - 1.0).abs() < 1e-3,
            "norm of step {i}: {norm} against {want_norm}"
        );
    }
}

#[test]
fn the_float64_evaluator_agrees_with_pytorch() {
    let oracle = Oracle::load("gpt_oracle.safetensors");
    for clip in [false, true] {
        let train = trainer(clip, &Device::null());
        let carried: RefCell<BTreeMap<String, HostTensor>> = RefCell::new(BTreeMap::new());
        let numbers: BTreeMap<&str, f64> = [
            ("lr", 3e-3),
            ("weight_decay", 0.1),
            ("epsilon", 1e-8),
            ("max_norm", 1.0),
            ("beta2", 0.999),
            ("one_minus_beta1", 1.0 - 0.9),
            ("one_minus_beta2", 1.0 - 0.999),
            ("ln_beta1", 0.9f64.ln()),
            ("ln_beta2", 0.999f64.ln()),
        ]
        .into();
        let leaves = |kind: &OpKind| match kind {
            OpKind::Input { name, .. } => Some(oracle.host(name, DType::I32)),
            OpKind::Param { name, .. } => {
                Some(carried.borrow().get(name).cloned().unwrap_or_else(|| oracle.host(name, DType::F32)))
            }
            OpKind::State { name, .. } => carried.borrow().get(name).cloned(),
            OpKind::Scalar { name, dtype } => {
                let value = numbers[name.strip_prefix("optim.").expect("an optimizer's number")];
                Some(HostTensor::from_f64(Type::scalar(*dtype), [value]))
            }
            _ => None,
        };
        // Check both the original graph and the graph after the passes.
        for graph in [&train.stages().optim, &train.stages().passes] {
            carried.borrow_mut().clear();
            let losses = oracle.get(if clip { "clipped.losses" } else { "adamw.losses" });
            for (i, &want) in losses.iter().enumerate() {
                let step = evaluate(graph, &leaves).unwrap();
                assert!(step.committed());
                if i == 0 {
                    assert_near(
                        "logits",
                        &step.output("logits").unwrap().to_f64(),
                        oracle.get("logits"),
                        1e-10,
                        0.0,
                    );
                }
                let loss = step.output("loss").unwrap().to_f64()[0];
                assert!((loss / want - 1.0).abs() < 1e-10, "loss of step {i}: {loss} against {want}");
                *carried.borrow_mut() = step.next.into_iter().collect();
            }
        }
    }
}

#[test]
fn float64_gradients_agree_with_pytorch() {
    let oracle = Oracle::load("gpt_oracle.safetensors");
    // With a learning rate of 1 and no decay, an SGD step computes parameter - gradient.
    let sgd = Trainer::new(model())
        .inputs([i32("ids", [BATCH, CONTEXT]), i32("targets", [BATCH, CONTEXT])])
        .loss(|gpt, [ids, targets]| gpt.loss(ids, targets))
        .optimizer(Sgd::new(1.0))
        .compile(&Device::null())
        .unwrap();
    let leaves = |kind: &OpKind| match kind {
        OpKind::Input { name, .. } => Some(oracle.host(name, DType::I32)),
        OpKind::Param { name, .. } => Some(oracle.host(name, DType::F32)),
        OpKind::Scalar { name, dtype } => {
            let value = if name == "optim.lr" { 1.0 } else { 0.0 };
            Some(HostTensor::from_f64(Type::scalar(*dtype), [value]))
        }
        _ => None,
    };
    let step = evaluate(&sgd.stages().optim, &leaves).unwrap();
    let mut checked = 0;
    for (name, next) in &step.next {
        if name.starts_with("optim.") {
            continue;
        }
        let gradient: Vec<f64> =
            oracle.get(name).iter().zip(next.to_f64()).map(|(before, after)| before - after).collect();
        let want = oracle.get(&format!("grad.{name}"));
        // Allow a larger error, because the difference of close numbers loses digits: float64's epsilon times
        // the parameter's size.
        assert_near(name, &gradient, want, 1e-10, 1e-5 * norm(oracle.get(name)));
        checked += 1;
    }
    assert_eq!(checked, 28);
}
