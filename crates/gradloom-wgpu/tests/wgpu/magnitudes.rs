//! All unary and binary functions of floats, with operands of all magnitudes.

use crate::{device, graph, skipped};
use gradloom_core::ir::{BinaryOp, DType, UnaryOp};
use gradloom_core::reference::evaluate;
use gradloom_runtime::Program;
use gradloom_testing::{Leaves, values};

/// Maximum relative error of a function.
const TOLERANCE: f64 = 2e-5;
/// Numbers of a magnitude below this may be flushed to 0, as operands and as results.
const LEAST: f64 = 2e-38;
/// Numbers of a magnitude above this may become infinite.
const MOST: f64 = 3.3e38;

/// Returns 0 and, for every `step`th exponent, floats with two significands and both signs.
fn floats(step: usize) -> Vec<f64> {
    let positive = (1..255u32).step_by(step).flat_map(|exponent| {
        [0, exponent * 32_749 % 0x80_0000].map(|part| f64::from(f32::from_bits(exponent << 23 | part)))
    });
    let positive: Vec<f64> = positive.collect();
    let negative: Vec<f64> = positive.iter().map(|x| -x).collect();
    [positive, negative, vec![0.0]].concat()
}

/// Returns `true` if a result differs from the exact one by more than its magnitude permits.
fn wrong(got: f64, want: f64) -> bool {
    let tiny = got.abs() <= LEAST && want.abs() <= LEAST;
    let vast = got.abs() >= MOST && want.abs() >= MOST && got.signum() == want.signum();
    let same = got == want || got.is_nan() && want.is_nan();
    !(same || tiny || vast || (got - want).abs() <= TOLERANCE * want.abs().max(LEAST))
}

/// Runs a function on inputs and describes the operands for which it is wrong.
fn compare(call: &str, inputs: &[(&str, &[f64])], allowed: impl Fn(&[f64], f64, f64) -> bool) -> Vec<String> {
    let count = inputs[0].1.len();
    let mut lines = String::new();
    let mut leaves = Leaves::random(1);
    for (number, (name, floats)) in inputs.iter().enumerate() {
        lines += &format!("%{number}: f32[{count}] = input \"{name}\"\n");
        leaves = leaves.with(name, DType::F32, &[count], floats);
    }
    lines += &format!("%{}: f32[{count}] = {call}\noutput \"y\" %{}", inputs.len(), inputs.len());
    let graph = graph(&lines);
    let leaves = |kind: &_| leaves.value(kind);
    let want = evaluate(&graph, &leaves).unwrap();
    let mut program = Program::standalone(graph, &device(), &leaves).unwrap();
    let got = program.evaluate(&leaves).unwrap();
    let y = |evaluation| values(evaluation).next().unwrap().1.to_f64();
    let mut found = Vec::new();
    for (i, (got, want)) in y(&got).into_iter().zip(y(&want)).enumerate() {
        let operands: Vec<f64> = inputs.iter().map(|(_, floats)| floats[i]).collect();
        if wrong(got, want) && !allowed(&operands, got, want) {
            found.push(format!("{call} of {operands:?} is {got:e}, not {want:e}"));
        }
    }
    let all = found.len();
    found.truncate(5);
    found.extend((all > 5).then(|| format!("{call}: {all} in all")));
    found
}

#[test]
fn functions_of_one_float_are_right_at_every_magnitude() {
    if skipped() {
        return;
    }
    let x = floats(1);
    let mut found = Vec::new();
    for op in UnaryOp::ALL.iter().filter(|op| op.accepts(DType::F32)) {
        // Sine and cosine have an absolute error bound; `angles` tests them thoroughly.
        let absolute = matches!(op, UnaryOp::Sin | UnaryOp::Cos);
        let close = |_: &[f64], got: f64, want: f64| absolute && (got - want).abs() <= 2e-7;
        found.extend(compare(&format!("{} %0", op.name()), &[("x", &x)], close));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn functions_of_two_floats_are_right_at_every_magnitude() {
    if skipped() {
        return;
    }
    let some = floats(9);
    let pairs = || some.iter().flat_map(|&x| some.iter().map(move |&y| (x, y)));
    let near = (0..400).map(|i| (0.5 + f64::from(i) / 200.0, f64::from(i * 37 % 400) * 10.0 - 2000.0));
    let near = near.map(|(x, y)| (f64::from(x as f32), y));
    let (x, y): (Vec<f64>, Vec<f64>) = pairs().chain(near).unzip();
    let mut found = Vec::new();
    for op in BinaryOp::ALL.iter().filter(|op| op.accepts(DType::F32)) {
        found.extend(compare(&format!("{} %0, %1", op.name()), &[("x", &x), ("y", &y)], |_, _, _| false));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
