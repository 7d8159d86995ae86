//! Compares the table of ops, forward and backward, on random shapes with the float64 reference, on the
//! devices that the including test crate supplies.

use crate::devices_of_the_table;
use gradloom_core::grad::expand_blocks;
use gradloom_core::passes::expand::expand;
use gradloom_core::reference::evaluate;
use gradloom_runtime::{Device, Program};
use gradloom_testing::table::{CASES, graph_of};
use gradloom_testing::values;

/// Returns the number of random instances of each case; `GRADLOOM_INSTANCES` overrides it.
fn instances() -> u64 {
    std::env::var("GRADLOOM_INSTANCES").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

/// Runs one instance of a case on the given devices, and collects the failures.
fn failures(name: &str, seed: u64, devices: &[(&str, Device)], failures: &mut Vec<String>) {
    let case = CASES.iter().find(|case| case.name == name).expect("it is in the table");
    let (mut graph, leaves) = graph_of(case, seed);
    let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap_or_else(|e| panic!("{e}\n{graph}"));
    expand_blocks(&mut graph);
    let graph = expand(&graph);
    for (device_name, device) in devices {
        let got = Program::standalone(graph.clone(), device, &|kind| leaves.value(kind))
            .and_then(|mut program| program.evaluate(&|kind| leaves.value(kind)))
            .unwrap_or_else(|error| panic!("{name} (seed {seed}) {device_name}: {error}\n{graph}"));
        for ((output, got), (_, want)) in values(&got).zip(values(&want)) {
            let (got, want) = (got.to_f64(), want.to_f64());
            let tolerance = 2e-5 * want.iter().fold(1.0_f64, |a, b| a.max(b.abs()));
            // A NaN is never close to another number.
            let is_close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= tolerance;
            if let Some(i) = got.iter().zip(&want).position(|pair| !is_close(pair)) {
                let (got, want) = (got[i], want[i]);
                let what = format!("{name} (seed {seed}) {device_name}: {output}[{i}]");
                failures.push(format!("{what} is {got}, expected {want}"));
            }
        }
    }
}

#[test]
fn every_op_and_its_gradient_agree_with_the_reference() {
    let (devices, mut all) = (devices_of_the_table(), Vec::new());
    for case in CASES.iter().filter(|case| !devices.is_empty() && case.name != "custom") {
        (0..instances()).for_each(|seed| failures(case.name, seed, &devices, &mut all));
    }
    assert!(all.is_empty(), "{all:#?}");
}
