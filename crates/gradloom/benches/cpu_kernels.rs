//! Measures kernels that only move memory, on arrays larger than the caches, and compares them with the
//! bandwidth of the machine: `cargo bench -p gradloom --bench cpu_kernels -- [threads]`.
//!
//! Only the bytes that must move count: each array that a program reads or writes, once. The time is that of
//! the launches, without copies of inputs and outputs from and to the caller.

use gradloom::CpuDevice as _;
use gradloom::nn::{BatchNorm, GroupNorm, LayerNorm, Module};
use gradloom::runtime::Roofline;
use gradloom::{Data, Device, Input, Result, Session, Tensor, f32, gradients, i32};
use std::time::Duration;

const ROWS: usize = 16_384;
const COLUMNS: usize = 1_024;
const RUNS: usize = 9;

fn main() -> Result<()> {
    // Measure only if called by `cargo bench`, which sets this argument, and not by
    // `cargo test --all-targets`.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let threads = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let device = threads.map_or_else(|| Ok(Device::cpu()), Device::cpu_with_threads)?;
    let roofline = Roofline::measure(device.threads());
    let bench = Bench { device, bandwidth: roofline.bandwidth_for(u64::MAX) };
    println!(
        "{}, {} threads used: triad {:.1} GB/s",
        bench.device.description(),
        bench.device.threads(),
        bench.bandwidth / 1e9
    );
    let x: Vec<f32> = (0..ROWS * COLUMNS).map(|i| (i % 1_009) as f32 / 504.5 - 1.0).collect();
    let g: Vec<f32> = (0..ROWS * COLUMNS).map(|i| (i % 1_013) as f32 / 506.5 - 1.0).collect();
    let classes: Vec<i32> = (0..ROWS).map(|i| (i * 7 % COLUMNS) as i32).collect();
    let array = [ROWS, COLUMNS];

    bench.run(
        ("layer norm, forward and backward", 4),
        LayerNorm::new(COLUMNS),
        [f32("x", array), f32("g", array)],
        [(&x).into(), (&g).into()],
        |norm, [x, g]| {
            let y = norm.forward(x);
            let [dx, dw, db] = gradients((y * g).sum(), [x, norm.weight.tensor(), norm.bias.tensor()]);
            vec![y, dx, dw, db]
        },
    )?;
    bench.run(
        ("softmax, forward and backward", 4),
        (),
        [f32("x", array), f32("g", array)],
        [(&x).into(), (&g).into()],
        |(), [x, g]| {
            let y = x.softmax(-1);
            let [dx] = gradients((y * g).sum(), [x]);
            vec![y, dx]
        },
    )?;
    bench.run(
        ("cross-entropy, forward and backward", 2),
        (),
        [f32("x", array), i32("classes", [ROWS])],
        [(&x).into(), (&classes).into()],
        |(), [x, classes]| {
            let loss = x.cross_entropy(classes);
            let [dx] = gradients(loss, [x]);
            vec![loss, dx]
        },
    )?;
    bench.run(("a chain of ten elementwise ops", 2), (), [f32("x", array)], [(&x).into()], |(), [x]| {
        vec![(((((x * 1.5 + 0.25).abs() + 0.5).sqrt() * 2.0 - 1.0).square() + x) * 0.5).maximum(0.0)]
    })?;

    // Use the sizes of `benches/peers/torch_ops.py`, so that the results are comparable.
    let images = [64, 64, 64, 64];
    bench.run(
        ("batch norm, forward and backward", 4),
        BatchNorm::new(64),
        [f32("x", images), f32("g", images)],
        [(&x).into(), (&g).into()],
        |norm, [x, g]| {
            let mean = x.channel_mean();
            let y = x.batch_norm(mean, x.channel_variance(mean), &norm.weight, 1e-5);
            let y = y + norm.bias.tensor().reshape([64, 1, 1]);
            let [dx, dw, db] = gradients((y * g).sum(), [x, norm.weight.tensor(), norm.bias.tensor()]);
            vec![y, dx, dw, db]
        },
    )?;
    bench.run(
        ("group norm, forward and backward", 4),
        GroupNorm::new(8, 64),
        [f32("x", images), f32("g", images)],
        [(&x).into(), (&g).into()],
        |norm, [x, g]| {
            let y = norm.forward(x);
            let [dx, dw, db] = gradients((y * g).sum(), [x, norm.weight.tensor(), norm.bias.tensor()]);
            vec![y, dx, dw, db]
        },
    )?;
    let normal: Vec<f32> = (0..ROWS * COLUMNS).map(spread).collect();
    for (what, shape) in [("", [1, ROWS * COLUMNS]), (" of rows", [ROWS / 4, 4 * COLUMNS])] {
        let x = || ([f32("x", shape)], [(&normal).into()]);
        let (inputs, data) = x();
        bench.run((&format!("cumsum{what}"), 2), (), inputs, data, |(), [x]| vec![x.cumsum(1)])?;
        let (inputs, data) = x();
        bench.run((&format!("top 50{what}"), 1), (), inputs, data, |(), [x]| {
            let (values, indices) = x.top_k(50, 1);
            vec![values, indices]
        })?;
        let (inputs, data) = x();
        bench.run((&format!("sort{what}"), 3), (), inputs, data, |(), [x]| vec![x.sort(1), x.argsort(1)])?;
    }
    Ok(())
}

/// Returns the same numbers as `spread` in `benches/peers/torch_ops.py`: pseudorandom, in `[0, 1)`.
fn spread(i: usize) -> f32 {
    (((i as u64 * 2_654_435_769) % (1 << 32)) >> 8) as f32 / (1 << 24) as f32
}

struct Bench {
    device: Device,
    /// Bandwidth beyond the caches in bytes per second.
    bandwidth: f64,
}

impl Bench {
    /// Prints the rate of a program that reads and writes `arrays` arrays in total.
    fn run<M: Module, const K: usize>(
        &self,
        (name, arrays): (&str, usize),
        model: M,
        inputs: [Input; K],
        data: [Data<'_>; K],
        f: impl FnOnce(&M, [Tensor; K]) -> Vec<Tensor>,
    ) -> Result<()> {
        let mut program = Session::new(model, &self.device, 0)?.infer(inputs, f)?;
        program.set_profiling(true);
        let mut least = Duration::MAX;
        for _ in 0..RUNS {
            program.run(data)?;
            least = least.min(program.spans().iter().map(|span| span.took).sum());
        }
        let rate = (arrays * ROWS * COLUMNS * size_of::<f32>()) as f64 / least.as_secs_f64();
        println!(
            "{name:<36} {:>8.2} ms {:>4} launches {:>7.1} GB/s {:>5.0}% of the triad",
            least.as_secs_f64() * 1e3,
            program.plan().launches.len(),
            rate / 1e9,
            100.0 * rate / self.bandwidth
        );
        Ok(())
    }
}
