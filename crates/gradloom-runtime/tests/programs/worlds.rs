//! Compares small programs and their gradients with their definitions: a sample of `cargo xtask worlds`.

use gradloom_core::passes;
use gradloom_cpu::CpuDevice as _;
use gradloom_cpu::Loops;
use gradloom_runtime::{Device, Program};
use gradloom_testing::Random;
use gradloom_testing::worlds;

/// Sampling interval: the test runs one of every `SHARE` small programs.
const SHARE: u64 = 50;

#[test]
fn small_programs_give_what_they_are_defined_to() {
    let devices = [Loops::Native, Loops::Interpreted].map(|loops| Device::cpu_with_loops(1, loops).unwrap());
    let (mut number, mut ran, mut gradients) = (0, 0, 0);
    worlds::all(&mut |program| {
        number += 1;
        if !Random::new(number).next().is_multiple_of(SHARE) {
            return;
        }
        let expected = program.expected().unwrap_or_else(|error| panic!("{program:?}: {error}"));
        let graphs = [passes::run(expected.graph.clone()).0, passes::expand::expand(&expected.graph)];
        for (device, graph) in devices.iter().zip(graphs) {
            let leaves = |kind: &_| expected.leaves.value(kind);
            let result = Program::standalone(graph, device, &leaves)
                .and_then(|mut compiled| compiled.evaluate(&leaves))
                .map_err(|error| error.to_string())
                .and_then(|got| expected.check(&got));
            result.unwrap_or_else(|error| panic!("{program:?}: {error}\n{}", expected.graph));
        }
        ran += 1;
        gradients += usize::from(expected.gradients);
    });
    assert!(ran > 13_500 && gradients > 13_000, "{ran} of {number} ran, {gradients} with gradients");
}
