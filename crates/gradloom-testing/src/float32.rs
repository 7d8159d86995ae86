//! Compares steps in float32 with the float64 evaluator.
//!
//! In: a graph, values for its leaves, and the results of a device. Out: whether float32 rounding explains
//! the differences. The comparison is the same for all devices. Invariant: each step starts from the
//! device's own values, because it may amplify the rounding errors of the previous step.

use crate::Leaves;
use crate::compare::{Tolerance, same};
use crate::values;
use gradloom_core::error::Error;
use gradloom_core::ir::{DType, Graph, OpKind};
use gradloom_core::reference::{Evaluation, HostTensor, evaluate, evaluate_values};
use std::ops::AddAssign;

/// Maximum magnitude of the numbers in a compared step, because float32 is too inexact for larger ones.
const LARGEST: f64 = 1e4;
/// Maximum error, relative to the largest number that the step computes.
const SHARE: f64 = 1e-5;
/// Assumed number of roundings at the most sensitive point of a step.
const MAGNIFIED: f64 = 8.0;

/// Result of a successful comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The results are close.
    Close,
    /// The results differ by no more than if the last bits of leaves had changed.
    Sensitive,
    /// The numbers of the step are too large to compare.
    Wild,
}

/// Numbers of steps by the outcome of their comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Number of compared steps, whose results were close or sensitive.
    pub steps: u64,
    /// Number of sensitive steps.
    pub sensitive: u64,
    /// Number of steps that were not compared.
    pub wild: u64,
}

impl Compared {
    /// Adds one step to the counts.
    pub fn count(&mut self, found: Found) {
        self.steps += u64::from(found != Found::Wild);
        self.sensitive += u64::from(found == Found::Sensitive);
        self.wild += u64::from(found == Found::Wild);
    }
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.sensitive += other.sensitive;
        self.wild += other.wild;
    }
}

/// Compares the results of a device with those of the evaluator for the same leaves.
///
/// # Errors
/// Returns a description of the first value that is wrong.
pub fn compare(graph: &Graph, leaves: &Leaves, got: &Evaluation, want: &Evaluation) -> Result<Found, String> {
    let scale = largest(graph, leaves);
    if scale > LARGEST || !scale.is_finite() {
        return Ok(Found::Wild);
    }
    let mut tolerance = Tolerance { relative: 0.0, absolute: SHARE * scale.max(1.0) };
    if same(got, want, tolerance).is_ok() {
        return Ok(Found::Close);
    }
    tolerance.absolute += MAGNIFIED * sensitivity(graph, leaves, want);
    same(got, want, tolerance).map(|()| Found::Sensitive)
}

/// Step that runs on a device: a function from the values of leaves to the results.
pub type Run<'a> = dyn FnMut(&dyn Fn(&OpKind) -> Option<HostTensor>) -> Result<Evaluation, Error> + 'a;

/// Runs several steps and compares each. Stops early at a step whose numbers are too large.
///
/// # Errors
/// Returns a description of the first value that is wrong, or the error of a step, with the index of the
/// step.
pub fn compare_steps(
    graph: &Graph,
    leaves: &Leaves,
    steps: usize,
    run: &mut Run<'_>,
) -> Result<Compared, String> {
    let mut leaves = leaves.clone();
    let mut compared = Compared::default();
    for step in 0..steps {
        let at = |message: String| format!("step {step}: {message}");
        let want = evaluate(graph, &|kind| leaves.value(kind));
        let got = run(&|kind| leaves.value(kind));
        let (got, want) = match (got, want) {
            (Ok(got), Ok(want)) => (got, want),
            (Err(_), Err(_)) => break,
            (Err(error), Ok(_)) => return Err(at(error.to_string())),
            (Ok(_), Err(trap)) => return Err(at(format!("it runs, expected {trap}"))),
        };
        let found = compare(graph, &leaves, &got, &want).map_err(at)?;
        compared.count(found);
        if found == Found::Wild {
            break;
        }
        leaves.advance(&got);
    }
    Ok(compared)
}

/// Returns the largest change of the step's results when the last bits of its leaves change: the best
/// accuracy that float32 can have.
fn sensitivity(graph: &Graph, leaves: &Leaves, want: &Evaluation) -> f64 {
    let mut most = 0.0;
    for seed in 0..4 {
        let near = evaluate(graph, &|kind| leaves.value_near(kind, f64::from(f32::EPSILON), seed));
        let Ok(near) = near else { continue };
        for ((_, near), (_, want)) in values(&near).zip(values(want)) {
            let changes = near.to_f64().into_iter().zip(want.to_f64()).map(|(a, b)| (a - b).abs());
            most = changes.fold(most, f64::max);
        }
    }
    most
}

/// Returns the largest magnitude of the f32 values of a step, or NaN if one is NaN or the evaluation fails.
pub fn largest(graph: &Graph, leaves: &Leaves) -> f64 {
    let Ok(values) = evaluate_values(graph, &|kind| leaves.value(kind)) else { return f64::NAN };
    let floats =
        graph.entry_ops().flat_map(|(_, op)| &op.results).filter(|&&v| graph.ty(v).dtype == DType::F32);
    let magnitudes = floats.flat_map(|&value| values[value].to_f64()).map(f64::abs);
    magnitudes.fold(0.0, |a, b| if b.is_nan() || a.is_nan() { f64::NAN } else { a.max(b) })
}
