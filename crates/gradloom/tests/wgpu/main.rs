//! Tests training on an asynchronous device: steps in flight, failures, and several programs with one store.

mod awaiting;
mod custom;
mod debug_run;
#[path = "../../../gradloom-models/tests/common/decoder.rs"]
mod decoder;
mod failures;
mod generator;
mod idle;
mod limits;
mod lost;
mod nan;
mod profile;
mod published;
mod segments;
mod threads;
mod unread;

use gradloom::CpuDevice as _;
use gradloom::ir::{DType, Type};
use gradloom::nn::{Dropout, Embedding, Linear, Module};
use gradloom::{AdamW, Device, ErrorKind, Schedule, Tensor, Train, Trainer, f32, i32};

/// Returns the device under test: an adapter whose name contains `GRADLOOM_ADAPTER`, or any.
fn device() -> Device {
    let name = gradloom_testing::adapter::name();
    gradloom::testing::gpu(&name).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns `true` if a test is skipped because there is no adapter, and if so records the skip.
fn skipped() -> bool {
    gradloom_testing::adapter::skipped(gradloom::adapters().is_empty())
}

/// Returns `true` if a WebGPU-only test is skipped: for the reason in [`skipped`], or because the device uses
/// CUDA.
fn not_webgpu() -> bool {
    gradloom_testing::adapter::skipped_on_cuda(gradloom::adapters().is_empty())
}

#[derive(Module)]
struct Model {
    table: Embedding,
    inner: Linear,
    dropout: Dropout,
    outer: Linear,
}

impl Model {
    fn loss(&self, ids: Tensor, y: Tensor) -> Tensor {
        let hidden = self.inner.forward(self.table.forward(ids)).gelu();
        (self.outer.forward(self.dropout.forward(hidden)) - y).square().mean()
    }
}

const ROWS: usize = 24;

fn compiled(device: &Device) -> Train<Model, 2> {
    let model = Model {
        table: Embedding::new(11, 8),
        inner: Linear::new(8, 16),
        dropout: Dropout::new(0.2),
        outer: Linear::new(16, 3),
    };
    Trainer::new(model)
        .inputs([i32("ids", [ROWS]), f32("y", [ROWS, 3])])
        .loss(|model, [ids, y]| model.loss(ids, y))
        .optimizer(AdamW::new(Schedule::warmup_cosine(0.01, 5, 50, 0.001)))
        .clip_norm(1.0)
        .seed(3)
        .compile(device)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn data(step: usize) -> (Vec<i32>, Vec<f32>) {
    let ids = (0..ROWS).map(|i| ((i * 7 + step * 3) % 11) as i32).collect();
    let y = (0..3 * ROWS).map(|i| ((i * 5 + step) % 13) as f32 / 13.0).collect();
    (ids, y)
}

fn parameters(train: &Train<Model, 2>) -> Vec<(String, Vec<u8>)> {
    let store = train.store();
    store.entries().into_iter().map(|e| (e.name.clone(), store.read(&e.name).unwrap())).collect()
}

#[test]
fn steps_that_nobody_waits_for_give_the_bits_of_those_that_are_waited_for() {
    if skipped() {
        return;
    }
    let device = device();
    let (mut queued, mut awaited) = (compiled(&device), compiled(&device));
    let mut losses = Vec::new();
    let mut unread = Vec::new();
    for step in 0..50 {
        let (ids, y) = data(step);
        losses.push(awaited.step((&ids, &y)).unwrap().loss().unwrap());
        unread.push(queued.step((&ids, &y)).unwrap());
    }
    assert_eq!(parameters(&queued), parameters(&awaited));
    assert_eq!((queued.applied_steps().unwrap(), awaited.applied_steps().unwrap()), (50, 50));
    // Each step kept its own loss.
    let kept: Vec<f32> = unread.iter().map(|step| step.loss().unwrap()).collect();
    assert_eq!(kept, losses);
    assert!(losses[49] < losses[0], "{losses:?}");
}

#[test]
fn the_device_trains_like_the_cpu() {
    if skipped() {
        return;
    }
    let (mut gpu, mut cpu) = (compiled(&device()), compiled(&Device::cpu()));
    for step in 0..20 {
        let (ids, y) = data(step);
        let (a, b) =
            (gpu.step((&ids, &y)).unwrap().loss().unwrap(), cpu.step((&ids, &y)).unwrap().loss().unwrap());
        assert!((a - b).abs() < 1e-4 * b.abs().max(0.1), "step {step}: {a} and {b}");
    }
}

#[test]
fn a_step_that_fails_changes_nothing_and_the_next_one_succeeds() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    let (ids, mut y) = data(0);
    train.step((&ids, &y)).unwrap().loss().unwrap();
    let before = parameters(&train);

    y[5] = f32::NAN;
    let failed = train.step((&ids, &y)).unwrap();
    let error = failed.loss().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFinite { step: 1 }, "{error}");
    assert_eq!(parameters(&train), before);

    let mut wrong = ids.clone();
    wrong[4] = 11;
    let (_, y) = data(0);
    let error = train.step((&wrong, &y)).unwrap().loss().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Trap, "{error}");
    assert!(error.to_string().contains("index 11 at position [4]"), "{error}");
    assert_eq!(parameters(&train), before);

    train.step((&ids, &y)).unwrap().loss().unwrap();
    assert_ne!(parameters(&train), before);
    assert_eq!(train.applied_steps().unwrap(), 2);
}

#[test]
fn programs_share_a_store_and_names_are_checked() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    let mut forward = train
        .infer([i32("ids", [2])], |model, [ids]| {
            model.outer.forward(model.inner.forward(model.table.forward(ids)))
        })
        .unwrap();
    let first = forward.run([&[3, 4]]).unwrap();
    let (ids, y) = data(0);
    for _ in 0..3 {
        train.step((&ids, &y)).unwrap();
    }
    assert_ne!(forward.run([&[3, 4]]).unwrap(), first, "the program sees the new parameters");

    let store = train.store();
    let ty = Type::new(DType::F32, [3]);
    let bias: Vec<u8> = [1.0f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let before = parameters(&train);
    for (name, bytes) in [("outer.bias", &bias[..8]), ("outer.bia", &bias[..])] {
        assert_eq!(
            store.write(&[("outer.bias", &ty, &bias), (name, &ty, bytes)]).unwrap_err().kind(),
            ErrorKind::Store
        );
    }
    assert_eq!(parameters(&train), before);
    store.write(&[("outer.bias", &ty, &bias)]).unwrap();
    assert_eq!(store.read_f32("outer.bias").unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn what_is_allocated_is_what_was_planned() {
    if skipped() {
        return;
    }
    let train = compiled(&device());
    let totals = train.plan().totals;
    let program = train.program();
    let extra = program.work().unwrap().extra_bytes;
    assert_eq!(program.allocated(), totals.constants + totals.step + totals.workspace + extra);
    assert!(extra < 4096, "{extra}");
}

#[test]
fn a_step_is_one_pass_in_one_submission_and_is_read_only_if_asked() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    let (ids, y) = data(0);
    let readbacks = |train: &Train<Model, 2>| train.program().work().unwrap().readbacks;
    let steps: Vec<_> = (0..3).map(|_| train.step((&ids, &y)).unwrap()).collect();
    let work = train.program().work().unwrap();
    assert_eq!((work.passes, work.submits, work.readbacks), (1, 1, 0), "{work:?}");
    steps[1].loss().unwrap();
    steps[1].loss().unwrap();
    assert_eq!(readbacks(&train), 1);
    // Steps that are not read stay on the device, however many there are.
    for _ in 0..50 {
        train.step((&ids, &y)).unwrap();
    }
    assert_eq!(readbacks(&train), 1);
    train.step((&ids, &y)).unwrap().loss().unwrap();
    // Reading that step showed that all steps before it succeeded.
    train.wait().unwrap();
    assert_eq!(readbacks(&train), 2);
    train.step((&ids, &y)).unwrap();
    train.wait().unwrap();
    train.wait().unwrap();
    assert_eq!(readbacks(&train), 3);
}

#[test]
fn dropout_differs_from_step_to_step_and_not_from_run_to_run() {
    if skipped() {
        return;
    }
    let device = device();
    let losses = || {
        let mut train = compiled(&device);
        let (ids, y) = data(0);
        train.set_lr(0.0);
        [0; 3].map(|_| train.step((&ids, &y)).unwrap().loss().unwrap())
    };
    let first = losses();
    assert_eq!(first, losses());
    assert!(first[0] != first[1] && first[1] != first[2], "{first:?}");
}
