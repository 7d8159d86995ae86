//! Compares random training steps on the CPU with the float64 reference, before and after the passes, with
//! loops as machine code (if the CPU supports it) and interpreted.

use crate::{devices, random_graphs, values};
use gradloom_core::ir::{DType, Graph};
use gradloom_core::passes;
use gradloom_core::plan::Role;
use gradloom_core::reference::{Evaluation, evaluate, evaluate_values};
use gradloom_cpu::CpuDevice as _;
use gradloom_cpu::Loops;
use gradloom_runtime::{Device, Program};
use gradloom_testing::compare::{same_bits, same_numbers};
use gradloom_testing::{Leaves, TrainingStep, training_step};

const STEPS: usize = 2;
/// Steps with larger numbers are not compared, because float32 is too inexact for them.
const LARGEST: f64 = 1e4;

#[test]
fn training_steps_agree_with_the_reference() {
    let [one, two] = devices();
    let devices = [one, two, Device::cpu_with_loops(1, Loops::Interpreted).unwrap()];
    let (mut compared, mut in_place) = (0, 0);
    for seed in 0..random_graphs() {
        let TrainingStep { graph, leaves } = training_step(seed);
        let passed = passes::run(graph.clone()).0;
        in_place += compare(&graph, &leaves, &devices, seed, &mut compared);
        in_place += compare(&passed, &leaves, &devices, seed, &mut compared);
    }
    let graphs = random_graphs() as usize;
    assert!(compared > graphs * 2 * STEPS * 8 / 10, "{compared} steps were tame enough to compare");
    assert!(in_place > graphs / 2, "{in_place} updates were in place");
}

/// Runs a graph for several steps, and returns the number of updates in place.
fn compare(graph: &Graph, leaves: &Leaves, devices: &[Device; 3], seed: u64, compared: &mut usize) -> usize {
    let mut leaves = leaves.clone();
    let mut programs = devices.each_ref().map(|device| {
        Program::standalone(graph.clone(), device, &|kind| leaves.value(kind))
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{graph}"))
    });
    for step in 0..STEPS {
        let want = evaluate(graph, &|kind| leaves.value(kind))
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{graph}"));
        let scale = largest(graph, &leaves);
        if scale > LARGEST || !scale.is_finite() {
            break;
        }
        let [one, two, interpreted] = programs.each_mut().map(|program| {
            program
                .evaluate(&|kind| leaves.value(kind))
                .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{graph}"))
        });
        let same = |found: Result<(), String>, what: &str| {
            found.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {what}: {error}\n{graph}"));
        };
        same(same_bits(&two, &one), "threads change bits");
        same(same_numbers(&interpreted, &one), "interpreted loops differ from machine code");
        for (loops, got) in [("compiled", &one), ("interpreted", &interpreted)] {
            assert_close(got, &want, 1e-5 * scale.max(1.0), &|| {
                format!("seed {seed}, step {step}, {loops}\n{graph}{}", programs[0].plan().report(graph))
            });
        }
        // Continue from the device's own values, because a step may amplify the rounding errors of the
        // previous one.
        leaves.advance(&one);
        *compared += 1;
    }
    programs[0].plan().buffers.iter().filter(|buffer| buffer.role == Role::Next).count()
}

/// Returns the largest magnitude of any value computed in the step.
fn largest(graph: &Graph, leaves: &Leaves) -> f64 {
    let values = evaluate_values(graph, &|kind| leaves.value(kind)).expect("it just ran");
    let floats =
        graph.entry_ops().flat_map(|(_, op)| &op.results).filter(|&&v| graph.ty(v).dtype == DType::F32);
    let magnitudes = floats.flat_map(|&value| values[value].to_f64()).map(f64::abs);
    magnitudes.fold(0.0, |a, b| if b.is_nan() || a.is_nan() { f64::NAN } else { a.max(b) })
}

#[track_caller]
fn assert_close(got: &Evaluation, want: &Evaluation, tolerance: f64, context: &dyn Fn() -> String) {
    assert_eq!(got.not_finite, want.not_finite, "{}", context());
    assert_eq!(values(got).count(), values(want).count(), "{}", context());
    for ((name, got), (wanted_name, want)) in values(got).zip(values(want)) {
        assert_eq!((&name, &got.ty), (&wanted_name, &want.ty), "{}", context());
        let (got, want) = (got.to_f64(), want.to_f64());
        let close = got.iter().zip(&want).all(|(a, b)| (a - b).abs() <= tolerance);
        assert!(close, "{name} is {got:?}, expected {want:?} (within {tolerance:e})\n{}", context());
    }
}
