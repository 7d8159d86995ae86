//! Tests that sums of many numbers lose few digits, over any axes, fused or not, for any numbers.

use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{Builder, DType, Graph, OpKind, Output, ReduceOp, Type};
use gradloom_core::reference::HostTensor;
use gradloom_cpu::CpuDevice as _;
use gradloom_cpu::Loops;
use gradloom_runtime::{Device, Program};
use gradloom_testing::Random;

/// Maximum relative error of a sum of positive numbers.
const LARGEST: f64 = 1e-6;

/// Returns a graph that sums `x * x` or `x` over the given axes.
fn sum(shape: &[usize], axes: &[usize], squared: bool) -> Graph {
    let mut graph = Graph::new();
    let mut b = Builder::new(&mut graph, None);
    let x = b.op(OpKind::Input { name: "x".into(), ty: Type::new(DType::F32, shape) }, &[]);
    let terms = if squared { b.mul(x, x) } else { x };
    let value = b.reduce(ReduceOp::Sum, terms, axes);
    graph.outputs.push(Output { name: "y".into(), value });
    graph
}

fn devices() -> Vec<(&'static str, Device)> {
    vec![
        ("machine code", Device::cpu_with_loops(2, Loops::Native).unwrap()),
        ("interpreted", Device::cpu_with_loops(2, Loops::Interpreted).unwrap()),
        ("unfused", Device::cpu_with_fusion(2, Fusion::Off).unwrap()),
    ]
}

/// Returns the float64 sums over the middle one of three axes.
fn exact(values: &[f32], [outer, middle, inner]: [usize; 3], squared: bool) -> Vec<f64> {
    let mut sums = vec![0.0; outer * inner];
    for (i, &value) in values.iter().enumerate() {
        let value = f64::from(if squared { value * value } else { value });
        sums[i / (middle * inner) * inner + i % inner] += value;
    }
    sums
}

#[test]
fn sums_lose_few_digits() {
    let cases: [(&[usize], &[usize], [usize; 3]); 12] = [
        (&[5000, 20], &[0], [1, 5000, 20]),
        (&[5000, 300], &[0], [1, 5000, 300]),
        (&[1 << 20, 4], &[0], [1, 1 << 20, 4]),
        (&[1 << 22, 1], &[0], [1, 1 << 22, 1]),
        (&[1 << 16, 65], &[0], [1, 1 << 16, 65]),
        (&[3, 1 << 20], &[1], [3, 1 << 20, 1]),
        (&[1 << 22], &[0], [1, 1 << 22, 1]),
        (&[1 << 11, 1 << 11], &[0, 1], [1, 1 << 22, 1]),
        (&[2, 1 << 19, 3], &[1], [2, 1 << 19, 3]),
        (&[2, 1 << 13, 130], &[1], [2, 1 << 13, 130]),
        (&[1 << 10, 2, 1 << 10], &[0, 2], [1, 1, 1]),
        (&[100, 1000, 30], &[0, 1], [1, 100_000, 30]),
    ];
    let devices = devices();
    let mut worst: Vec<String> = Vec::new();
    for (shape, axes, split) in cases.into_iter().filter(|(_, _, split)| split[1] > 1) {
        let count: usize = shape.iter().product();
        let mut random = Random::new(1);
        let draws: [(&str, Vec<f32>); 3] = [
            ("a tenth", vec![0.1; count]),
            ("a third", vec![1.0 / 3.0; count]),
            ("random", (0..count).map(|_| random.uniform(0.0, 1.0) as f32).collect()),
        ];
        for (kind, values) in &draws {
            for squared in [false, true] {
                let graph = sum(shape, axes, squared);
                let want = exact(values, split, squared);
                let data = values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
                let x = HostTensor::from_f64(Type::new(DType::F32, shape), data);
                for (name, device) in &devices {
                    let leaves = |_: &OpKind| Some(x.clone());
                    let mut program = Program::standalone(graph.clone(), device, &leaves).unwrap();
                    let got = program.evaluate(&leaves).unwrap().output("y").unwrap().to_f64();
                    assert_eq!(got.len(), want.len());
                    let errors = got.iter().zip(&want).map(|(got, want)| ((got - want) / want).abs());
                    let error = errors.fold(0.0, f64::max);
                    if error > LARGEST {
                        worst.push(format!(
                            "{shape:?} over {axes:?} of {kind}, squared: {squared}, {name}: {error:.1e}"
                        ));
                    }
                }
            }
        }
    }
    assert!(worst.is_empty(), "{} sums:\n{}", worst.len(), worst.join("\n"));
}
