//! Comparison of the values that two graphs compute.

use crate::random::Random;
use gradloom_core::error::Result;
use gradloom_core::ir::{DType, Graph, OpKind, Type};
use gradloom_core::reference::{Evaluation, HostTensor, evaluate};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Random values for leaves, which depend on their names: two graphs with the same leaves get the same
/// values.
pub(crate) struct Leaf {
    seed: u64,
}

impl Leaf {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed }
    }

    fn value(&self, kind: &OpKind) -> Option<HostTensor> {
        let (name, ty) = match kind {
            OpKind::Input { name, ty } | OpKind::Param { name, ty } | OpKind::State { name, ty, .. } => {
                (name, ty.clone())
            }
            OpKind::Scalar { name, dtype } => (name, Type::scalar(*dtype)),
            _ => return None,
        };
        let mut hasher = DefaultHasher::new();
        (self.seed, name).hash(&mut hasher);
        let mut random = Random::new(hasher.finish());
        let elements = ty.elements();
        // Draw small integers, which are valid indices.
        let values: Vec<f64> = match ty.dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                (0..elements).map(|_| random.uniform(-2.0, 2.0)).collect()
            }
            DType::I32 | DType::U32 | DType::Bool | DType::U8 | DType::I64 => {
                (0..elements).map(|_| random.below(2) as f64).collect()
            }
        };
        Some(HostTensor::from_f64(ty, values))
    }

    pub(crate) fn run(&self, graph: &Graph) -> Result<Evaluation> {
        evaluate(graph, &|kind| self.value(kind))
    }
}

/// Checks that two graphs compute the same outputs, guards and updates, within a relative tolerance.
#[track_caller]
pub(crate) fn assert_alike(before: &Graph, after: &Graph, leaf: &Leaf, tolerance: f64) {
    let want = leaf.run(before).unwrap_or_else(|error| panic!("{error}\n{before}"));
    assert_gives(after, &want, leaf, tolerance);
}

/// Checks that a graph computes the wanted values.
#[track_caller]
pub(crate) fn assert_gives(graph: &Graph, want: &Evaluation, leaf: &Leaf, tolerance: f64) {
    let got = leaf.run(graph).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    assert_eq!(got.not_finite, want.not_finite, "{graph}");
    for (got, want) in [(&got.outputs, &want.outputs), (&got.guards, &want.guards), (&got.next, &want.next)] {
        assert_eq!(got.len(), want.len(), "{graph}");
        for ((name, got), (wanted_name, want)) in got.iter().zip(want) {
            assert_eq!((name, &got.ty), (wanted_name, &want.ty), "{graph}");
            // Unless bits are to be equal, results near zero may be what terms of up to 1e3, rounded to 1e-16
            // of themselves, leave.
            let floor = if tolerance == 0.0 { 0.0 } else { 1e-13 };
            let close = |a: f64, b: f64| {
                a == b
                    || (a.is_nan() && b.is_nan())
                    || (a - b).abs() <= (tolerance * a.abs().max(b.abs())).max(floor)
            };
            let alike = got.to_f64().into_iter().zip(want.to_f64()).all(|(a, b)| close(a, b));
            assert!(alike, "{name} is {:?}, expected {:?}\n{graph}", got.to_f64(), want.to_f64());
        }
    }
}
