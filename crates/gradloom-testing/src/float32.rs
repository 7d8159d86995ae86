//! Steps in float32 against the float64 evaluator.
//!
//! In: a graph, values for its leaves, what a device gave. Out: whether float32 explains the difference. The
//! comparison is the same for all devices. Always holds: each step starts from the device's own values, as it
//! may magnify the rounding of the one before.

use crate::Leaves;
use crate::compare::{Tolerance, same};
use crate::values;
use gradloom_core::error::Error;
use gradloom_core::ir::{DType, Graph, OpKind};
use gradloom_core::reference::{Evaluation, HostTensor, evaluate, evaluate_values};
use std::ops::AddAssign;

/// A step in which a number grows beyond this says nothing about float32.
const LARGEST: f64 = 1e4;
/// The largest allowed error, as a share of the largest number that the step computes.
const SHARE: f64 = 1e-5;
/// The assumed number of roundings in the most sensitive place of a step.
const MAGNIFIED: f64 = 8.0;

/// The result of a comparison without a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Results are close.
    Close,
    /// Results are as close as they would be if leaves changed in their last bits.
    Sensitive,
    /// The step's numbers are too large to say anything.
    Wild,
}

/// Steps that were compared, by what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Number of steps found close or sensitive.
    pub steps: u64,
    /// The sensitive ones of them.
    pub sensitive: u64,
    /// Steps that were not compared.
    pub wild: u64,
}

impl Compared {
    /// Counts one step.
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

/// Compares what a device gave with what the evaluator gives for the same leaves.
///
/// # Errors
/// The first value that is wrong.
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

/// A step that runs on a device: from values of leaves to what it gives.
pub type Run<'a> = dyn FnMut(&dyn Fn(&OpKind) -> Option<HostTensor>) -> Result<Evaluation, Error> + 'a;

/// Runs some steps and compares each; ends early at one whose numbers are too large.
///
/// # Errors
/// The first value that is wrong, or the error of a step, with the number of the step.
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

/// Returns the largest change of the step's results when its leaves change in their last bit: float32
/// cannot be more exact than that.
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

/// Returns the largest number that the step meets anywhere; NaN if there is one.
pub fn largest(graph: &Graph, leaves: &Leaves) -> f64 {
    let Ok(values) = evaluate_values(graph, &|kind| leaves.value(kind)) else { return f64::NAN };
    let floats =
        graph.entry_ops().flat_map(|(_, op)| &op.results).filter(|&&v| graph.ty(v).dtype == DType::F32);
    let magnitudes = floats.flat_map(|&value| values[value].to_f64()).map(f64::abs);
    magnitudes.fold(0.0, |a, b| if b.is_nan() || a.is_nan() { f64::NAN } else { a.max(b) })
}
