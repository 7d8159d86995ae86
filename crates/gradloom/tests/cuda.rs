//! Programs on an NVIDIA GPU: where `GRADLOOM_ADAPTER` is `cuda`.

use gradloom::prelude::*;
use gradloom::{CudaOptions, Train};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};

/// Whether no NVIDIA GPU is asked for, which is said.
fn skipped() -> bool {
    let skipped = !gradloom_testing::adapter::is_cuda();
    if skipped {
        println!("skipped: GRADLOOM_ADAPTER is not `cuda`");
    }
    skipped
}

fn steps() -> usize {
    std::env::var("GRADLOOM_STEPS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000)
}

const BATCH: usize = 4;
const CONTEXT: usize = 64;

/// The preset `tiny`, with dropout, a schedule and clipping.
fn gpt(device: &Device) -> Train<Gpt2, 2> {
    let config =
        Gpt2Config { vocabulary: 256, context: CONTEXT, width: 128, heads: 4, layers: 2, dropout: 0.1 };
    Trainer::new(Gpt2::new(&config).unwrap())
        .seed(11)
        .inputs([i32("ids", [BATCH, CONTEXT]), i32("targets", [BATCH, CONTEXT])])
        .loss(|m, [ids, targets]| m.loss(ids, targets))
        .optimizer(AdamW::new(Schedule::warmup_cosine(3e-3, 20, 1000, 3e-4)).weight_decay(0.1))
        .clip_norm(1.0)
        .compile(device)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn batch(step: usize) -> [Vec<i32>; 2] {
    let text = |i: usize| ((step * 31 + i * 5) % 97) as i32;
    let ids: Vec<i32> = (0..BATCH * CONTEXT).map(text).collect();
    let targets = (0..BATCH * CONTEXT).map(|i| text(i + 1)).collect();
    [ids, targets]
}

/// The bits of every parameter and state.
fn content(train: &Train<Gpt2, 2>) -> Vec<(String, Vec<u8>)> {
    let store = train.store();
    store.entries().iter().map(|e| (e.name.clone(), store.read(&e.name).unwrap())).collect()
}

/// Trains, and reads the loss of each step, or of the last alone; `between` runs before every step.
fn trained(device: &Device, queued: bool, mut between: impl FnMut(usize)) -> (u32, Vec<(String, Vec<u8>)>) {
    let mut train = gpt(device);
    let mut loss = 0;
    for step in 0..steps() {
        between(step);
        let [ids, targets] = batch(step);
        let pending = train.step((&ids, &targets)).unwrap();
        if !queued || step + 1 == steps() {
            loss = pending.loss().unwrap().to_bits();
        }
    }
    (loss, content(&train))
}

#[test]
fn steps_have_the_same_bits_however_they_run() {
    if skipped() {
        return;
    }
    let device = Device::cuda().unwrap();
    let captured = trained(&device, false, |_| {});
    let loss = f32::from_bits(captured.0);
    assert!(loss.is_finite() && loss < 4.0, "it learns: {loss}");
    let uncaptured = Device::cuda_with(&CudaOptions::default().uncaptured()).unwrap();
    let same = |what: &str, other: &(u32, Vec<(String, Vec<u8>)>)| {
        assert_eq!(other.0, captured.0, "the loss, {what}");
        for ((name, bytes), (_, others)) in captured.1.iter().zip(&other.1) {
            assert_eq!(bytes, others, "{name}, {what}");
        }
    };
    same("uncaptured", &trained(&uncaptured, false, |_| {}));
    same("queued", &trained(&device, true, |_| {}));

    // Others at work on the same device between the steps, all with arenas that are NaN when a step starts.
    let poisoned = Device::cuda_with(&CudaOptions::default().poisoned()).unwrap();
    let mut other = gpt(&poisoned);
    let session = Session::new(Linear::new(64, 64), &poisoned, 5).unwrap();
    let mut infer = session.infer([f32("x", [16, 64])], |m, [x]| m.forward(x).softmax(-1)).unwrap();
    let [ids, targets] = batch(7);
    let between = |step: usize| {
        if step.is_multiple_of(3) {
            other.step((&ids, &targets)).unwrap();
        }
        if step.is_multiple_of(50) {
            let y = infer.run([&vec![0.5f32; 16 * 64]]).unwrap();
            assert!(y.iter().all(|y| y.is_finite()));
        }
    };
    same("beside others, poisoned", &trained(&poisoned, true, between));
}

/// Inputs take other ways by their sizes: copied by the step's first kernel, by the driver from the slots, or
/// when they are set.
#[test]
fn inputs_and_results_of_every_size_arrive() {
    if skipped() {
        return;
    }
    const SIZES: [usize; 4] = [3, 1_023, 100_003, 5_000_000];
    let [a, b, c, d] = SIZES;
    for options in [CudaOptions::default(), CudaOptions::default().uncaptured()] {
        let device = Device::cuda_with(&options).unwrap();
        let session = Session::new((), &device, 0).unwrap();
        let inputs =
            [u8("bytes", [7]), i32("offset", []), f32("a", [a]), f32("b", [b]), f32("c", [c]), f32("d", [d])];
        let mut infer = session
            .infer(inputs, |_, [bytes, offset, a, b, c, d]| {
                let offset = (offset + bytes.cast(DType::I32).sum()).cast(DType::F32);
                [a, b, c, d].map(|x| x + offset)
            })
            .unwrap();
        for run in 0..20_u8 {
            let data =
                SIZES.map(|n| (0..n).map(|i| (i % 1000) as f32 + f32::from(run)).collect::<Vec<f32>>());
            let (bytes, offset) = ([run; 7], [i32::from(run) * 100]);
            let [a, b, c, d] = &data;
            let results = infer.run((&bytes, &offset, a, b, c, d)).unwrap();
            let added = f32::from(run) * 107.0;
            for (x, y) in data.iter().zip(&results) {
                let wrong = x.iter().zip(y).position(|(x, y)| x + added != *y);
                assert_eq!((x.len(), wrong), (y.len(), None), "run {run}");
            }
        }
    }
}
