//! The whole pipeline of passes, on given and on random graphs.

use crate::generate::generate;
use crate::inputs;
use crate::meaning::{Leaf, assert_gives};
use gradloom_core::ir::Graph;
use gradloom_core::passes::{PIPELINE, run};
use gradloom_core::verify::verify;

const GRAPHS: u64 = 1000;

/// Calls `check` with every random graph that does not trap, and the values that the graph computes.
fn on_random_graphs(check: impl Fn(u64, &Graph, &gradloom_core::reference::Evaluation, &Leaf)) {
    let mut checked = 0;
    for seed in 0..GRAPHS {
        let graph = generate(seed);
        verify(&graph).unwrap_or_else(|error| panic!("{error}\n{graph}"));
        let leaf = Leaf::new(seed);
        if let Ok(want) = leaf.run(&graph) {
            check(seed, &graph, &want, &leaf);
            checked += 1;
        }
    }
    assert!(checked * 10 >= GRAPHS * 9, "only {checked} of {GRAPHS} graphs run");
}

#[test]
fn each_pass_keeps_the_meaning_of_random_graphs() {
    on_random_graphs(|seed, graph, want, leaf| {
        for pass in PIPELINE {
            let after = (pass.run)(graph);
            verify(&after).unwrap_or_else(|e| panic!("{} (seed {seed}): {e}\n{after}", pass.name));
            assert_gives(&after, want, leaf, 1e-9);
            assert_eq!(inputs(&after), inputs(graph), "{} (seed {seed})", pass.name);
        }
    });
}

#[test]
fn the_pipeline_keeps_the_meaning_of_random_graphs_and_is_idempotent() {
    on_random_graphs(|seed, graph, want, leaf| {
        let (once, reports) = run(graph.clone());
        verify(&once).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{once}"));
        assert_gives(&once, want, leaf, 1e-9);
        let (twice, again) = run(once.clone());
        assert_eq!(twice.to_string(), once.to_string(), "seed {seed}");
        assert_eq!(again.len(), PIPELINE.len(), "seed {seed}: one round finds nothing to do");
        assert!(reports.last().unwrap().round < 8, "seed {seed}: no end in sight\n{graph}");
    });
}

#[test]
fn random_graphs_reach_every_pass() {
    let mut changed = vec![0; PIPELINE.len()];
    for seed in 0..GRAPHS {
        let (_, reports) = run(generate(seed));
        for (changed, report) in changed.iter_mut().zip(&reports) {
            *changed += usize::from(report.ops_before != report.ops_after);
        }
    }
    for (pass, changed) in PIPELINE.iter().zip(changed) {
        // Folding and simplification do not change the number of ops; dead code elimination reduces it later.
        let expected = match pass.name {
            "fold" | "simplify" => 0,
            "expand" => 20,
            _ => 100,
        };
        assert!(changed >= expected, "{} changed {changed} graphs", pass.name);
    }
}

#[test]
fn reports_name_the_passes_in_order_with_their_counts() {
    let graph = generate(3);
    let ops = graph.entry_ops().count();
    let (after, reports) = run(graph);
    let names: Vec<_> = reports.iter().map(|report| report.name).collect();
    let expected: Vec<_> = PIPELINE.iter().map(|pass| pass.name).cycle().take(names.len()).collect();
    assert_eq!(names, expected);
    assert_eq!(reports[0].ops_before, ops);
    assert_eq!(reports.last().unwrap().ops_after, after.entry_ops().count());
    assert!(reports.windows(2).all(|pair| pair[0].ops_after == pair[1].ops_before));
    assert!(reports.iter().all(|report| report.time.is_some()));
    assert!(reports[0].to_string().starts_with("expand_blocks"), "{}", reports[0]);
}
