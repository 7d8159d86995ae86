//! Functions that are composed of ops, with their gradients, on the CPU against the float64 reference.

use gradloom::ir::{OpKind, Output, Type};
use gradloom::prelude::*;
use gradloom::reference::{HostTensor, evaluate};
use gradloom::trace::{Input, trace};

/// Numbers in -2..2.
fn data(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 252.25 - 2.0).collect()
}

#[track_caller]
fn check(name: &str, shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Tensor) {
    let input =
        |(i, shape): (usize, &&[usize])| Input { name: i.to_string(), ty: Type::new(DType::F32, *shape) };
    let inputs: Vec<Input> = shapes.iter().enumerate().map(input).collect();
    let traced = trace(
        &(),
        &inputs,
        false,
        |x| {
            let y = f(x);
            let loss = (y * y).sum();
            std::iter::once(y).chain(x.iter().map(|&x| gradients(loss, [x])[0])).collect()
        },
        |results: Vec<Tensor>| results,
    );
    let mut traced = traced.unwrap();
    for (i, &value) in traced.results.iter().enumerate() {
        traced.graph.outputs.push(Output { name: i.to_string(), value });
    }
    let values: Vec<Vec<f32>> =
        shapes.iter().enumerate().map(|(i, s)| data(s.iter().product(), i + 1)).collect();
    let leaf = |kind: &OpKind| match kind {
        OpKind::Input { name, ty } => {
            let values = values[name.parse::<usize>().unwrap()].iter().map(|&v| f64::from(v));
            Some(HostTensor::from_f64(ty.clone(), values))
        }
        _ => None,
    };
    let wanted = evaluate(&traced.graph, &leaf).unwrap().outputs;
    let got = gradloom::runtime::run_once(traced.graph, &Device::cpu(), &values).unwrap();
    for (i, (got, (_, wanted))) in got.iter().zip(&wanted).enumerate() {
        let wanted = wanted.to_f64();
        assert_eq!(got.len(), wanted.len(), "{name}, result {i}");
        for (element, (&got, want)) in got.iter().zip(wanted).enumerate() {
            let near = (f64::from(got) - want).abs() <= 2e-5 * want.abs().max(1.0);
            assert!(near, "{name}, result {i}, element {element}: {got}, not {want}");
        }
    }
}

#[test]
fn functions_on_the_cpu() {
    check("softplus", &[&[3, 7]], |x| x[0].softplus());
    check("leaky_relu", &[&[3, 7]], |x| x[0].leaky_relu(0.1));
    check("rope", &[&[2, 5, 6]], |x| x[0].rope(10_000.0));
    check("stack", &[&[3, 1], &[3, 1]], |x| stack(1, x));
    check("layer_norm", &[&[3, 5], &[5]], |x| x[0].layer_norm(x[1], 1e-5));
    check("rms_norm", &[&[3, 5], &[5]], |x| x[0].rms_norm(x[1], 1e-6));
    check("softmax_causal", &[&[2, 4, 4]], |x| x[0].softmax_causal());
    check("self_attention", &[&[2, 3, 12]], |x| x[0].self_attention(2, AttentionOptions::causal()));
    for axis in 0..3 {
        let mut picks = [3, 3, 3];
        picks[axis] = 5;
        check("take_along_axis", &[&[3, 3, 3], &picks], |x| {
            // 0, 1 or 2.
            x[0].take_along_axis(x[1].abs().cast(DType::I32), axis as isize)
        });
    }
}
