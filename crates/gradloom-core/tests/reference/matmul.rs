//! The general matrix product.

use crate::{INF, NAN, assert_same, eval};

fn dot(lhs: &str, rhs: &str, attributes: &str, to: &str, a: &[f64], b: &[f64]) -> Vec<f64> {
    let lines = format!(
        "%0: f32{lhs} = input \"a\"\n%1: f32{rhs} = input \"b\"\n%9: f32{to} = dot %0, %1 {attributes}"
    );
    eval(&lines, &[("a", a), ("b", b)])
}

const MATMUL: &str = "{lhs_contract=[1], rhs_contract=[0]}";

#[test]
fn matrices_and_vectors() {
    let (a, b) = (&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[1.0, 0.0, 0.0, 1.0, 2.0, -1.0]);
    assert_same(dot("[2, 3]", "[3, 2]", MATMUL, "[2, 2]", a, b), &[7.0, -1.0, 16.0, -1.0]);
    let transposed = "{lhs_contract=[0], rhs_contract=[1]}";
    assert_same(dot("[3, 2]", "[2, 3]", transposed, "[2, 2]", a, b), &[1.0, 2.0, 2.0, 4.0]);
    let inner = "{lhs_contract=[0], rhs_contract=[0]}";
    assert_same(dot("[3]", "[3]", inner, "[]", &a[..3], &a[3..]), &[32.0]);
    assert_same(dot("[2]", "[2]", "", "[2, 2]", &[2.0, 3.0], &[5.0, 7.0]), &[10.0, 14.0, 15.0, 21.0]);
    assert_same(dot("[]", "[]", "", "[]", &[2.0], &[5.0]), &[10.0]);
}

#[test]
fn batch_axes_come_first_and_contracted_axes_may_be_several() {
    let a: Vec<f64> = (1..=8).map(f64::from).collect();
    let b: Vec<f64> = (1..=4).map(f64::from).collect();
    // The product of a[i, b, k] and b[k, b], where axis 1 of both is the batch.
    let batch = "{lhs_batch=[1], rhs_batch=[1], lhs_contract=[2], rhs_contract=[0]}";
    assert_same(dot("[2, 2, 2]", "[2, 2]", batch, "[2, 2]", &a, &b), &[7.0, 23.0, 22.0, 46.0]);
    // Axes 2 and 0 of a are contracted with axes 0 and 1 of b.
    let two = "{lhs_contract=[2, 0], rhs_contract=[0, 1]}";
    assert_same(dot("[2, 2, 2]", "[2, 2]", two, "[2]", &a, &b), &[41.0, 61.0]);
}

#[test]
fn empty_and_special() {
    assert_same(dot("[2, 0]", "[0, 2]", MATMUL, "[2, 2]", &[], &[]), &[0.0; 4]);
    assert_same(dot("[0, 2]", "[2, 3]", MATMUL, "[0, 3]", &[], &[1.0; 6]), &[]);
    // Terms with a factor of zero are not skipped, so infinity times zero results in NaN.
    assert_same(dot("[1, 2]", "[2, 1]", MATMUL, "[1, 1]", &[INF, 1.0], &[0.0, 1.0]), &[NAN]);
}
