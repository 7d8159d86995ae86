//! Values and gradients of small programs against their definition, a sample of those that
//! `cargo xtask worlds --device wgpu` runs.

use gradloom_core::passes;
use gradloom_runtime::Program;
use gradloom_testing::Random;
use gradloom_testing::worlds;

/// Number of programs of the exhaustive worlds for each program that runs here.
const SHARE: u64 = 2500;

#[test]
fn small_programs_give_what_they_are_defined_to() {
    if crate::skipped() {
        return;
    }
    let device = crate::device();
    let (mut number, mut ran) = (0, 0);
    worlds::all(&mut |program| {
        number += 1;
        if !Random::new(number).next().is_multiple_of(SHARE) {
            return;
        }
        let expected = program.expected().unwrap_or_else(|error| panic!("{program:?}: {error}"));
        let leaves = |kind: &_| expected.leaves.value(kind);
        let result = Program::standalone(passes::run(expected.graph.clone()).0, &device, &leaves)
            .and_then(|mut compiled| compiled.evaluate(&leaves))
            .map_err(|error| error.to_string())
            .and_then(|got| expected.check(&got));
        result.unwrap_or_else(|error| panic!("{program:?}: {error}\n{}", expected.graph));
        ran += 1;
    });
    assert!(ran > 200, "{ran} of {number} ran");
}
