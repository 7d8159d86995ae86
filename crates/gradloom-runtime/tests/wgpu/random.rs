//! Random training steps against the float64 reference, as they are and after the passes.

use crate::{device, random_graphs, values};
use gradloom_core::ir::{DType, Graph};
use gradloom_core::passes;
use gradloom_core::reference::{Evaluation, evaluate, evaluate_values};
use gradloom_runtime::{Device, Program};
use gradloom_testing::{Leaves, TrainingStep, training_step};
use std::collections::BTreeMap;

const STEPS: usize = 2;
/// Steps in which a number grows beyond this say nothing about float32.
const LARGEST: f64 = 1e4;

#[test]
fn training_steps_agree_with_the_reference() {
    let device = device();
    let mut failures: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut compared = 0;
    for seed in std::env::var("SEED").ok().and_then(|s| s.parse().ok()).map_or(0..random_graphs(), |s: u64| s..s + 1) {
        let TrainingStep { graph, leaves } = training_step(seed);
        let passed = passes::run(graph.clone()).0;
        for graph in [&graph, &passed] {
            if let Err(message) = compare(graph, &leaves, &device, &mut compared) {
                failures.entry(message.lines().next().unwrap_or_default().chars().take(160).collect()).or_default().push(seed);
                if std::env::var_os("GRADLOOM_SHOW").is_some() {
                    panic!("seed {seed}: {message}");
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    let graphs = random_graphs() as usize;
    assert!(compared > graphs * 2 * STEPS * 8 / 10, "{compared} steps were tame enough to compare");
}

/// Runs a graph for some steps.
fn compare(graph: &Graph, leaves: &Leaves, device: &Device, compared: &mut usize) -> Result<(), String> {
    let mut leaves = leaves.clone();
    let said = |error: gradloom_core::error::Error| format!("{error}\n{graph}");
    let mut program = Program::standalone(graph.clone(), device, &|kind| leaves.value(kind)).map_err(said)?;
    for step in 0..STEPS {
        let want = evaluate(graph, &|kind| leaves.value(kind)).map_err(|error| error.to_string())?;
        let scale = largest(graph, &leaves);
        if scale > LARGEST || !scale.is_finite() {
            break;
        }
        let got = program.evaluate(&|kind| leaves.value(kind)).map_err(said)?;
        check_close(&got, &want, 1e-5 * scale.max(1.0))
            .map_err(|message| format!("{message}\nstep {step}\n{graph}{}", program.plan().report(graph)))?;
        // From the device's own values: a step may magnify the rounding of the one before.
        leaves.advance(&got);
        *compared += 1;
    }
    Ok(())
}

/// The largest number that the step meets anywhere.
fn largest(graph: &Graph, leaves: &Leaves) -> f64 {
    let values = evaluate_values(graph, &|kind| leaves.value(kind)).expect("it just ran");
    let floats =
        graph.entry_ops().flat_map(|(_, op)| &op.results).filter(|&&v| graph.ty(v).dtype == DType::F32);
    let magnitudes = floats.flat_map(|&value| values[value].to_f64()).map(f64::abs);
    magnitudes.fold(0.0, |a, b| if b.is_nan() || a.is_nan() { f64::NAN } else { a.max(b) })
}

fn check_close(got: &Evaluation, want: &Evaluation, tolerance: f64) -> Result<(), String> {
    if got.not_finite != want.not_finite {
        return Err(format!("guard {:?}, expected {:?}", got.not_finite, want.not_finite));
    }
    for ((name, got), (wanted_name, want)) in values(got).zip(values(want)) {
        if (&name, &got.ty) != (&wanted_name, &want.ty) {
            return Err(format!("{name} {} for {wanted_name} {}", got.ty, want.ty));
        }
        let (got, want) = (got.to_f64(), want.to_f64());
        let far = got.iter().zip(&want).position(|(a, b)| !((a - b).abs() <= tolerance));
        if let Some(i) = far {
            return Err(format!("{name}[{i}] is {}, expected {} (within {tolerance:e})", got[i], want[i]));
        }
    }
    Ok(())
}
