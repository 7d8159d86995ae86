//! Long chains of functions, which become deeply nested expressions, and their gradients.

use crate::{device, far, skipped};
use gradloom_core::passes;
use gradloom_core::reference::evaluate;
use gradloom_runtime::Program;
use gradloom_testing::chains::{CHAINS, element, graph};
use gradloom_testing::{Leaves, values};

const LENGTH: usize = 300;
const ELEMENTS: usize = 5;

#[test]
fn chains_compile_and_are_right() {
    if skipped() {
        return;
    }
    let device = device();
    let x: Vec<f64> = (0..ELEMENTS).map(|i| f64::from(element(i))).collect();
    let leaves = Leaves::random(0).with("x", gradloom_core::ir::DType::F32, &[ELEMENTS], &x);
    for (name, step) in CHAINS {
        let graph = passes::run(graph(step, LENGTH, ELEMENTS).unwrap()).0;
        let leaves = |kind: &_| leaves.value(kind);
        let want = evaluate(&graph, &leaves).unwrap();
        let mut program =
            Program::standalone(graph, &device, &leaves).unwrap_or_else(|e| panic!("{name}: {e}"));
        let got = program.evaluate(&leaves).unwrap_or_else(|error| panic!("{name}: {error}"));
        for ((output, got), (_, want)) in values(&got).zip(values(&want)) {
            for (got, want) in got.to_f64().into_iter().zip(want.to_f64()) {
                assert!(!far(got, want, 1e-4 * want.abs().max(1.0)), "{output} of {name}: {got}, not {want}");
            }
        }
    }
}
