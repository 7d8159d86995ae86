//! The table of ops, forward and backward, on random shapes, against the float64 reference.

use crate::{device, far};
use gradloom_core::grad::expand_blocks;
use gradloom_core::passes::expand::expand;
use gradloom_core::reference::evaluate;
use gradloom_runtime::Program;
use gradloom_testing::table::{CASES, graph_of};
use gradloom_testing::values;

/// Random instances of each case; `GRADLOOM_INSTANCES` asks for more.
fn instances() -> u64 {
    std::env::var("GRADLOOM_INSTANCES").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

#[test]
fn every_op_and_its_gradient_agree_with_the_reference() {
    if crate::skipped() {
        return;
    }
    let device = device();
    let mut failures = Vec::new();
    for case in CASES.iter().filter(|case| case.name != "custom") {
        for seed in 0..instances() {
            let (mut graph, leaves) = graph_of(case, seed);
            let want =
                evaluate(&graph, &|kind| leaves.value(kind)).unwrap_or_else(|e| panic!("{e}\n{graph}"));
            expand_blocks(&mut graph);
            let graph = expand(&graph);
            let got = Program::standalone(graph.clone(), &device, &|kind| leaves.value(kind))
                .and_then(|mut program| program.evaluate(&|kind| leaves.value(kind)))
                .unwrap_or_else(|error| panic!("{} (seed {seed}): {error}\n{graph}", case.name));
            for ((name, got), (_, want)) in values(&got).zip(values(&want)) {
                let (got, want) = (got.to_f64(), want.to_f64());
                let scale = want.iter().fold(1.0_f64, |a, b| a.max(b.abs()));
                let far = got.iter().zip(&want).position(|(a, b)| far(*a, *b, 2e-5 * scale));
                if let Some(i) = far {
                    failures.push(format!(
                        "{} (seed {seed}): {name}[{i}] is {}, expected {}",
                        case.name, got[i], want[i]
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
