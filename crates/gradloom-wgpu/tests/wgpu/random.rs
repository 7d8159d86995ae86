//! Random training steps against the f64 reference, with and without the passes.

use crate::{device, random_graphs};
use gradloom::testing::WgpuOverrides;
use gradloom_codegen::pipeline::Limits;
use gradloom_core::fuse::Fusion;
use gradloom_core::passes;
use gradloom_runtime::{Device, Program};
use gradloom_testing::float32::{Compared, compare_steps};
use gradloom_testing::{TrainingStep, training_step};
use std::ops::Range;

const STEPS: usize = 2;

#[test]
fn training_steps_agree_with_the_reference() {
    if crate::skipped() {
        return;
    }
    let graphs = random_graphs();
    let compared = compare_all(&device(), 0..graphs);
    assert!(compared.steps > graphs * 2 * STEPS as u64 * 8 / 10, "few steps were tame enough: {compared:?}");
    assert!(compared.sensitive <= graphs / 30, "the tolerance hides something: {compared:?}");
}

/// WebGPU guarantees only 8 storage buffers, so that larger kernels must share bindings among values.
#[test]
fn a_small_adapter_agrees_too() {
    if crate::not_webgpu() {
        return;
    }
    let name = gradloom_testing::adapter::name();
    let small = |limits: &mut Limits| {
        *limits = Limits { software: limits.software, scalar: limits.scalar, ..Limits::portable() };
    };
    let device = gradloom::testing::wgpu_limited(&name, small, Fusion::SumsApart).unwrap();
    assert!(compare_all(&device, 1000..1000 + random_graphs() / 5).steps > 0);
}

/// Uses kernels that load single elements, regardless of what is best for the adapter.
#[test]
fn a_device_that_takes_vectors_apart_agrees_too() {
    if crate::not_webgpu() {
        return;
    }
    let name = gradloom_testing::adapter::name();
    let scalar = |limits: &mut Limits| (limits.software, limits.scalar) = (true, true);
    let device = gradloom::testing::wgpu_limited(&name, scalar, Fusion::SumsApart).unwrap();
    assert!(compare_all(&device, 3000..3000 + random_graphs() / 5).steps > 0);
}

/// Splits memory into many small buffers, so that a binding covers only one of several buffers.
#[test]
fn small_buffers_agree_too() {
    if crate::not_webgpu() {
        return;
    }
    let name = gradloom_testing::adapter::name();
    let overrides = WgpuOverrides { buffer_bytes: Some(1024), ..WgpuOverrides::default() };
    let device = gradloom::testing::wgpu_overriding(&name, overrides, Fusion::SumsApart).unwrap();
    let graphs = random_graphs() / 5;
    let mut refused = 0;
    for seed in 2000..2000 + graphs {
        // Accept the error of a fused kernel that reads more buffers than it can bind; no real device has
        // buffers this small.
        let TrainingStep { graph, leaves } = training_step(seed);
        match Program::standalone(graph, &device, &|kind| leaves.value(kind)) {
            Err(error) if error.to_string().contains("storage buffers") => refused += 1,
            _ => {
                compare_all(&device, seed..seed + 1);
            }
        }
    }
    assert!(refused <= graphs / 10, "{refused} of {graphs} graphs were refused");
}

/// Compares the steps of random graphs, before and after the passes.
fn compare_all(device: &Device, seeds: Range<u64>) -> Compared {
    let mut compared = Compared::default();
    for seed in seeds {
        let TrainingStep { graph, leaves } = training_step(seed);
        let passed = passes::run(graph.clone()).0;
        for graph in [&graph, &passed] {
            let program = Program::standalone(graph.clone(), device, &|kind| leaves.value(kind));
            let mut program = program.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{graph}"));
            let steps = compare_steps(graph, &leaves, STEPS, &mut |values| program.evaluate(&values));
            compared += steps.unwrap_or_else(|message| {
                panic!("seed {seed}: {message}\n{graph}{}", program.plan().report(graph))
            });
        }
    }
    compared
}
