//! Tests on random graphs of every primitive that neither sharing bytes nor threads changes a bit.

use crate::{bits, devices, random_graphs};
use gradloom_core::passes;
use gradloom_core::reference;
use gradloom_runtime::Program;
use gradloom_testing::{Leaves, generate};

const STEPS: usize = 2;

#[test]
fn values_that_share_bytes_are_those_that_do_not() {
    let [one, two] = devices();
    let (mut ran, mut saved) = (0, 0);
    for seed in 0..random_graphs() {
        let graph = passes::run(generate(seed)).0;
        let leaves = Leaves::random(seed);
        let values = |kind: &_| leaves.value(kind);
        let mut programs = [
            gradloom_runtime::testing::standalone_without_sharing(graph.clone(), &one, &values),
            Program::standalone(graph.clone(), &one, &values),
            Program::standalone(graph.clone(), &two, &values),
        ]
        .map(|program| program.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{graph}")));
        saved += usize::from(programs[1].allocated() < programs[0].allocated());
        for step in 0..STEPS {
            let [unshared, shared, threaded] = programs.each_mut().map(|program| program.evaluate(&values));
            match (unshared, shared, threaded) {
                (Ok(unshared), Ok(shared), Ok(threaded)) => {
                    ran += 1;
                    assert_eq!(bits(&shared), bits(&unshared), "seed {seed}, step {step}\n{graph}");
                    assert_eq!(
                        bits(&threaded),
                        bits(&unshared),
                        "seed {seed}, step {step}, two threads\n{graph}"
                    );
                }
                (Err(unshared), Err(shared), Err(threaded)) => {
                    assert_eq!(shared.to_string(), unshared.to_string(), "seed {seed}");
                    assert_eq!(threaded.to_string(), unshared.to_string(), "seed {seed}");
                    assert!(
                        step > 0 || reference::evaluate(&graph, &values).is_err(),
                        "seed {seed}: {shared}"
                    );
                }
                results => panic!("seed {seed}: {results:?}\n{graph}"),
            }
        }
    }
    let graphs = random_graphs() as usize;
    assert!(
        ran > graphs * STEPS * 8 / 10 && saved > graphs / 3,
        "{ran} steps ran, {saved} plans shared bytes"
    );
}
