//! Evaluation of small examples.

use super::{HostTensor, evaluate};
use crate::ir::{OpKind, Output, Type};
use crate::trace::{Tensor, trace};

/// Evaluates a closure that computes a tensor from constants, in float64 and without a device. Returns the
/// elements of the tensor. Random numbers are those of step 0 with seed 0.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; }
/// use gradloom::{reference::eval, trace::literal};
///
/// assert_eq!(eval(|| literal(&[3.0, 4.0], [2]).square().sum().sqrt()), [5.0]);
/// ```
///
/// # Panics
/// Panics with the first error of the closure or of the evaluation, such as an index out of range.
#[track_caller]
pub fn eval(f: impl FnOnce() -> Tensor) -> Vec<f64> {
    let traced = trace(&(), &[], false, |_| f(), |y| vec![y]).unwrap_or_else(|error| panic!("{error}"));
    let mut graph = traced.graph;
    graph.outputs.push(Output { name: "y".to_string(), value: traced.results[0] });
    let zero = |kind: &OpKind| match kind {
        OpKind::Scalar { dtype, .. } => Some(HostTensor::from_f64(Type::scalar(*dtype), [0.0])),
        _ => None,
    };
    let found = evaluate(&graph, &zero).unwrap_or_else(|error| panic!("{error}"));
    found.output("y").expect("it was asked for").to_f64()
}
