//! Tests options of a GPU: products in f16, and measured products.
//!
//! Tests that need cooperative matrices are recorded as skipped if the adapter has none. `GRADLOOM_ADAPTER`
//! selects an adapter.

use gradloom::WgpuDevice as _;
use gradloom::nn::Linear;
use gradloom::testing::{WgpuOverrides, overriding};
use gradloom::{AdamW, Device, ErrorKind, Precision, Sgd, Train, Trainer, Tuning, WgpuOptions, f32, i32};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};

fn options() -> WgpuOptions {
    WgpuOptions::default().adapter(gradloom_testing::adapter::name()).software()
}

/// Returns options with the kernels for hardware GPUs.
fn hardware() -> WgpuOptions {
    let overrides = WgpuOverrides {
        limits: Some(|limits| (limits.software, limits.scalar) = (false, false)),
        ..WgpuOverrides::default()
    };
    overriding(options(), overrides)
}

fn open(options: &WgpuOptions) -> Device {
    Device::wgpu_with(options).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns `true` if a test is skipped because there is no adapter, and if so records the skip.
fn skipped() -> bool {
    gradloom_testing::adapter::skipped(gradloom::adapters().is_empty())
}

/// Returns the device under test with products in f16. If it does not support them, records the skip, and
/// returns `None`.
fn half() -> Option<Device> {
    if skipped() {
        return None;
    }
    match Device::wgpu_with(&options().precision(Precision::F16)) {
        Ok(device) => {
            assert!(device.description().ends_with(", in f16"), "{}", device.description());
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

/// Compiles configuration S of `gradloom bench`: width 128, 4 layers, 8 texts of 128 tokens.
fn gpt(device: &Device) -> Train<Gpt2, 2> {
    let config = Gpt2Config {
        vocabulary: 256,
        context: 128,
        width: 128,
        heads: 4,
        layers: 4,
        ..Gpt2Config::default()
    };
    Trainer::new(Gpt2::new(&config).unwrap())
        .inputs([i32("ids", [8, 128]), i32("targets", [8, 128])])
        .loss(|model, [ids, targets]| model.loss(ids, targets))
        .optimizer(AdamW::new(1e-3))
        .compile(device)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the losses of the given number of steps on a text with a pattern.
fn losses(device: &Device, steps: usize) -> Vec<f32> {
    let mut train = gpt(device);
    let token = |i: usize| ((i * i / 7 + i % 13) % 256) as i32;
    let ids: Vec<i32> = (0..1024).map(token).collect();
    let targets: Vec<i32> = (1..1025).map(token).collect();
    (0..steps).map(|_| train.step((&ids, &targets)).unwrap().loss().unwrap()).collect()
}

/// Maximum relative change of a loss in the first [`FIRST`] steps due to rounding to 11 bits. In later steps,
/// which amplify the change, four times as much is allowed.
const TOLERANCE: f32 = 5e-3;
/// Number of steps to which [`TOLERANCE`] applies.
const FIRST: usize = 15;

#[test]
fn training_in_f16_follows_training_in_f32() {
    let Some(half) = half() else { return };
    let (a, b) = (losses(&half, 30), losses(&open(&options()), 30));
    for (step, (a, b)) in a.iter().zip(&b).enumerate() {
        let tolerance = if step < FIRST { TOLERANCE } else { 4.0 * TOLERANCE };
        assert!((a - b).abs() <= tolerance * b, "step {step}: {a} in f16, {b} in f32");
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

/// Returns losses and parameters of a few steps of two layers, and the measurements for them.
fn tuned(options: &WgpuOptions) -> (Vec<f32>, Vec<f32>, Option<Tuning>) {
    let device = open(options);
    let mut train = Trainer::new([Linear::new(192, 256), Linear::new(256, 64)])
        .inputs([f32("x", [128, 192])])
        .loss(|model, [x]| model[1].forward(model[0].forward(x).tanh()).square().mean())
        .optimizer(Sgd::new(0.5))
        .compile(&device)
        .unwrap_or_else(|error| panic!("{error}"));
    let x: Vec<f32> = (0..128 * 192).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    let losses = (0..8).map(|_| train.step([&x[..]]).unwrap().loss().unwrap()).collect();
    let store = train.store();
    let parameters = ["0.weight", "1.weight"].map(|name| store.read_f32(name).unwrap()).concat();
    (losses, parameters, device.tuning())
}

/// Returns the adapter unchanged, and treated as hardware: with tiles in workgroup memory, and split sums.
fn adapters() -> [WgpuOptions; 2] {
    [options(), hardware()]
}

#[test]
fn tuned_products_are_right_and_measured_once() {
    if skipped() {
        return;
    }
    for options in adapters() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, _, none) = tuned(&options);
        assert!(none.is_none(), "nothing is measured unasked");
        let options = options.tuned(folder.path().join("choices"));
        let (losses, parameters, tuning) = tuned(&options);
        let tuning = tuning.unwrap();
        // Expect measurements for both layers in the forward pass, the gradients of their weights, the
        // gradient of the activation between them, and the variants that measuring splits into parts.
        let measured = tuning.measured;
        assert!(tuning.read == 0 && measured >= 5, "{tuning:?}");
        assert!(tuning.notes.is_empty() && !tuning.took.is_zero(), "{tuning:?}");
        for (a, b) in losses.iter().zip(&plain) {
            assert!((a - b).abs() <= 1e-5 * b, "{losses:?} and {plain:?}");
        }
        assert!(losses[7] < 0.9 * losses[0], "{losses:?}");
        let (again, same, tuning) = tuned(&options);
        let tuning = tuning.unwrap();
        assert_eq!((tuning.read, tuning.measured), (measured, 0), "{tuning:?}");
        assert!(tuning.took.is_zero());
        assert_eq!((again, same), (losses, parameters), "one file, one result");
    }
}

#[test]
fn a_damaged_or_foreign_file_is_ignored_and_said() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = options().tuned(folder.path());
    let (.., first) = tuned(&options);
    let file = first.unwrap().file;
    let text = std::fs::read_to_string(&file).unwrap();
    let other = text.replacen("driver ", "driver of another ", 1);
    for (damaged, why) in
        [(&text[..text.len() / 2], "it is"), (&other[..], "another device"), ("", "another device")]
    {
        std::fs::write(&file, damaged).unwrap();
        let (.., tuning) = tuned(&options);
        let tuning = tuning.unwrap();
        assert_eq!((tuning.read, tuning.measured), (0, 5), "{tuning:?}");
        assert!(tuning.notes.len() == 1 && tuning.notes[0].contains(why), "{tuning:?}");
        assert!(std::fs::read_to_string(&file).unwrap().ends_with("end 5\n"), "it was written anew");
    }
    // If a folder cannot be created, the file is not written, but the program works.
    let (losses, _, tuning) = tuned(&WgpuOptions::tuned(self::options(), file.join("below")));
    assert!(losses.iter().all(|loss| loss.is_finite()));
    let notes = tuning.unwrap().notes;
    assert!(notes.last().is_some_and(|note| note.contains("was not written")), "{notes:?}");
}
