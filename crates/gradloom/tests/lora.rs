//! Tests low-rank adapters: against PyTorch in float64, in files, and in plans.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;

use common::{Oracle, assert_near, widen};
use gradloom::nn::LowRank;
use gradloom::plan::{Role, Totals};
use gradloom::prelude::*;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use std::path::{Path, PathBuf};

const BATCH: usize = 2;
const CONTEXT: usize = 6;
const TARGETS: [&str; 2] = ["h.*.attn.c_attn.weight", "h.*.mlp.c_proj.weight"];

fn config() -> Gpt2Config {
    Gpt2Config { vocabulary: 13, context: CONTEXT, width: 8, heads: 2, layers: 2, ..Gpt2Config::default() }
}

fn low_rank() -> LowRank {
    LowRank::new(2).alpha(3.0).targets(TARGETS[0]).targets(TARGETS[1])
}

fn base() -> Gpt2 {
    Gpt2::new(&config()).unwrap()
}

fn adapted() -> Session<Gpt2> {
    let model = base();
    low_rank().attach(&model).unwrap();
    Session::new(model, &Device::cpu(), 5).unwrap()
}

/// Sets the base weights to those of the oracle, and the adapter factors too if `factors` is true.
fn set(session: &Session<Gpt2>, oracle: &Oracle, factors: bool) {
    let names: Vec<String> = session.params().iter().map(|used| used.name.clone()).collect();
    for name in names {
        let place = match name.rsplit_once(".lora_") {
            None => name.clone(),
            Some((weight, part)) if factors => format!("{part}.{weight}"),
            Some(_) => continue,
        };
        session.set(&name, &oracle.f32(&place)).unwrap();
    }
}

fn weights_with_adapters() -> Vec<String> {
    let model = base();
    low_rank().attach(&model).unwrap()
}

fn logits(session: &Session<Gpt2>, ids: &[i32]) -> Vec<f32> {
    let inputs = [i32("ids", [BATCH, CONTEXT])];
    session.infer(inputs, |gpt, [ids]| gpt.forward(ids)).unwrap().run([ids]).unwrap()
}

fn trainer(session: &Session<Gpt2>) -> Trainer<Gpt2, 2> {
    session
        .trainer()
        .inputs([i32("ids", [BATCH, CONTEXT]), i32("targets", [BATCH, CONTEXT])])
        .loss(|gpt, [ids, targets]| gpt.loss(ids, targets))
        .optimizer(AdamW::new(1e-2).weight_decay(0.0))
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

/// Returns the largest difference between two lists.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn before_the_first_step_the_model_computes_what_its_base_does_bit_for_bit() {
    let plain = Session::new(base(), &Device::cpu(), 5).unwrap();
    let adapted = adapted();
    let ids: Vec<i32> = (0..12).collect();
    // The same seed initializes the base parameters to the same values.
    let (want, got) = (logits(&plain, &ids), logits(&adapted, &ids));
    assert!(want.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()), "{want:?} {got:?}");
    let a = adapted.get("h.0.attn.c_attn.weight.lora_a").unwrap();
    let bound = 1.0 / 8f32.sqrt();
    assert!(a.iter().all(|x| x.abs() <= bound) && a.iter().any(|x| x.abs() > bound / 2.0), "{a:?}");
    assert!(a != adapted.get("h.1.attn.c_attn.weight.lora_a").unwrap());
    assert!(adapted.get("h.0.attn.c_attn.weight.lora_b").unwrap().iter().all(|&x| x == 0.0));
}

#[test]
fn values_gradients_and_steps_agree_with_pytorch() {
    let oracle = Oracle::load("lora.safetensors");
    let (ids, targets) = (oracle.i32("ids"), oracle.i32("targets"));
    let session = adapted();
    set(&session, &oracle, true);
    assert_near("logits", &widen(&logits(&session, &ids)), oracle.get("logits"), 1e-6, 0.0);
    let mut train = trainer(&session).show_gradients("*.lora_*").compile(session.device()).unwrap();
    for (i, &want) in oracle.get("losses").iter().enumerate() {
        let step = train.step([&ids, &targets]).unwrap();
        if i == 0 {
            for weight in weights_with_adapters() {
                for part in ["a", "b"] {
                    let got = widen(&step.get(&format!("gradient.{weight}.lora_{part}")).unwrap());
                    let what = format!("grad.{part}.{weight}");
                    assert_near(&what, &got, oracle.get(&what), 1e-5, 1e-3);
                }
            }
        }
        let loss = f64::from(step.loss().unwrap());
        assert!((loss / want - 1.0).abs() < 1e-5, "loss of step {i}: {loss} against {want}");
    }
    for used in train.session().params().iter() {
        let (name, got) = (&used.name, widen(&train.session().get(&used.name).unwrap()));
        match name.rsplit_once(".lora_") {
            Some((weight, part)) => {
                let what = format!("after.{part}.{weight}");
                assert_near(&what, &got, oracle.get(&what), 1e-3, 0.0);
            }
            None => assert_eq!(got, oracle.get(name), "{name} is frozen"),
        }
    }
}

#[test]
fn a_merged_model_is_the_base_and_the_adapters() {
    let oracle = Oracle::load("lora.safetensors");
    let session = adapted();
    set(&session, &oracle, true);
    let merged = session.merged(base()).unwrap();
    let adapters = weights_with_adapters();
    for used in merged.params().iter() {
        let got = widen(&merged.get(&used.name).unwrap());
        let is_merged = adapters.contains(&used.name);
        let want = oracle.get(&if is_merged { format!("merged.{}", used.name) } else { used.name.clone() });
        // Allow one rounding, because each sum is computed in float64 and rounded once.
        let off = got.iter().zip(want).map(|(g, w)| (g - w).abs() / w.abs().max(1e-3)).fold(0.0, f64::max);
        assert!(off <= f64::from(f32::EPSILON), "{}: {off:e}", used.name);
    }
    let ids = oracle.i32("ids");
    assert!(apart(&logits(&merged, &ids), &logits(&session, &ids)) < 1e-5);
    // The file is one of the base model, without adapters.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("merged.safetensors");
    merged.save(&path).unwrap();
    let plain = Session::new(base(), &Device::cpu(), 0).unwrap();
    plain.load(&path).unwrap();
    assert_eq!(logits(&plain, &ids), logits(&merged, &ids));
}

#[test]
fn what_cannot_be_merged_is_told() {
    let session = adapted();
    let model = base();
    low_rank().attach(&model).unwrap();
    let error = session.merged(model).unwrap_err().to_string();
    assert!(error.contains("has an adapter, `h.0.attn.c_attn.weight.lora_a`"), "{error}");
    for (config, wanted) in [
        (Gpt2Config { layers: 3, ..config() }, "has `h.2."),
        (Gpt2Config { layers: 1, ..config() }, "has no `h.1."),
        (Gpt2Config { vocabulary: 14, ..config() }, "has no `wte.weight` of f32[13, 8]"),
    ] {
        let error = session.merged(Gpt2::new(&config).unwrap()).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains("help"), "{error}");
    }
}

#[test]
fn a_file_of_the_base_fits_a_model_with_adapters() {
    let folder = tempfile::tempdir().unwrap();
    let [base_file, whole, damaged] = ["base", "whole", "part"].map(|name| folder.path().join(name));
    let plain = Session::new(base(), &Device::cpu(), 77).unwrap();
    plain.save(&base_file).unwrap();
    let session = adapted();
    let factor = "h.0.attn.c_attn.weight.lora_a";
    let before = session.get(factor).unwrap();
    session.load(&base_file).unwrap();
    assert_eq!(session.get("wte.weight").unwrap(), plain.get("wte.weight").unwrap());
    assert_eq!(session.get(factor).unwrap(), before);
    // If the file has any adapter, it must have all of them.
    session.set(factor, &[0.5f32; 16]).unwrap();
    session.save(&whole).unwrap();
    let other = adapted();
    other.load(&whole).unwrap();
    assert_eq!(other.get(factor).unwrap(), [0.5; 16]);
    let fewer = base();
    LowRank::new(2).targets("h.0.*c_attn.weight").attach(&fewer).unwrap();
    Session::new(fewer, &Device::cpu(), 0).unwrap().save(&damaged).unwrap();
    let error = other.load(&damaged).unwrap_err().to_string();
    assert!(error.contains("missing: h.0.mlp.c_proj.weight.lora_a"), "{error}");
    let error = plain.load(&whole).unwrap_err().to_string();
    assert!(error.contains("unknown: h.0.attn.c_attn.weight.lora_a"), "{error}");
}

#[test]
fn adapters_have_files_of_their_own() {
    let oracle = Oracle::load("lora.safetensors");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapters.safetensors");
    let session = adapted();
    set(&session, &oracle, true);
    session.save_adapters(&path).unwrap();
    let names: Vec<String> = Weights::open(&path).unwrap().iter().map(|(name, _)| name.to_string()).collect();
    assert!(names.len() == 8 && names.iter().all(|name| name.contains(".lora_")), "{names:?}");
    let other = adapted();
    set(&other, &oracle, false);
    other.load_adapters(&path).unwrap();
    let ids = oracle.i32("ids");
    assert_eq!(logits(&other, &ids), logits(&session, &ids));

    let with = |low_rank: LowRank| {
        let model = base();
        low_rank.attach(&model).unwrap();
        Session::new(model, &Device::cpu(), 0).unwrap()
    };
    for (low_rank, wanted) in [
        (low_rank().alpha(4.0), "has an alpha of 3, not 4"),
        (LowRank::new(3).alpha(3.0).targets(TARGETS[0]).targets(TARGETS[1]), "mis-shaped"),
        (LowRank::new(2).alpha(3.0).targets(TARGETS[0]), "unknown: h.0.mlp.c_proj.weight.lora_a"),
        (low_rank().targets("*.c_fc.weight"), "missing: h.0.mlp.c_fc.weight.lora_a"),
    ] {
        let session = with(low_rank);
        let before = session.get("h.0.attn.c_attn.weight.lora_a").unwrap();
        let error = session.load_adapters(&path).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains("help"), "{error}");
        assert_eq!(session.get("h.0.attn.c_attn.weight.lora_a").unwrap(), before);
    }
    let plain = Session::new(base(), &Device::cpu(), 0).unwrap();
    for result in [plain.load_adapters(&path), plain.save_adapters(&path), plain.save_peft(folder.path(), "")]
    {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("no adapter") && error.contains("LowRank::attach"), "{error}");
    }
}

#[test]
fn peft_has_the_same_adapters() {
    let oracle = Oracle::load("lora.safetensors");
    let ids = oracle.i32("ids");
    let session = adapted();
    set(&session, &oracle, false);
    session.load_peft(data("peft"), "transformer.").unwrap();
    assert_near("logits", &widen(&logits(&session, &ids)), oracle.get("logits"), 1e-6, 0.0);

    // The written files have the names, shapes and numbers of the files that were read.
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new");
    session.save_peft(&folder, "transformer.").unwrap();
    let open = |folder: &Path| Weights::open(folder.join("adapter_model.safetensors")).unwrap();
    let (ours, theirs) = (open(&folder), open(&data("peft")));
    let list = |weights: &Weights| -> Vec<_> {
        weights.iter().map(|(name, t)| (name.to_string(), t.shape.to_vec(), t.bytes.to_vec())).collect()
    };
    assert_eq!(list(&ours), list(&theirs));
    let config = |folder: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.join("adapter_config.json")).unwrap()).unwrap()
    };
    let (ours, theirs) = (config(&folder), config(&data("peft")));
    for key in ["peft_type", "task_type", "bias", "r", "lora_alpha", "lora_dropout", "rank_pattern"] {
        assert_eq!(ours[key], theirs[key], "{key}");
    }
    assert_eq!(ours["target_modules"][1], "transformer.h.0.mlp.c_proj");
    let again = adapted();
    set(&again, &oracle, false);
    again.load_peft(&folder, "transformer.").unwrap();
    assert_eq!(logits(&again, &ids), logits(&session, &ids));
}

#[test]
fn adapters_of_several_ranks_and_alphas_come_back_from_peft() {
    let mixed = || {
        let model = base();
        LowRank::new(2).alpha(3.0).targets(TARGETS[0]).attach(&model).unwrap();
        LowRank::new(1).alpha(0.5).targets(TARGETS[1]).attach(&model).unwrap();
        Session::new(model, &Device::cpu(), 9).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (mixed(), mixed());
    one.set("h.1.mlp.c_proj.weight.lora_b", &[0.25f32; 8]).unwrap();
    one.save_peft(folder.path(), "").unwrap();
    two.load_peft(folder.path(), "").unwrap();
    assert_eq!(two.get("h.1.mlp.c_proj.weight.lora_b").unwrap(), [0.25; 8]);
    let error = adapted().load_peft(folder.path(), "").unwrap_err().to_string();
    assert!(error.contains("`h.0.mlp.c_proj.weight` has an alpha of 0.5, not 3"), "{error}");
}

#[test]
fn damaged_and_foreign_folders_of_peft_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let session = adapted();
    let file = |name: &str| folder.path().join(name);
    let refused = |wanted: &str| {
        let error = session.load_peft(folder.path(), "transformer.").unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains("help"), "{wanted}: {error}");
    };
    refused("cannot be read");
    std::fs::copy(data("peft").join("adapter_model.safetensors"), file("adapter_model.safetensors")).unwrap();
    let sound = std::fs::read_to_string(data("peft").join("adapter_config.json")).unwrap();
    for (from, to, wanted) in [
        ("{", "", "is no JSON"),
        ("\"LORA\"", "\"LOHA\"", "`peft_type` is not \"LORA\""),
        ("\"use_dora\": false", "\"use_dora\": true", "has `use_dora`"),
        ("\"modules_to_save\": null", "\"modules_to_save\": [\"wte\"]", "has `modules_to_save`"),
        ("\"lora_alpha\": 3", "\"lora_alpha\": null", "has no number `lora_alpha`"),
        ("\"lora_alpha\": 3", "\"lora_alpha\": 16", "has an alpha of 16, not 3"),
        ("\"alpha_pattern\": {}", "\"alpha_pattern\": {\"c_attn\": 3}", "`c_attn` in `alpha_pattern`"),
    ] {
        assert!(sound.contains(from), "{from}");
        std::fs::write(file("adapter_config.json"), sound.replacen(from, to, 1)).unwrap();
        refused(wanted);
    }
    std::fs::write(file("adapter_config.json"), &sound).unwrap();
    let bytes = std::fs::read(file("adapter_model.safetensors")).unwrap();
    for length in [0, 7, 100, bytes.len() - 1] {
        std::fs::write(file("adapter_model.safetensors"), &bytes[..length]).unwrap();
        refused("adapter_model.safetensors");
    }
}

#[test]
fn adapters_that_come_after_the_session_are_told() {
    let session = Session::new(base(), &Device::cpu(), 0).unwrap();
    low_rank().attach(session.model()).unwrap();
    let error = session.infer([i32("ids", [BATCH, CONTEXT])], |gpt, [ids]| gpt.forward(ids)).unwrap_err();
    assert!(error.to_string().contains("after its session was made"), "{error}");
    let error = trainer(&session).compile(session.device()).unwrap_err();
    assert!(error.to_string().contains("after its session was made"), "{error}");
}

/// Checks the roles of frozen buffers in the plan of a step, and returns its totals in bytes.
fn planned(model: Gpt2, batch: usize, context: usize) -> Totals {
    let session = Session::new(model, &Device::null(), 0).unwrap();
    let train = session
        .trainer()
        .inputs([i32("ids", [batch, context]), i32("targets", [batch, context])])
        .loss(|gpt, [ids, targets]| gpt.loss(ids, targets))
        .optimizer(AdamW::new(1e-4))
        .compile(session.device())
        .unwrap();
    let plan = train.plan();
    let bytes = |role: Role| -> usize {
        plan.buffers.iter().filter(|buffer| buffer.role == role).map(|buffer| buffer.bytes as usize).sum()
    };
    let elements = |of_adapter: bool| -> usize {
        let params = session.params().iter().filter(|used| used.param.is_of_adapter() == of_adapter);
        params.map(|used| used.param.shape().elements()).sum()
    };
    // The base is only read; moments and next values belong to the adapters.
    assert_eq!(bytes(Role::Frozen), 4 * elements(false));
    assert_eq!(bytes(Role::Parameter), 4 * elements(true));
    let few = 4096;
    assert!((8 * elements(true)..=8 * elements(true) + few).contains(&bytes(Role::State)));
    assert_eq!(train.summary().trained(), elements(true));
    // No gradient of a frozen matrix exists: no buffer that is written has its shape.
    let frozen: Vec<&[usize]> = session
        .params()
        .iter()
        .filter(|used| !used.param.is_of_adapter() && used.param.shape().rank() == 2)
        .map(|used| &used.param.shape()[..])
        .collect();
    for buffer in plan.buffers.iter().filter(|buffer| matches!(buffer.role, Role::Temporary | Role::Next)) {
        let shape = &buffer.ty.shape[..];
        let swapped: Vec<usize> = shape.iter().rev().copied().collect();
        let is_copy = |of: &[usize]| of == shape || of == swapped;
        assert!(!frozen.iter().any(|of| is_copy(of)), "{} is of a frozen weight's shape", buffer.ty);
    }
    plan.totals
}

#[test]
fn frozen_weights_take_their_bytes_and_no_more() {
    // Batch times context differs from all extents of weights, so that activations have other shapes.
    let model = base();
    low_rank().attach(&model).unwrap();
    let totals = planned(model, 3, 5);
    assert!(totals.peak() < 100_000, "{totals:?}");
}

#[test]
fn adapters_of_gpt2s_124m_train_within_4_gb() {
    let config = Gpt2Config {
        vocabulary: 50257,
        context: 1024,
        width: 768,
        heads: 12,
        layers: 12,
        ..Gpt2Config::default()
    };
    let model = Gpt2::new(&config).unwrap().checkpoint_blocks();
    let names = LowRank::new(8).alpha(16.0).targets("h.*.attn.c_attn.weight").attach(&model).unwrap();
    assert_eq!(names.len(), 12);
    let totals = planned(model, 1, 256);
    println!("{totals:?}, {} bytes in all", totals.peak());
    assert!(totals.peak() < 1_000_000_000, "{totals:?}");
}
