//! Compares functions that are composed of ops with formulas in f64 that are written out here, and their
//! gradients with central differences.

mod activations;
mod alike;
mod attention;
mod curvature;
mod ignored;
mod indexing;
mod joining;
mod narrow;
mod norms;
mod pooling;
mod random;
mod rope;

use gradloom_core::error::{Error, Result};
use gradloom_core::ir::{DType, OpKind, Output, Type};
use gradloom_core::reference::{HostTensor, evaluate};
use gradloom_core::trace::{Input, Tensor, gradients, trace};
use gradloom_testing::random::Random;

#[derive(Clone)]
struct Value {
    ty: Type,
    data: Vec<f64>,
}

fn floats(shape: &[usize], data: &[f64]) -> Value {
    Value { ty: Type::new(DType::F32, shape), data: data.to_vec() }
}

fn ints(shape: &[usize], data: &[f64]) -> Value {
    Value { ty: Type::new(DType::I32, shape), data: data.to_vec() }
}

/// Draws uniform numbers in -2..2, which are the same for the same seed.
fn drawn(shape: &[usize], seed: u64) -> Value {
    let mut random = Random::new(seed);
    let data: Vec<f64> = (0..shape.iter().product()).map(|_| random.uniform(-2.0, 2.0)).collect();
    floats(shape, &data)
}

/// A function of tensors. It is called through a reference, so that tracing is compiled once.
type Function<'f> = &'f dyn Fn(&[Tensor]) -> Vec<Tensor>;

/// Evaluates a function of tensors in f64.
fn run(values: &[Value], f: impl Fn(&[Tensor]) -> Vec<Tensor>) -> Result<Vec<HostTensor>> {
    evaluated(false, values, &f)
}

/// Evaluates a function of tensors in f64, as a training loss if `training` is true.
fn run_as(training: bool, values: &[Value], f: impl Fn(&[Tensor]) -> Vec<Tensor>) -> Result<Vec<HostTensor>> {
    evaluated(training, values, &f)
}

fn evaluated(training: bool, values: &[Value], f: Function) -> Result<Vec<HostTensor>> {
    let input = |(i, value): (usize, &Value)| Input { name: i.to_string(), ty: value.ty.clone() };
    let inputs: Vec<Input> = values.iter().enumerate().map(input).collect();
    let mut traced = trace(&(), &inputs, training, f, |results| results)?;
    for (i, &value) in traced.results.iter().enumerate() {
        traced.graph.outputs.push(Output { name: i.to_string(), value });
    }
    let leaf = |kind: &OpKind| match kind {
        OpKind::Input { name, ty } => {
            let value: &Value = &values[name.parse::<usize>().unwrap()];
            Some(HostTensor::from_f64(ty.clone(), value.data.iter().copied()))
        }
        // The scalars are the seed and the step of the random numbers.
        OpKind::Scalar { dtype, .. } => Some(HostTensor::from_f64(Type::scalar(*dtype), [7.0])),
        _ => None,
    };
    Ok(evaluate(&traced.graph, &leaf)?.outputs.into_iter().map(|(_, tensor)| tensor).collect())
}

/// Returns the single result of a function.
#[track_caller]
fn value(values: &[Value], f: impl Fn(&[Tensor]) -> Tensor) -> HostTensor {
    run(values, |x| vec![f(x)]).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

#[track_caller]
fn error(values: &[Value], f: impl Fn(&[Tensor]) -> Tensor) -> Error {
    match run(values, |x| vec![f(x)]) {
        Ok(results) => panic!("no error, but {:?}", results[0].ty),
        Err(error) => error,
    }
}

#[track_caller]
fn assert_near(got: &HostTensor, shape: &[usize], want: &[f64], tolerance: f64) {
    assert_eq!(&got.ty.shape[..], shape);
    let got = got.to_f64();
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let near = (got - want).abs() <= tolerance * want.abs().max(1.0);
        assert!(near || got == want || (got.is_nan() && want.is_nan()), "element {i} is {got}, not {want}");
    }
}

/// Compares the gradients of `sum(f(x) · weights)` with respect to each f32 input with five-point central
/// differences, whose error is of fourth order.
#[track_caller]
fn check_gradients(values: &[Value], f: impl Fn(&[Tensor]) -> Tensor) {
    check_gradients_of(values, &f);
}

#[track_caller]
fn check_gradients_of(values: &[Value], f: &dyn Fn(&[Tensor]) -> Tensor) {
    const STEP: f64 = 1e-3;
    let weights = drawn(&value(values, f).ty.shape, 99);
    let all: Vec<Value> = values.iter().cloned().chain([weights]).collect();
    let (n, loss) = (values.len(), |x: &[Tensor]| (f(&x[..values.len()]) * x[values.len()]).sum());
    for i in (0..n).filter(|&i| values[i].ty.dtype.is_float()) {
        let gradient = value(&all, |x| gradients(loss(x), [x[i]])[0]);
        for (element, got) in gradient.to_f64().into_iter().enumerate() {
            let at = |offset: f64| {
                let mut moved = all.clone();
                moved[i].data[element] += offset * STEP;
                value(&moved, loss).to_f64()[0]
            };
            let want = (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * STEP);
            let tolerance = 1e-6 * got.abs().max(want.abs()).max(1e-2);
            assert!((got - want).abs() <= tolerance, "input {i}, element {element}: {got}, not {want}");
        }
    }
}
