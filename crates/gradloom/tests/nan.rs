//! Tests NaN and large angles on the CPU, with machine code and with interpreted loops, and in the reference.

#[path = "common/nan.rs"]
mod nan;

use gradloom::cpu::Loops;
use gradloom::prelude::*;
use gradloom::reference::{HostTensor, evaluate};
use gradloom::trace::trace;

#[test]
fn functions_of_nan_on_the_cpu() {
    for loops in [Loops::Native, Loops::Interpreted] {
        let device = Device::cpu_with_loops(1, loops).unwrap();
        let session = Session::new((), &device, 0).unwrap();
        let mut run = session.infer([f32("x", [2, 4])], |(), [x]| nan::outputs(x)).unwrap();
        nan::verify("the CPU", &run.run([&nan::INPUT]).unwrap());
        let mut run = session.infer([f32("x", [10])], |(), [x]| [x.sin(), x.cos()]).unwrap();
        nan::verify_angles("the CPU", run.run([&nan::ANGLES]).unwrap());
    }
}

#[test]
fn functions_of_nan_in_the_reference() {
    let traced = trace(&(), &[f32("x", [2, 4])], false, |x| nan::outputs(x[0]), |all| all).unwrap();
    let mut graph = traced.graph;
    for (i, value) in traced.results.into_iter().enumerate() {
        graph.outputs.push(gradloom::ir::Output { name: format!("y{i}"), value });
    }
    let ty = gradloom::ir::Type::new(DType::F32, [2, 4]);
    let x = HostTensor::from_f64(ty, nan::INPUT.map(f64::from));
    let all = evaluate(&graph, &|_| Some(x.clone())).unwrap();
    let results: Vec<Vec<f32>> =
        all.outputs.iter().map(|(_, y)| y.to_f64().into_iter().map(|y| y as f32).collect()).collect();
    nan::verify("the reference", &results);
}
