//! Compile time as programs grow: `cargo bench -p gradloom-models --bench compile [filter]`.
//!
//! Prints, for each program, the number of ops after the passes, the number of launches, the bytes of the
//! step arena, and the seconds from tracing to a loaded program on the CPU. Nothing is run. Compile time
//! should be nearly linear: a program with twice the ops should take about twice as long.

use gradloom_core::ir::Graph;
use gradloom_core::nn::{Init, Param};
use gradloom_core::optim::AdamW;
use gradloom_core::plan::Plan;
use gradloom_core::trace::{Tensor, f32, i32};
use gradloom_cpu::CpuDevice as _;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_runtime::{Device, Session, Trainer};
use std::time::{Duration, Instant};

/// Length of the vectors.
const ELEMENTS: usize = 64;
/// Number of compilations of each program unless it is slow; the fastest one is reported.
const RUNS: usize = 3;
/// Compile time above which a program is compiled only once.
const SLOW: Duration = Duration::from_secs(2);

struct Size {
    ops: usize,
    launches: usize,
    /// Size of the step arena in bytes.
    bytes: u64,
}

impl Size {
    fn of(graph: &Graph, plan: &Plan) -> Self {
        Self { ops: graph.entry_ops().count(), launches: plan.launches.len(), bytes: plan.totals.step }
    }
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let filter = arguments.first().map_or("", String::as_str);
    let device = Device::cpu();
    println!("{:<28} {:>9} {:>9} {:>11} {:>9}", "program", "ops", "launches", "bytes", "seconds");
    for count in [200, 400, 800, 1600, 3000] {
        report(filter, &format!("sum of {count} parameters"), || sum(&device, count, false));
        report(filter, &format!("the same of {count}, clipped"), || sum(&device, count, true));
    }
    for length in [512, 2048, 8192, 32_768, 100_000] {
        report(filter, &format!("chain of {length}"), || chain(&device, length));
    }
    for length in [512, 2048, 8192] {
        report(filter, &format!("gradient of a chain of {length}"), || chain_gradient(&device, length));
    }
    for layers in [12, 24, 48] {
        report(filter, &format!("GPT-2, {layers} layers"), || gpt2(&device, layers));
    }
}

fn report(filter: &str, name: &str, compile: impl Fn() -> Size) {
    if !name.contains(filter) {
        return;
    }
    let mut fastest = Duration::MAX;
    let mut size = Size { ops: 0, launches: 0, bytes: 0 };
    for _ in 0..RUNS {
        let start = Instant::now();
        size = compile();
        fastest = fastest.min(start.elapsed());
        if fastest > SLOW {
            break;
        }
    }
    let Size { ops, launches, bytes } = size;
    println!("{name:<28} {ops:>9} {launches:>9} {bytes:>11} {:>9.3}", fastest.as_secs_f64());
}

/// Compiles a training step of `y = x + x * p1 + x * p2 + ..` with `count` parameters.
fn sum(device: &Device, count: usize, clipped: bool) -> Size {
    let params: Vec<Param> = (0..count).map(|_| Param::new([ELEMENTS], Init::Zeros)).collect();
    let trainer = Trainer::new(params)
        .inputs([f32("x", [ELEMENTS])])
        .loss(|params, [x]| {
            let mut y = x;
            for p in params {
                y = y + x * p.tensor();
            }
            y.square().mean()
        })
        .optimizer(AdamW::new(1e-3));
    let trainer = if clipped { trainer.clip_norm(1.0) } else { trainer };
    let train = trainer.compile(device).expect("it compiles");
    Size::of(&train.stages().passes, train.plan())
}

fn links(x: Tensor, length: usize) -> Tensor {
    (0..length / 2).fold(x, |y, _| (y + x).tanh())
}

/// Compiles the forward pass of one long chain of ops.
fn chain(device: &Device, length: usize) -> Size {
    let session = Session::new((), device, 0).expect("no names to clash");
    let infer = session.infer([f32("x", [ELEMENTS])], |(), [x]| links(x, length)).expect("it compiles");
    Size::of(infer.program().graph(), infer.plan())
}

/// Compiles a training step of one long chain of ops.
fn chain_gradient(device: &Device, length: usize) -> Size {
    let train = Trainer::new((Param::new([ELEMENTS], Init::Zeros),))
        .inputs([f32("x", [ELEMENTS])])
        .loss(|(p,), [x]| links(x * p.tensor(), length).mean())
        .optimizer(AdamW::new(1e-3))
        .compile(device)
        .expect("it compiles");
    Size::of(&train.stages().passes, train.plan())
}

/// Compiles a training step of a small GPT-2.
fn gpt2(device: &Device, layers: usize) -> Size {
    let config =
        Gpt2Config { vocabulary: 256, context: 64, width: 64, heads: 4, layers, ..Gpt2Config::default() };
    let train = Trainer::new(Gpt2::new(&config).expect("a sound configuration"))
        .inputs([i32("ids", [2, 64]), i32("targets", [2, 64])])
        .loss(|gpt, [ids, targets]| gpt.loss(ids, targets))
        .optimizer(AdamW::new(1e-3))
        .clip_norm(1.0)
        .compile(device)
        .expect("it compiles");
    Size::of(&train.stages().passes, train.plan())
}
