//! Kernels, fused or not, compute in float64 what the graph computes.

use super::{fused, generate::generate, graph};
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{DType, Graph, OpKind, Type};
use gradloom_core::passes;
use gradloom_core::reference::{Evaluation, HostTensor, evaluate, evaluate_fused};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Values for leaves, drawn from their names.
fn leaf(seed: u64, kind: &OpKind) -> Option<HostTensor> {
    let (name, ty) = match kind {
        OpKind::Input { name, ty } | OpKind::Param { name, ty } | OpKind::State { name, ty, .. } => {
            (name, ty.clone())
        }
        OpKind::Scalar { name, dtype } => (name, Type::scalar(*dtype)),
        _ => return None,
    };
    let mut hasher = DefaultHasher::new();
    (seed, name).hash(&mut hasher);
    let mut random = crate::random::Random::new(hasher.finish());
    let count = ty.elements();
    let values: Vec<f64> = match ty.dtype {
        DType::F32 => (0..count).map(|_| random.uniform(-2.0, 2.0)).collect(),
        // Small, so that they can index.
        DType::I32 | DType::U32 | DType::Bool => (0..count).map(|_| random.below(2) as f64).collect(),
    };
    Some(HostTensor::from_f64(ty, values))
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-6)
}

fn same(got: &Evaluation, want: &Evaluation) -> Result<(), String> {
    if got.not_finite != want.not_finite {
        return Err(format!("not finite: {:?}, expected {:?}", got.not_finite, want.not_finite));
    }
    for (got, want) in [(&got.outputs, &want.outputs), (&got.guards, &want.guards), (&got.next, &want.next)] {
        for ((name, got), (_, want)) in got.iter().zip(want) {
            if !got.to_f64().into_iter().zip(want.to_f64()).all(|(a, b)| close(a, b)) || got.ty != want.ty {
                return Err(format!("{name} is {:?}, expected {:?}", got.to_f64(), want.to_f64()));
            }
        }
        if got.len() != want.len() {
            return Err("something is missing".into());
        }
    }
    Ok(())
}

/// Compares both ways of making kernels with the graph.
#[track_caller]
pub(super) fn check(graph: &Graph, seed: u64) {
    let want = evaluate(graph, &|kind| leaf(seed, kind));
    for fusion in [Fusion::Off, Fusion::On] {
        let kernels = fused(graph, fusion);
        let got = evaluate_fused(graph, &kernels, &|kind| leaf(seed, kind));
        let found = match (&got, &want) {
            (Ok(got), Ok(want)) => same(got, want),
            // A trap stays a trap.
            (Err(_), Err(_)) => Ok(()),
            (got, want) => Err(format!("{:?}, expected {:?}", got.as_ref().err(), want.as_ref().err())),
        };
        if let Err(message) = found {
            panic!("seed {seed}, {fusion:?}: {message}\n{graph}\n{}", kernels.print(graph));
        }
    }
}

#[test]
fn random_graphs_keep_their_meaning() {
    for seed in 0..300 {
        let (graph, _) = passes::run(generate(seed));
        check(&graph, seed);
    }
}

#[test]
fn a_value_that_does_not_line_up_is_stored() {
    check(
        &graph(
            r#"
            %0: f32[4, 6] = input "x"
            %1: f32[4, 6] = exp %0
            %2: f32[6, 4] = permute %1 {perm=[1, 0]}
            %3: f32[6, 4] = mul %2, %2
            %4: f32[4, 6] = add %1, %0
            output "a" %3
            output "b" %4"#,
        ),
        1,
    );
}
