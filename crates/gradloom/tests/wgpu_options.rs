//! Options of a GPU: multiplying in f16.
//!
//! What needs cooperative matrices says so where there are none, and passes; `GRADLOOM_ADAPTER` names an adapter.

use gradloom::nn::Linear;
use gradloom::{AdamW, Device, ErrorKind, Precision, Sgd, Train, Trainer, WgpuOptions, f32, i32};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};

fn options() -> WgpuOptions {
    WgpuOptions::default().adapter(std::env::var("GRADLOOM_ADAPTER").unwrap_or_default()).software()
}

fn open(options: &WgpuOptions) -> Device {
    Device::wgpu_with(options).unwrap_or_else(|error| panic!("{error}"))
}

/// Whether there is no adapter, which is said.
fn skipped() -> bool {
    let none = gradloom::adapters().is_empty();
    if none {
        assert!(std::env::var_os("GRADLOOM_NEEDS_ADAPTER").is_none(), "there is no WebGPU adapter");
        println!("skipped: no WebGPU adapter (`apt-get install mesa-vulkan-drivers libvulkan1` brings one)");
    }
    none
}

/// The device under test, multiplying in f16; or none where it cannot, which is said.
fn half() -> Option<Device> {
    if skipped() {
        return None;
    }
    match Device::wgpu_with(&options().precision(Precision::F16)) {
        Ok(device) => {
            assert!(device.description().ends_with(", products in f16"), "{}", device.description());
            Some(device)
        }
        Err(error) => {
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Device, "{text}");
            assert!(text.contains("cannot multiply in f16: it has no "), "{text}");
            println!("skipped: {text}");
            None
        }
    }
}

/// Configuration S of `gradloom bench`: width 128, 4 layers, 8 texts of 128 tokens.
fn gpt(device: &Device) -> Train<Gpt2, 2> {
    let config = Gpt2Config { vocabulary: 256, context: 128, width: 128, heads: 4, layers: 4, dropout: 0.0 };
    Trainer::new(Gpt2::new(&config).unwrap())
        .inputs([i32("ids", [8, 128]), i32("targets", [8, 128])])
        .loss(|model, [ids, targets]| model.loss(ids, targets))
        .optimizer(AdamW::new(1e-3))
        .compile(device)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The losses of so many steps on a text with a pattern.
fn losses(device: &Device, steps: usize) -> Vec<f32> {
    let mut train = gpt(device);
    let token = |i: usize| ((i * i / 7 + i % 13) % 256) as i32;
    let ids: Vec<i32> = (0..1024).map(token).collect();
    let targets: Vec<i32> = (1..1025).map(token).collect();
    (0..steps).map(|_| train.step((&ids, &targets)).unwrap().loss().unwrap()).collect()
}

/// Rounding to 11 bits moves a loss by less than this share of it over the first steps.
const TOLERANCE: f32 = 5e-3;

#[test]
fn training_in_f16_follows_training_in_f32() {
    let Some(half) = half() else { return };
    let (a, b) = (losses(&half, 30), losses(&open(&options()), 30));
    for (step, (a, b)) in a.iter().zip(&b).enumerate() {
        assert!((a - b).abs() <= TOLERANCE * b, "step {step}: {a} in f16, {b} in f32");
    }
    assert!(a[29] < 0.9 * a[0], "it learns: {a:?}");
    assert_ne!(a, b, "products are rounded");
    assert_eq!(a, losses(&half, 30), "equal runs have equal bits");
}

#[test]
fn a_value_that_f16_does_not_have_fails_the_step() {
    let Some(half) = half() else { return };
    let mut train = Trainer::new(Linear::new(64, 64))
        .inputs([f32("x", [64, 64])])
        .loss(|layer, [x]| layer.forward(x).square().mean())
        .optimizer(Sgd::new(1e-3))
        .compile(&half)
        .unwrap_or_else(|error| panic!("{error}"));
    let before = train.store().read_f32("weight").unwrap();
    let mut x = vec![1.0; 64 * 64];
    train.step([&x[..]]).unwrap().loss().unwrap();
    assert_ne!(train.store().read_f32("weight").unwrap(), before);
    let before = train.store().read_f32("weight").unwrap();
    x[70] = 1e5;
    let error = train.step([&x[..]]).unwrap().loss().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFinite { .. }), "{error}");
    assert_eq!(train.store().read_f32("weight").unwrap(), before);
}
