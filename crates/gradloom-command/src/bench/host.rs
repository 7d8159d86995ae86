//! `gradloom bench --host-cost`: the cost of a step outside of kernels, and the cost of compiling, both as
//! sizes grow.
//!
//! A step is measured on chains of tiny matrix products, which are never fused: on the null device, which
//! runs none of them, and on one CPU thread. Compiling is measured on GPT-2's training step with an
//! increasing number of layers, for the null device.

use super::timing::measure;
use crate::failure::Result;
use crate::output::print_line;
use crate::train::settings::invalid_model;
use gradloom::CpuDevice as _;
use gradloom::{AdamW, Device, Session, Trainer, f32, i32};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use serde::Serialize;
use std::time::Instant;

/// Numbers of launches of the chains.
const CHAINS: [usize; 3] = [100, 1_000, 10_000];
/// Number of runs of a chain, including the warm-up.
const RUNS: u64 = 201;
/// Number of warm-up runs of a chain.
const WARM: u64 = 20;
/// Numbers of layers of the models.
const LAYERS: [usize; 3] = [12, 24, 48];
/// Number of times that each model is compiled; the fastest counts.
const COMPILES: usize = 3;

/// A row of the first table, with median times in microseconds.
#[derive(Debug, Serialize)]
struct StepCost {
    launches: usize,
    null_us: f64,
    cpu_us: f64,
    cpu_us_per_launch: f64,
}

/// A row of the second table.
#[derive(Debug, Serialize)]
struct CompileCost {
    layers: usize,
    launches: usize,
    ms: f64,
    ms_per_layer: f64,
}

/// Measures and prints both tables.
pub(super) fn run(json: bool) -> Result<()> {
    let steps = CHAINS.map(step_cost).into_iter().collect::<Result<Vec<_>>>()?;
    let compiles = LAYERS.map(compile_cost).into_iter().collect::<Result<Vec<_>>>()?;
    if json {
        return print_line!("{}", serde_json::json!({ "steps": steps, "compiles": compiles }));
    }
    print_line!("launches   null, us a step   cpu, us a step   cpu, us a launch")?;
    for row in &steps {
        let StepCost { launches, null_us, cpu_us, cpu_us_per_launch } = row;
        print_line!("{launches:>8} {null_us:>16.2} {cpu_us:>16.1} {cpu_us_per_launch:>18.3}")?;
    }
    print_line!("\n  layers   launches   compile, ms   ms a layer")?;
    for CompileCost { layers, launches, ms, ms_per_layer } in &compiles {
        print_line!("{layers:>8} {launches:>10} {ms:>13.0} {ms_per_layer:>12.1}")?;
    }
    Ok(())
}

fn step_cost(launches: usize) -> Result<StepCost> {
    let null_us = chain(&Device::null(), launches)?;
    let cpu_us = chain(&Device::cpu_with_threads(1)?, launches)?;
    Ok(StepCost { launches, null_us, cpu_us, cpu_us_per_launch: cpu_us / launches as f64 })
}

/// Returns the median time, in microseconds, of a run of `launches` launches.
fn chain(device: &Device, launches: usize) -> Result<f64> {
    let session = Session::new((), device, 0)?;
    let shape = [2, 2];
    let mut program = session
        .infer([f32("x", shape), f32("w", shape)], |(), [x, w]| (0..launches).fold(x, |x, _| x.matmul(w)))?;
    assert_eq!(program.plan().launches.len(), launches, "nothing fuses products");
    let data = ([0.5f32, -0.5, 0.25, 0.5], [0.5f32, 0.5, -0.5, 0.5]);
    let timing = measure(RUNS, WARM, || Ok(program.run((&data.0, &data.1))?[0]))?;
    Ok(timing.spread()[1].as_secs_f64() * 1e6)
}

/// Compiles GPT-2 with `layers` layers and the width, vocabulary, context and batch of the configuration
/// `gpt2-124m`.
fn compile_cost(layers: usize) -> Result<CompileCost> {
    let config = Gpt2Config {
        vocabulary: 50_257,
        context: 1024,
        width: 768,
        heads: 12,
        layers,
        ..Gpt2Config::default()
    };
    let mut best: Option<CompileCost> = None;
    for _ in 0..COMPILES {
        let model = Gpt2::new(&config).map_err(|error| invalid_model(&error))?;
        let began = Instant::now();
        let train = Trainer::new(model)
            .inputs([i32("ids", [4, 1024]), i32("targets", [4, 1024])])
            .loss(|model, [ids, targets]| model.loss(ids, targets))
            .optimizer(AdamW::new(3e-4))
            .compile(&Device::null())?;
        let ms = began.elapsed().as_secs_f64() * 1e3;
        let row = CompileCost {
            layers,
            launches: train.plan().launches.len(),
            ms,
            ms_per_layer: ms / layers as f64,
        };
        if best.as_ref().is_none_or(|best| row.ms < best.ms) {
            best = Some(row);
        }
    }
    Ok(best.expect("it was compiled at least once"))
}
