//! Random training steps against the float64 reference, as they are and after the passes.

use crate::{device, far, random_graphs};
use gradloom_codegen::wgsl::Limits;
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{DType, Graph};
use gradloom_core::passes;
use gradloom_core::reference::{Evaluation, evaluate, evaluate_values};
use gradloom_runtime::{Device, Program, WgpuOverrides};
use gradloom_testing::{Leaves, TrainingStep, training_step, values};
use std::ops::Range;

const STEPS: usize = 2;
/// Steps in which a number grows beyond this say nothing about float32.
const LARGEST: f64 = 1e4;

#[test]
fn training_steps_agree_with_the_reference() {
    if crate::skipped() {
        return;
    }
    let graphs = random_graphs();
    let compared = compare_all(&device(), 0..graphs);
    assert!(compared > graphs as usize * 2 * STEPS * 8 / 10, "{compared} steps were tame enough to compare");
}

/// WebGPU promises no more than 8 bindings: the values of larger kernels share some.
#[test]
fn a_small_adapter_agrees_too() {
    if crate::skipped() {
        return;
    }
    let name = std::env::var("GRADLOOM_ADAPTER").unwrap_or_default();
    let small = |limits: &mut Limits| *limits = Limits { software: limits.software, ..Limits::portable() };
    let device = Device::wgpu_limited(&name, small, Fusion::On).unwrap();
    assert!(compare_all(&device, 1000..1000 + random_graphs() / 5) > 0);
}

/// Memory in many buffers, where kernels with more values than bindings bind a buffer at a time.
#[test]
fn small_buffers_agree_too() {
    if crate::skipped() {
        return;
    }
    let name = std::env::var("GRADLOOM_ADAPTER").unwrap_or_default();
    let overrides = WgpuOverrides { buffer_bytes: Some(1024), ..WgpuOverrides::default() };
    let device = Device::wgpu_overriding(&name, overrides, Fusion::On).unwrap();
    assert!(compare_all(&device, 2000..2000 + random_graphs() / 5) > 0);
}

/// Compares the steps of random graphs, before and after the passes; gives their number.
fn compare_all(device: &Device, seeds: Range<u64>) -> usize {
    let mut compared = 0;
    for seed in seeds {
        let TrainingStep { graph, leaves } = training_step(seed);
        let passed = passes::run(graph.clone()).0;
        for graph in [&graph, &passed] {
            compare(graph, &leaves, device, &mut compared).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
    }
    compared
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
        let far = got.iter().zip(&want).position(|(a, b)| far(*a, *b, tolerance));
        if let Some(i) = far {
            return Err(format!("{name}[{i}] is {}, expected {} (within {tolerance:e})", got[i], want[i]));
        }
    }
    Ok(())
}
