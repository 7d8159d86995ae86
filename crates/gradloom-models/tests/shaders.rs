//! Shaders of whole programs that no adapter in CI can run: training steps that multiply in f16, for GPUs
//! with cooperative matrices, and token sampling, for drivers with few storage buffers. All must be valid.

#[path = "../../gradloom-codegen/tests/wgsl/check.rs"]
mod check;

use gradloom_codegen::pipeline::{Limits, Precision, Target};
use gradloom_codegen::step::Owner;
use gradloom_codegen::wgsl;
use gradloom_core::fuse::fuse;
use gradloom_core::ir::{Graph, Output};
use gradloom_core::optim::AdamW;
use gradloom_core::passes;
use gradloom_core::plan::{self, StoreLayout};
use gradloom_core::trace::{Tensor, f32, i32, trace, u32};
use gradloom_models::decoding::{Choices, Rows, Sampling};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_runtime::{Device, Trainer};
use std::collections::HashSet;

/// Returns the limits of a GPU with cooperative matrices.
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

/// Returns the training step that `gradloom bench` uses for this configuration on a GPU, before lowering.
fn step(config: &Gpt2Config, batch: usize, precision: Precision) -> Graph {
    let shape = [batch, config.context];
    let train = Trainer::new(Gpt2::new(config).unwrap())
        .inputs([i32("ids", shape), i32("targets", shape)])
        .loss(|model, [ids, targets]| model.loss(ids, targets))
        .optimizer(AdamW::new(3e-4))
        .precision(precision)
        .compile(&Device::null_for(Target::wgsl(large(), precision)))
        .unwrap_or_else(|error| panic!("{error}"));
    train.stages().passes.clone()
}

/// Statistics of a step's shaders.
struct Shaders {
    dispatches: usize,
    /// Number of dispatches that multiply cooperative matrices.
    cooperative: usize,
    /// Size of the scratch memory in bytes.
    scratch: u64,
}

/// Validates all shaders of a step for a GPU with cooperative matrices.
fn checked(graph: &Graph, precision: Precision) -> Shaders {
    checked_for(graph, &large(), precision)
}

/// Validates all shaders of a step for a GPU with the given limits.
fn checked_for(graph: &Graph, limits: &Limits, precision: Precision) -> Shaders {
    let target = Target::wgsl(*limits, precision);
    let mut store = StoreLayout::default();
    store.extend(graph).unwrap();
    let lowered = target.lower(graph, fuse(graph, target.fusion).unwrap());
    let plan = plan::plan(graph, lowered, &store, None).unwrap_or_else(|error| panic!("{error}"));
    let (mut seen, mut dispatches, mut cooperative) = (HashSet::new(), 0, 0);
    let cuts = wgsl::Cuts::default();
    let context = wgsl::Context { plan: &plan, graph, limits, cuts: &cuts };
    let units = wgsl::units(&context).unwrap();
    for unit in units.iter().filter(|unit| matches!(unit.owner, Owner::Launch(_))) {
        for shader in unit.shaders() {
            dispatches += 1;
            cooperative += usize::from(shader.dispatch.source.contains("coopMultiplyAdd"));
            if seen.insert(&shader.dispatch.source) {
                check::check(shader.dispatch, limits);
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
        ..Gpt2Config::default()
    };
    let m = Gpt2Config {
        vocabulary: 8192,
        context: 256,
        width: 384,
        heads: 6,
        layers: 6,
        ..Gpt2Config::default()
    };
    for (config, batch) in [(s, 8), (m, 4)] {
        let graph = step(&config, batch, Precision::F32);
        // Expect three products (forward, and backward for both operands) for each of four linear layers and
        // attention per block, and for the logits.
        let plain = checked(&graph, Precision::F16);
        assert_eq!(plain.cooperative, 3 * (5 * config.layers + 1));
        assert!(plain.scratch > 0);
        assert_eq!(checked(&graph, Precision::F32).cooperative, 0);
        // With a loss scale, the updates of all parameters are still combined.
        let scaled = checked(&step(&config, batch, Precision::F16), Precision::F16);
        assert_eq!(scaled.cooperative, plain.cooperative);
        println!("{} with a scale, {} without", scaled.dispatches, plain.dispatches);
        assert!(scaled.dispatches <= plain.dispatches + 5);
    }
}

/// Sampling with any settings fits the limits of all GPUs, even with one invocation per row, where the
/// kernels have a loop for each pass.
#[test]
fn choices_of_tokens_have_valid_shaders() {
    for (limits, rows) in [
        (Limits::portable(), 3),
        (Limits::desktop(), 8),
        (Limits { software: true, ..Limits::desktop() }, 64),
    ] {
        for extra in [false, true] {
            let all =
                Choices { greedy_only: false, top_k: true, top_p: true, min_p: true, logprobs: Some(4) };
            let shape = [rows, 50_257];
            let inputs = [
                f32("logits", shape),
                f32("numbers", [rows, Sampling::NUMBERS]),
                u32("words", [rows, Sampling::WORDS]),
                i32("past", shape),
                f32("bias", shape),
            ];
            let choose = |x: &[Tensor]| {
                let [logits, numbers, words, past, bias] = *x else { unreachable!() };
                let [past, bias] = [past, bias].map(|x| extra.then_some(x));
                all.choose(logits, Rows { numbers, words, past, bias })
            };
            let traced = trace(&(), &inputs, false, choose, |chosen| {
                vec![chosen.token, chosen.logprobs.unwrap().token]
            })
            .unwrap();
            let mut graph = traced.graph;
            for (name, value) in ["token", "logprob"].into_iter().zip(traced.results) {
                graph.outputs.push(Output { name: name.into(), value });
            }
            let shaders = checked_for(&passes::run(graph).0, &limits, Precision::F32);
            assert!(shaders.dispatches < 20, "{}", shaders.dispatches);
        }
    }
}
