//! Tests programs on an NVIDIA GPU, if `GRADLOOM_ADAPTER` is `cuda`.

#[path = "cuda/attention.rs"]
mod attention;
#[path = "cuda/world.rs"]
mod world;

use gradloom::prelude::*;
use gradloom::{CudaOptions, Precision, Train};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_testing::adapter::skipped_without_cuda as skipped;

fn steps() -> usize {
    std::env::var("GRADLOOM_STEPS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000)
}

/// Model, batch size, and number of training steps.
struct Case {
    config: Gpt2Config,
    batch: usize,
    steps: usize,
}

impl Case {
    /// Returns the preset `tiny`, with dropout.
    fn tiny() -> Self {
        let config = Gpt2Config {
            vocabulary: 256,
            context: 64,
            width: 128,
            heads: 4,
            layers: 2,
            dropout: 0.1,
            ..Gpt2Config::default()
        };
        Self { config, batch: 4, steps: steps() }
    }

    /// Returns a model with products large enough for cuBLASLt, and with a vocabulary that is not a multiple
    /// of eight.
    fn wide() -> Self {
        let config = Gpt2Config {
            vocabulary: 4_099,
            context: 256,
            width: 256,
            heads: 4,
            layers: 2,
            dropout: 0.1,
            ..Gpt2Config::default()
        };
        Self { config, batch: 8, steps: steps().min(40) }
    }

    /// Compiles the training program, with a schedule and clipping.
    fn compiled(&self, device: &Device) -> Train<Gpt2, 2> {
        let shape = [self.batch, self.config.context];
        Trainer::new(Gpt2::new(&self.config).unwrap())
            .seed(11)
            .inputs([i32("ids", shape), i32("targets", shape)])
            .loss(|m, [ids, targets]| m.loss(ids, targets))
            .optimizer(AdamW::new(Schedule::warmup_cosine(3e-3, 20, 1000, 3e-4)).weight_decay(0.1))
            .clip_norm(1.0)
            .compile(device)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn data(&self, step: usize) -> [Vec<i32>; 2] {
        let text = |i: usize| ((step * 31 + i * 5) % 97) as i32;
        let count = self.batch * self.config.context;
        [(0..count).map(text).collect(), (0..count).map(|i| text(i + 1)).collect()]
    }

    /// Trains, and reads the loss of each step or only of the last one. `between` runs before every step.
    fn trained(&self, device: &Device, queued: bool, mut between: impl FnMut(usize)) -> Trained {
        let mut train = self.compiled(device);
        let mut loss = 0;
        for step in 0..self.steps {
            between(step);
            let [ids, targets] = self.data(step);
            let pending = train.step((&ids, &targets)).unwrap();
            if !queued || step + 1 == self.steps {
                loss = pending.loss().unwrap().to_bits();
            }
        }
        (loss, content(&train))
    }

    /// Trains with and without graphs, queued and interleaved with other programs, checks that the bits are
    /// the same, and returns the loss.
    fn has_the_same_bits_however_it_runs(&self, options: &CudaOptions) -> f32 {
        let device = Device::cuda_with(options).unwrap();
        let captured = self.trained(&device, false, |_| {});
        let uncaptured = Device::cuda_with(&options.clone().uncaptured()).unwrap();
        let same = |what: &str, other: &Trained| {
            assert_eq!(other.0, captured.0, "the loss, {what}");
            for ((name, bytes), (_, others)) in captured.1.iter().zip(&other.1) {
                assert_eq!(bytes, others, "{name}, {what}");
            }
        };
        same("uncaptured", &self.trained(&uncaptured, false, |_| {}));
        same("queued", &self.trained(&device, true, |_| {}));

        // Let other programs use the same device between the steps, all with arenas that are filled with NaN
        // before a step.
        let poisoned = Device::cuda_with(&options.clone().poisoned()).unwrap();
        let mut other = self.compiled(&poisoned);
        let session = Session::new(Linear::new(64, 64), &poisoned, 5).unwrap();
        let mut infer = session.infer([f32("x", [16, 64])], |m, [x]| m.forward(x).softmax(-1)).unwrap();
        let [ids, targets] = self.data(7);
        let between = |step: usize| {
            if step.is_multiple_of(3) {
                other.step((&ids, &targets)).unwrap();
            }
            if step.is_multiple_of(50) {
                let y = infer.run([&vec![0.5f32; 16 * 64]]).unwrap();
                assert!(y.iter().all(|y| y.is_finite()));
            }
        };
        same("beside others, poisoned", &self.trained(&poisoned, true, between));
        f32::from_bits(captured.0)
    }
}

/// Bits of a loss, and the bytes of every parameter and state.
type Trained = (u32, Vec<(String, Vec<u8>)>);

fn content(train: &Train<Gpt2, 2>) -> Vec<(String, Vec<u8>)> {
    let store = train.store();
    store.entries().iter().map(|e| (e.name.clone(), store.read(&e.name).unwrap())).collect()
}

#[test]
fn steps_have_the_same_bits_however_they_run() {
    if skipped() {
        return;
    }
    let loss = Case::tiny().has_the_same_bits_however_it_runs(&CudaOptions::default());
    assert!(loss.is_finite() && loss < 4.0, "it learns: {loss}");
}

#[test]
fn steps_with_products_of_the_library_have_the_same_bits_however_they_run() {
    if skipped() {
        return;
    }
    let (case, options) = (Case::wide(), CudaOptions::default().precision(Precision::Bf16));
    let loss = case.has_the_same_bits_however_it_runs(&options);
    let device = Device::cuda_with(&options.without_cublaslt()).unwrap();
    let own = f32::from_bits(case.trained(&device, true, |_| {}).0);
    println!("with the library {loss}, without it {own}");
    assert!((loss - own).abs() < 0.02 * own, "with the library {loss}, without it {own}");
}

/// Compares products in every precision and order of axes with sums in f64: small ones with gradloom's
/// kernels, large ones with the library.
#[test]
fn products_are_as_exact_as_their_precision() {
    if skipped() {
        return;
    }
    for precision in Precision::ALL {
        let range = match precision {
            Precision::F32 => 0.0..1e-6,
            // Allow a larger error than for f32, because sums are truncated, not rounded.
            Precision::Tf32x3 => 0.0..2e-5,
            Precision::Tf32 | Precision::F16 => 2e-5..2e-3,
            Precision::Bf16 => 2e-4..2e-2,
        };
        let device = Device::cuda_with(&CudaOptions::default().precision(precision)).unwrap();
        let session = Session::new((), &device, 0).unwrap();
        for [m, n, k] in [[130, 66, 200], [64, 512, 96], [1_024, 1_024, 1_032]] {
            let number = |i: usize| ((i * 7919 % 10_007) as f32 / 10_007.0 - 0.5) * 3.0;
            let elements =
                |count: usize, first: usize| (first..first + count).map(number).collect::<Vec<_>>();
            let (a, b) = (elements(m * k, 3), elements(k * n, 11));
            let shapes = [f32("a", [m, k]), f32("at", [k, m]), f32("b", [k, n]), f32("bt", [n, k])];
            let mut infer = session
                .infer(shapes, |(), [a, at, b, bt]| {
                    let turned = at.transpose(0, 1);
                    [
                        a.matmul(b),
                        turned.matmul(b),
                        a.matmul(bt.transpose(0, 1)),
                        turned.matmul(bt.transpose(0, 1)),
                    ]
                })
                .unwrap();
            let turned = |x: &[f32], rows: usize, columns: usize| -> Vec<f32> {
                (0..rows * columns).map(|i| x[i % rows * columns + i / rows]).collect()
            };
            let results = infer.run((&a, &turned(&a, m, k), &b, &turned(&b, k, n))).unwrap();
            // Check only a few rows.
            for row in [0, m / 3, m - 1] {
                let dot = |column: usize| -> f64 {
                    (0..k).map(|t| f64::from(a[row * k + t]) * f64::from(b[t * n + column])).sum()
                };
                let want: Vec<f64> = (0..n).map(dot).collect();
                let norm = want.iter().map(|x| x * x).sum::<f64>().sqrt();
                for (order, result) in results.iter().enumerate() {
                    let got = &result[row * n..][..n];
                    let off = got.iter().zip(&want).map(|(got, want)| (f64::from(*got) - want).powi(2));
                    let off = off.sum::<f64>().sqrt() / norm;
                    assert!(
                        range.contains(&off),
                        "{precision:?} {m}x{n}x{k}, order {order}, row {row}: {off:.1e}"
                    );
                }
            }
        }
    }
}

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
