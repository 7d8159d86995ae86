//! Runs attributes and extents near the limits of `usize` through every stage up to the plan. The result is
//! an error or a plan, never a panic.
//!
//! Debug builds check every addition and multiplication for overflow. The graphs are parsed from text, as
//! graphs from another process are.

mod ops;
mod plans;
mod text;
mod trace;

use gradloom_codegen::pipeline::{Limits, Precision, Target};
use gradloom_core::fuse::{Fusion, fuse};
use gradloom_core::ir::{Graph, Output, ValueId, parse};
use gradloom_core::plan::{Plan, StoreLayout, cost, plan};
use gradloom_core::verify::verify;
use gradloom_core::{grad, kernel, passes};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Numbers near the limits of the stages' arithmetic: 32 bits, the size of the largest value, and 64 bits.
const EXTREMES: [usize; 12] = [
    0,
    1,
    2,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    1 << 48,
    1 << 58,
    (isize::MAX as usize) / 8,
    1 << 60,
    1 << 63,
    usize::MAX,
];

/// Numbers of texts by outcome.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    refused: usize,
    verified: usize,
    planned: usize,
}

impl Counts {
    /// Runs a text through all stages.
    ///
    /// # Panics
    /// Panics with the text if a stage panics.
    fn check(&mut self, text: &str) {
        let Some(graph) = caught(text, "parse", || parse(text).ok().filter(|graph| verify(graph).is_ok()))
        else {
            self.refused += 1;
            return;
        };
        self.verified += 1;
        let fusions = [Fusion::On, Fusion::Off];
        self.planned += fusions.iter().filter(|&&fusion| stages(text, graph.clone(), fusion)).count();
    }
}

/// Runs a stage of a text; a panic becomes one that names the stage and the text.
fn caught<R>(text: &str, stage: &str, run: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(_) => panic!("the stage `{stage}` panicked on\n{text}"),
    }
}

/// Runs the stages for the CPU. Returns `true` if they result in a plan.
fn stages(text: &str, graph: Graph, fusion: Fusion) -> bool {
    let graph = caught(text, "passes", || passes::run(graph).0);
    verify(&graph).unwrap_or_else(|error| panic!("after the passes: {error}\n{text}"));
    let Ok(fused) = caught(text, "fuse", || fuse(&graph, fusion)) else { return false };
    let lowered = caught(text, "lower for the CPU", || Target::cpu(3).lower(&graph, fused));
    planned(text, &graph, lowered).is_some()
}

/// Runs the stages for a GPU, up to the plan.
fn gpu_stages(text: &str, graph: &Graph) {
    let target = Target::wgsl(Limits::default(), Precision::F32);
    let Ok(fused) = caught(text, "fuse for a GPU", || fuse(graph, target.fusion)) else { return };
    planned(text, graph, caught(text, "lower for a GPU", || target.lower(graph, fused)));
}

fn planned(text: &str, graph: &Graph, lowered: kernel::Lowered) -> Option<Plan> {
    let mut store = StoreLayout::default();
    caught(text, "store", || store.extend(graph)).ok()?;
    let plan = caught(text, "plan", || plan(graph, lowered, &store, None)).ok()?;
    caught(text, "cost", || plan.launches.iter().for_each(|launch| _ = cost(&plan, launch).bytes()));
    caught(text, "totals", || plan.totals.peak());
    caught(text, "without sharing", || plan.clone().without_sharing());
    let segments = caught(text, "segments", || plan.clone().in_segments(graph, 1 << 28, true));
    if let Ok(plan) = segments {
        caught(text, "cost in segments", || plan.launches.iter().for_each(|launch| _ = cost(&plan, launch)));
    }
    Some(plan)
}

/// Returns the graph with gradients as outputs: those of the sum of all elements of its f32 results, with
/// respect to its f32 values in `wrt`. Returns `None` if differentiation fails.
fn with_gradients(text: &str, mut graph: Graph, results: &[ValueId], wrt: &[ValueId]) -> Option<Graph> {
    use gradloom_core::ir::{Builder, DType, OpKind, ReduceOp};
    let mut builder = Builder::new(&mut graph, None);
    let mut loss = builder.number(0.0);
    for &result in results {
        if builder.graph.ty(result).dtype != DType::F32 {
            continue;
        }
        let axes = (0..builder.graph.ty(result).shape.rank()).collect();
        let sum = builder.op(OpKind::Reduce { op: ReduceOp::Sum, axes }, &[result]);
        loss = builder.add(loss, sum);
    }
    let wrt: Vec<ValueId> =
        wrt.iter().copied().filter(|&v| builder.graph.ty(v).dtype == DType::F32).collect();
    let gradients = caught(text, "grad", || grad::append(&mut graph, loss, None, &wrt)).ok()?;
    for (i, value) in gradients.into_iter().enumerate() {
        graph.outputs.extend(value.map(|value| Output { name: format!("gradient {i}"), value }));
    }
    Some(graph)
}
