//! Tests of the shaders of random training steps, before and after the passes.

use super::{adapters, checked};
use gradloom_core::passes;
use gradloom_testing::training_step;

/// Returns the number of graphs, which the environment variable `GRADLOOM_RANDOM_GRAPHS` sets.
fn graphs() -> u64 {
    std::env::var("GRADLOOM_RANDOM_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(45)
}

#[test]
fn random_training_steps_have_valid_shaders() {
    let adapters = adapters();
    let (mut shaders, mut commits) = (0, 0);
    for seed in 0..graphs() {
        let graph = training_step(seed).graph;
        let passed = passes::run(graph.clone()).0;
        let limits = &adapters[seed as usize % adapters.len()];
        for graph in [&graph, &passed] {
            let all = checked(graph, limits);
            shaders += all.len();
            commits += all.iter().filter(|dispatch| dispatch.source.contains("let committed")).count();
        }
    }
    // The graphs must cover the cases under test.
    assert!(shaders > 10 * graphs() as usize && commits > graphs() as usize, "{shaders} {commits}");
}
