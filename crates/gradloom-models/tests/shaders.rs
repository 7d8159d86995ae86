//! Shaders of whole training steps that no adapter of CI can run: those that multiply in f16 are valid for
//! the drivers of GPUs that can.

#[path = "../../gradloom-codegen/tests/wgsl/check.rs"]
mod check;

use gradloom_codegen::wgsl::{self, Choices, Limits, Precision};
use gradloom_core::ir::Graph;
use gradloom_core::optim::AdamW;
use gradloom_core::plan::{self, StoreLayout};
use gradloom_core::trace::i32;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_runtime::{Device, Trainer};
use std::collections::HashSet;

/// A GPU with cooperative matrices.
fn large() -> Limits {
    Limits {
        invocations: 1024,
        workgroup_memory: 48 << 10,
        storage_buffers: 64,
        binding_bytes: 2 << 30,
        subgroup: Some(32),
        f16: true,
        cooperative: true,
        ..Limits::portable()
    }
}

/// The training step that `gradloom bench` has for these sizes, before it is lowered.
fn step(config: &Gpt2Config, batch: usize, precision: Precision) -> Graph {
    let shape = [batch, config.context];
    let train = Trainer::new(Gpt2::new(config).unwrap())
        .inputs([i32("ids", shape), i32("targets", shape)])
        .loss(|model, [ids, targets]| model.loss(ids, targets))
        .optimizer(AdamW::new(3e-4))
        .precision(precision)
        .compile(&Device::null())
        .unwrap_or_else(|error| panic!("{error}"));
    train.stages().passes.clone()
}

/// What the shaders of a step come to.
struct Shaders {
    dispatches: usize,
    /// Those that multiply cooperative matrices.
    cooperative: usize,
    /// Bytes.
    scratch: usize,
}

/// Checks all shaders of a step.
fn checked(graph: &Graph, precision: Precision) -> Shaders {
    let (limits, choices) = (large(), Choices::by_rule(precision));
    let mut store = StoreLayout::default();
    store.extend(graph).unwrap();
    let lowered = wgsl::lower(graph, &limits, &choices).unwrap();
    let plan = plan::plan(graph, lowered, &store, None).unwrap_or_else(|error| panic!("{error}"));
    let (mut seen, mut dispatches, mut cooperative) = (HashSet::new(), 0, 0);
    let cuts = wgsl::Cuts::default();
    let context = wgsl::Context { plan: &plan, graph, limits: &limits, cuts: &cuts };
    for (number, launch) in plan.launches.iter().enumerate() {
        for shaders in wgsl::shaders(launch, number, &context).unwrap() {
            for dispatch in shaders.dispatches {
                dispatches += 1;
                cooperative += usize::from(dispatch.source.contains("coopMultiplyAdd"));
                if seen.insert(dispatch.source.clone()) {
                    check::check(&dispatch, &limits);
                }
            }
        }
    }
    Shaders { dispatches, cooperative, scratch: plan.totals.workspace }
}

#[test]
fn training_steps_in_f16_have_valid_shaders() {
    let s = Gpt2Config {
        vocabulary: 256,
        context: 128,
        width: 128,
        heads: 4,
        layers: 4,
        dropout: 0.0,
        ..Gpt2Config::default()
    };
    let m = Gpt2Config {
        vocabulary: 8192,
        context: 256,
        width: 384,
        heads: 6,
        layers: 6,
        dropout: 0.0,
        ..Gpt2Config::default()
    };
    for (config, batch) in [(s, 8), (m, 4)] {
        let graph = step(&config, batch, Precision::F32);
        // Forward, and for both operands backward: four products a block and its attention, and the logits.
        let plain = checked(&graph, Precision::F16);
        assert_eq!(plain.cooperative, 3 * (5 * config.layers + 1));
        assert!(plain.scratch > 0);
        assert_eq!(checked(&graph, Precision::F32).cooperative, 0);
        // With a loss scale, the updates of all parameters still run together.
        let scaled = checked(&step(&config, batch, Precision::F16), Precision::F16);
        assert_eq!(scaled.cooperative, plain.cooperative);
        println!("{} with a scale, {} without", scaled.dispatches, plain.dispatches);
        assert!(scaled.dispatches <= plain.dispatches + 5);
    }
}
