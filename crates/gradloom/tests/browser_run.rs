//! Repeats natively a run of the npm package in a browser, and checks that the sources of the kernels and the
//! final parameters are the same.
//!
//! In: the folder `GRADLOOM_BROWSER_RUN`, which `web/test/browser/native.test.mjs` writes before it runs this
//! test. For each model it contains the kernels of a step (`kernels.txt`), the parameters before and after
//! the steps, and the losses. Without it the test is skipped, with a message. Both runs use SwiftShader, with
//! the limits that every WebGPU implementation guarantees.

#[allow(dead_code, reason = "shared with the bench, and not all of it needed here")]
#[path = "../../gradloom-command/src/bench/configs/models.rs"]
mod models;

use gradloom::WgpuDevice as _;
use gradloom::files::{Entries, TensorBytes, Weights, write};
use gradloom::ir::Type;
use gradloom::nn::Visitor;
use gradloom::testing::WgpuOverrides;
use gradloom::{
    Adam, AdamW, DType, Device, Init, Module, Param, Schedule, Tensor, Train, Trainer, WgpuOptions, f32, i32,
};
use gradloom_codegen::pipeline::Limits;
use gradloom_codegen::wgsl::Dispatch;
use models::{AdditionTransformer, MASK, Mlp};
use safetensors::SafeTensors;
use std::path::Path;
use std::sync::Mutex;

/// Kernels in the format of `kernels.txt`, in any order.
static KERNELS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn keep(dispatch: &mut Dispatch) {
    let Dispatch { label, workgroups: [x, y, z], source, .. } = dispatch;
    KERNELS.lock().unwrap().push(format!("{label} {x} {y} {z}\n{source}"));
}

/// Returns SwiftShader with the limits that every implementation guarantees.
fn device() -> Device {
    let limits = |limits: &mut Limits| {
        *limits = Limits { software: limits.software, scalar: limits.scalar, ..Limits::portable() };
    };
    let overrides = WgpuOverrides { limits: Some(limits), dispatch: Some(keep), ..WgpuOverrides::default() };
    let options = WgpuOptions::default().adapter("SwiftShader").software();
    let options = gradloom::testing::overriding(options, overrides);
    Device::wgpu_with(&options).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the parameters in a file of the browser, in the order of the model.
fn parameters(folder: &Path, name: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut names = file.names();
    names.sort_unstable();
    names.into_iter().map(|name| file.tensor(name).unwrap().data().to_vec()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Sets the initial parameters, runs the steps, and compares losses and final parameters.
fn compare<M: Module, const N: usize>(
    folder: &Path,
    mut train: Train<M, N>,
    step: impl Fn(&mut Train<M, N>) -> f32,
) {
    let store = train.store();
    let mut names: Vec<String> = Vec::new();
    train.model().visit(&mut Visitor::new(&mut |name, _| names.push(name.to_string())));
    let before = parameters(folder, "before.safetensors");
    assert_eq!(names.len(), before.len(), "parameters of {folder:?}");
    for (name, bytes) in names.iter().zip(&before) {
        let entry = store.entries().into_iter().find(|entry| entry.name == *name).unwrap();
        store.write(&[(name, &entry.ty, bytes)]).unwrap();
    }
    let losses = floats(&parameters(folder, "losses.safetensors")[0]);
    let got: Vec<f32> = losses.iter().map(|_| step(&mut train)).collect();
    for (i, (got, want)) in got.iter().zip(&losses).enumerate() {
        assert!((got - want).abs() < 1e-5, "{folder:?}, loss of step {i}: {got}, in the browser {want}");
    }
    let mut different = usize::from(got != losses);
    for (name, want) in names.iter().zip(parameters(folder, "after.safetensors")) {
        let (got, want) = (store.read_f32(name).unwrap(), floats(&want));
        assert_eq!(got.len(), want.len(), "{folder:?}, {name}");
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert!((got - want).abs() <= 1e-5, "{folder:?}, {name}[{i}]: {got}, in the browser {want}");
            different += usize::from(got.to_bits() != want.to_bits());
        }
    }
    println!(
        "{}: {} losses, {} parameters, {different} numbers with other bits",
        folder.display(),
        losses.len(),
        names.len()
    );
}

/// Layer with the parameter names of the npm package.
#[derive(Module)]
#[expect(non_snake_case, reason = "the names in the file")]
struct Dense {
    W: Param,
    b: Param,
}

#[derive(Module)]
struct Sine {
    l1: Dense,
    l2: Dense,
    l3: Dense,
}

impl Dense {
    fn new(inputs: usize, outputs: usize) -> Self {
        Self { W: Param::new([inputs, outputs], Init::Zeros), b: Param::new([outputs], Init::Zeros) }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        x.matmul(&self.W) + &self.b
    }
}

/// Continues from the browser's checkpoint, and writes a checkpoint and the following losses for the browser.
fn go_on(folder: &Path, device: &Device, points: usize, inputs: &[Vec<f32>]) {
    let mut train =
        Trainer::new(Sine { l1: Dense::new(1, 64), l2: Dense::new(64, 64), l3: Dense::new(64, 1) })
            .inputs([f32("x", [points, 1]), f32("y", [points, 1])])
            .loss(|m, [x, y]| {
                let hidden = m.l2.forward(m.l1.forward(x).relu()).relu();
                (m.l3.forward(hidden) - y).square().mean()
            })
            .optimizer(Adam::new(0.005))
            .compile(device)
            .unwrap();
    let file = folder.join("state.safetensors");
    let restored = train.load_checkpoint(&file).unwrap();
    assert_eq!((restored.attempted_steps, train.applied_steps().unwrap(), train.seed()), (20, 20, 1));
    for (entry, bytes) in train.store().read_all().unwrap() {
        assert_eq!(Weights::open(&file).unwrap().get(&entry.name).unwrap().bytes, bytes, "{}", entry.name);
    }
    let losses = |train: &mut Train<Sine, 2>| -> Vec<f32> {
        (0..3).map(|_| train.step((&inputs[0], &inputs[1])).unwrap().loss().unwrap()).collect()
    };
    let (got, want) = (losses(&mut train), floats(&parameters(folder, "more.safetensors")[0]));
    for (got, want) in got.iter().zip(&want) {
        assert!((got - want).abs() < 1e-6, "after the browser's checkpoint: {got}, in the browser {want}");
    }
    train.save_checkpoint(folder.join("native.safetensors"), &Entries::new()).unwrap();
    let next = losses(&mut train).iter().flat_map(|loss| loss.to_le_bytes()).collect::<Vec<u8>>();
    let ty = Type::new(DType::F32, [3]);
    let tensor = TensorBytes { name: "next", ty: &ty, bytes: &next };
    write(&folder.join("next.safetensors"), &[tensor], &Entries::new()).unwrap();
}

/// Checks that the kernels of the browser's step are the native ones.
fn compare_kernels(folder: &Path) {
    let text = std::fs::read_to_string(folder.join("kernels.txt")).unwrap();
    let mut browser: Vec<String> = text.split("\n=====\n").map(str::to_string).collect();
    let mut native = std::mem::take(&mut *KERNELS.lock().unwrap());
    browser.sort();
    native.sort();
    let heads = |kernels: &[String]| {
        kernels.iter().map(|k| k.lines().next().unwrap_or("").to_string()).collect::<Vec<_>>()
    };
    assert_eq!(heads(&native), heads(&browser), "{folder:?}");
    for (native, browser) in native.iter().zip(&browser) {
        assert_eq!(native, browser, "{folder:?}");
    }
    println!("{}: {} kernels, the same text", folder.display(), native.len());
}

#[test]
fn native_kernels_and_results_are_those_of_the_browser() {
    let Some(folder) = std::env::var_os("GRADLOOM_BROWSER_RUN") else {
        println!("skipped: web/test/browser/native.test.mjs runs this");
        return;
    };
    let (folder, device) = (Path::new(&folder), device());

    const POINTS: usize = 256;
    let train = Trainer::new(Mlp::new(&[1, 64, 64, 1]))
        .inputs([f32("x", [POINTS, 1]), f32("y", [POINTS, 1])])
        .loss(|model, [x, y]| (model.forward(x) - y).square().mean())
        .optimizer(Adam::new(0.005))
        .compile(&device)
        .unwrap();
    let sine = folder.join("sine");
    compare_kernels(&sine);
    let inputs =
        parameters(&sine, "inputs.safetensors").iter().map(|bytes| floats(bytes)).collect::<Vec<_>>();
    compare(&sine, train, |train| train.step((&inputs[0], &inputs[1])).unwrap().loss().unwrap());
    go_on(&sine, &device, POINTS, &inputs);
    KERNELS.lock().unwrap().clear();

    const BATCH: usize = 128;
    // Advance the schedule by one step, because TypeScript's schedules count the first step as 1.
    let linear = Schedule::Linear { from: 0.005, to: 0.0005, steps: 1500 };
    let rate = Schedule::Advanced { by: 1, then: Box::new(linear) };
    let train = Trainer::new(AdditionTransformer::new())
        .inputs([i32("ids", [BATCH, 8]), i32("targets", [BATCH, 8]), f32("mask", [8])])
        .loss(|model, [ids, targets, mask]| {
            (model.forward(ids).cross_entropy_rows(targets) * mask).sum() * (1.0 / (3 * BATCH) as f64)
        })
        .optimizer(AdamW::new(rate).weight_decay(0.01))
        .clip_norm(1.0)
        .memory_budget(14_000_000)
        .compile(&device)
        .unwrap();
    let addition = folder.join("addition");
    compare_kernels(&addition);
    let integers = |bytes: &Vec<u8>| -> Vec<i32> {
        bytes.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect()
    };
    let inputs: Vec<Vec<i32>> = parameters(&addition, "inputs.safetensors").iter().map(integers).collect();
    let mask = MASK.to_vec();
    compare(&addition, train, |train| train.step((&inputs[0], &inputs[1], &mask)).unwrap().loss().unwrap());
}
