//! The ordered list of passes and its execution.
//!
//! The list is repeated until a round changes nothing, since passes create opportunities for each other:
//! folding a condition can make a `select` redundant, and merging equal ops can make branches equal. Usually,
//! the second round changes nothing.

use super::rewriter::same;
use super::{cse, dce, expand, fold, simplify, sums};
use crate::error::Result;
use crate::grad;
use crate::ir::Graph;
use std::fmt;
use std::time::Duration;

/// A named rewrite.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Name in reports.
    pub name: &'static str,
    /// The rewrite, which returns a graph with the same meaning.
    pub run: fn(&Graph) -> Graph,
}

/// All passes in order.
pub const PIPELINE: &[Pass] = &[
    Pass { name: "expand_blocks", run: expand_blocks },
    Pass { name: "expand", run: expand::expand },
    Pass { name: "fold", run: fold::fold },
    Pass { name: "simplify", run: simplify::simplify },
    Pass { name: "sums", run: sums::sums },
    Pass { name: "cse", run: cse::cse },
    Pass { name: "dce", run: dce::dce },
];

/// Maximum number of rounds. Stopping early is safe because the graph is valid after each pass.
const MAX_ROUNDS: usize = 8;

/// The report of one run of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassReport {
    /// Name of the pass.
    pub name: &'static str,
    /// Round of the list, from 1.
    pub round: usize,
    /// Number of ops in the entry block before the pass.
    pub ops_before: usize,
    /// Number of ops in the entry block after the pass.
    pub ops_after: usize,
    /// Wall-clock time, or `None` without a clock (on `wasm32-unknown-unknown`).
    pub time: Option<Duration>,
}

impl fmt::Display for PassReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<14} {:>6} -> {:>6} ops", self.name, self.ops_before, self.ops_after)?;
        match self.time {
            Some(time) => write!(f, "  {:>8.2} ms", time.as_secs_f64() * 1e3),
            None => Ok(()),
        }
    }
}

/// Runs [`PIPELINE`] repeatedly until it changes nothing. The reports are in the order in which the passes
/// ran.
pub fn run(mut graph: Graph) -> (Graph, Vec<PassReport>) {
    let mut reports = Vec::new();
    for round in 1..=MAX_ROUNDS {
        let mut rewritten = None;
        for pass in PIPELINE {
            let before = rewritten.as_ref().unwrap_or(&graph);
            let ops_before = before.entry_ops().count();
            let start = now();
            let after = (pass.run)(before);
            let time = start.map(|start| start.elapsed());
            let ops_after = after.entry_ops().count();
            reports.push(PassReport { name: pass.name, round, ops_before, ops_after, time });
            rewritten = Some(after);
        }
        let before = std::mem::replace(&mut graph, rewritten.expect("there are passes"));
        if same(&before, &graph) {
            break;
        }
    }
    (graph, reports)
}

/// Runs an additional rewrite after the list and appends its report.
///
/// # Errors
/// Returns the error of the rewrite.
pub fn run_last(
    graph: Graph,
    reports: &mut Vec<PassReport>,
    name: &'static str,
    rewrite: impl FnOnce(&Graph) -> Result<Graph>,
) -> Result<Graph> {
    let start = now();
    let after = rewrite(&graph)?;
    reports.push(PassReport {
        name,
        round: 1,
        ops_before: graph.entry_ops().count(),
        ops_after: after.entry_ops().count(),
        time: start.map(|start| start.elapsed()),
    });
    Ok(after)
}

fn expand_blocks(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    grad::expand_blocks(&mut graph);
    graph
}

/// Returns the current time, or `None` in browsers, where `Instant::now` panics.
pub fn now() -> Option<std::time::Instant> {
    let has_clock = cfg!(not(all(target_arch = "wasm32", target_os = "unknown")));
    has_clock.then(std::time::Instant::now)
}
