//! Checks that kernels, fused or not, compute the values of the graph, in f64.

use super::{fused, generate::generate, graph};
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{DType, Graph, OpKind, Type};
use gradloom_core::passes;
use gradloom_core::reference::{Evaluation, HostTensor, evaluate};
use gradloom_testing::evaluate_fused;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Draws values for a leaf, which depend on the seed and the leaf's name.
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
        DType::F32 | DType::F16 | DType::BF16 => (0..count).map(|_| random.uniform(-2.0, 2.0)).collect(),
        // Draw small integers, which are valid indices.
        DType::I32 | DType::U32 | DType::Bool | DType::U8 | DType::I64 => {
            (0..count).map(|_| random.below(2) as f64).collect()
        }
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

/// Compares the kernels under every setting of fusion with the graph.
#[track_caller]
pub(super) fn check(graph: &Graph, seed: u64) {
    let want = evaluate(graph, &|kind| leaf(seed, kind));
    for fusion in [Fusion::Off, Fusion::On, Fusion::SumsApart] {
        let kernels = fused(graph, fusion);
        let got = evaluate_fused(graph, &kernels, &|kind| leaf(seed, kind));
        let found = match (&got, &want) {
            (Ok(got), Ok(want)) => same(got, want),
            // Kernels must trap if the graph traps.
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

#[test]
fn numbers_computed_from_numbers_join_any_rows() {
    check(
        &graph(
            r#"
            %0: f32[] = input "a"
            %1: f32[] = input "b"
            %2: f32[2, 2] = input "x"
            %3: f32[] = mul %0, %1
            %4: f32[] = exp %3
            %5: f32[1, 1] = reshape %4
            %6: f32[2, 2] = broadcast %5
            %7: f32[2, 2] = add %6, %2
            %8: f32[2, 2] = mul %7, %2
            %9: f32[2] = sum %8 {axes=[0]}
            output "y" %9"#,
        ),
        1,
    );
}

#[test]
fn a_put_that_is_computed_again_keeps_its_rows() {
    // The result has rows of one column. One op reads it in this shape, and another op reads it through a
    // reshape to a vector.
    check(
        &graph(
            r#"
            %0: f32[1, 2, 1] = input "x"
            %1: i32[1, 2] = constant [0, 0]
            %2: f32[1, 2] = input "update"
            %3: f32[1, 2, 1] = constant 0.0
            %4: f32[1, 2, 1] = scatter_add %3, %1, %2 {batch=2}
            %5: f32[1, 2, 1] = add %4, %0
            %6: f32[5, 1] = input "w"
            %7: f32[1, 2, 5] = dot %5, %6 {lhs_contract=[2], rhs_contract=[1]}
            %8: f32[2] = reshape %5
            %9: f32[2] = mul %8, %8
            %10: f32[2, 1] = reshape %9
            %11: f32[2, 3] = broadcast %10
            %12: f32[2, 3] = input "z"
            %13: f32[2, 3] = mul %11, %12
            %14: f32[3] = sum %13 {axes=[0]}
            output "y" %14
            output "product" %7"#,
        ),
        1,
    );
}

#[test]
fn sums_that_are_joined_may_be_read_before_and_by_the_caller() {
    // One part is read before the joined value is complete.
    check(
        &graph(
            r#"
            %0: f32[3] = input "x"
            %1: f32[3] = input "y"
            %2: f32[] = sum %0 {axes=[0]}
            %3: f32[1] = reshape %2
            %4: f32[1, 3] = reshape %1
            %5: f32[1, 1] = reshape %3
            %6: f32[1, 3] = dot %5, %4 {lhs_contract=[1], rhs_contract=[0]}
            %7: f32[] = sum %6 {axes=[0, 1]}
            %8: f32[1] = reshape %7
            %9: f32[2] = concat %3, %8 {axis=0}
            %10: f32[] = sum %9 {axes=[0]}
            %11: f32[] = sqrt %10
            output "norm" %11"#,
        ),
        1,
    );
    // The caller reads one part through a view.
    check(
        &graph(
            r#"
            %0: f32[3] = input "x"
            %1: f32[3] = input "y"
            %2: f32[] = sum %0 {axes=[0]}
            %3: f32[1] = reshape %2
            %4: f32[] = sum %1 {axes=[0]}
            %5: f32[1] = reshape %4
            %6: f32[2] = concat %3, %5 {axis=0}
            %7: f32[] = sum %6 {axes=[0]}
            output "part" %3
            output "sum" %7"#,
        ),
        1,
    );
}

#[test]
fn a_joined_value_is_no_part_of_another() {
    // The second concat takes the first element of the first one, whose second element is also read.
    let text = include_str!("../../../../tests/corpus/joined_twice.txt");
    let (graph, _) = passes::run(gradloom_core::ir::parse(text).unwrap());
    check(&graph, 1);
}
