//! Compares the f64 evaluator with values that were computed by hand.

mod attention;
mod blocks;
mod dequantize;
mod elementwise;
mod index;
mod leaves;
mod matmul;
mod movement;
mod reduce;
mod step;

use gradloom_core::error::{Error, ErrorKind};
use gradloom_core::ir::{Graph, OpKind, Type, parse};
use gradloom_core::reference::{Evaluation, HostTensor, evaluate};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Names and values of leaves; bools are 0 and 1.
type Values<'a> = &'a [(&'a str, &'a [f64])];

/// Evaluates the graph with these lines.
fn run(lines: &str, values: Values<'_>) -> Result<Evaluation, Error> {
    let text = format!("graph {{\n{lines}\n}}");
    let graph = parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    evaluate(&graph, &|kind| leaf(kind, values))
}

fn leaf(kind: &OpKind, values: Values<'_>) -> Option<HostTensor> {
    let ty = match kind {
        OpKind::Input { ty, .. } | OpKind::Param { ty, .. } | OpKind::State { ty, .. } => ty.clone(),
        OpKind::Scalar { dtype, .. } => Type::scalar(*dtype),
        other => panic!("{} is no leaf", other.name()),
    };
    let name = Graph::leaf_name(kind).unwrap();
    let (_, values) = values.iter().find(|(n, _)| *n == name)?;
    Some(HostTensor::from_f64(ty, values.iter().copied()))
}

/// Returns the value of `%9` in the graph with these lines.
#[track_caller]
fn eval(lines: &str, values: Values<'_>) -> Vec<f64> {
    match run(&format!("{lines}\noutput \"y\" %9"), values) {
        Ok(evaluation) => evaluation.output("y").unwrap().to_f64(),
        Err(error) => panic!("{error}"),
    }
}

/// Returns the message of the trap in the graph with these lines.
#[track_caller]
fn trap(lines: &str, values: Values<'_>) -> String {
    let error = run(lines, values).expect_err("this traps");
    assert_eq!(error.kind(), ErrorKind::Trap, "{error}");
    error.message().to_string()
}

/// Asserts that numbers are bitwise equal, treating all NaNs as equal.
#[track_caller]
fn assert_same(actual: Vec<f64>, expected: &[f64]) {
    let bits = |v: &[f64]| v.iter().map(|v| if v.is_nan() { NAN } else { *v }.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&actual), bits(expected), "{actual:?} instead of {expected:?}");
}

/// Asserts that numbers are equal up to a few rounding errors in f64.
#[track_caller]
fn assert_close(actual: Vec<f64>, expected: &[f64]) {
    assert_eq!(actual.len(), expected.len(), "{actual:?} instead of {expected:?}");
    for (a, e) in actual.iter().zip(expected) {
        let same = a == e || (a.is_nan() && e.is_nan()) || (a - e).abs() <= 1e-14 * e.abs().max(1.0);
        assert!(same, "{actual:?} instead of {expected:?}");
    }
}
