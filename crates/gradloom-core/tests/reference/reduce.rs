//! Reductions and arg-reductions.

use crate::{INF, NAN, assert_same, eval};

fn reduce(op: &str, from: &str, axes: &str, to: &str, x: &[f64]) -> Vec<f64> {
    eval(&format!("%0: {from} = input \"x\"\n%9: {to} = {op} %0 {{axes={axes}}}"), &[("x", x)])
}

fn arg(op: &str, from: &str, axis: usize, to: &str, x: &[f64]) -> Vec<f64> {
    eval(&format!("%0: {from} = input \"x\"\n%9: {to} = {op} %0 {{axis={axis}}}"), &[("x", x)])
}

const SIX: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

#[test]
fn over_each_choice_of_axes() {
    assert_same(reduce("sum", "f32[2, 3]", "[0]", "f32[3]", SIX), &[5.0, 7.0, 9.0]);
    assert_same(reduce("sum", "f32[2, 3]", "[1]", "f32[2]", SIX), &[6.0, 15.0]);
    assert_same(reduce("sum", "f32[2, 3]", "[0, 1]", "f32[]", SIX), &[21.0]);
    assert_same(reduce("sum", "f32[2, 3]", "[]", "f32[2, 3]", SIX), SIX);
    assert_same(reduce("sum", "f32[]", "[]", "f32[]", &[4.0]), &[4.0]);
    assert_same(reduce("sum", "f32[1, 2, 3]", "[0, 2]", "f32[2]", SIX), &[6.0, 15.0]);
    assert_same(reduce("prod", "f32[2, 3]", "[1]", "f32[2]", SIX), &[6.0, 120.0]);
    assert_same(reduce("reduce_max", "f32[2, 3]", "[0]", "f32[3]", SIX), &[4.0, 5.0, 6.0]);
    assert_same(reduce("reduce_min", "f32[2, 3]", "[1]", "f32[2]", SIX), &[1.0, 4.0]);
}

#[test]
fn empty_reductions() {
    for (op, float, int, unsigned) in [
        ("sum", 0.0, 0.0, 0.0),
        ("prod", 1.0, 1.0, 1.0),
        ("reduce_max", -INF, -2_147_483_648.0, 0.0),
        ("reduce_min", INF, 2_147_483_647.0, 4_294_967_295.0),
    ] {
        assert_same(reduce(op, "f32[2, 0]", "[1]", "f32[2]", &[]), &[float, float]);
        assert_same(reduce(op, "i32[0]", "[0]", "i32[]", &[]), &[int]);
        assert_same(reduce(op, "u32[0, 3]", "[0, 1]", "u32[]", &[]), &[unsigned]);
        assert_same(reduce(op, "f32[2, 0]", "[0]", "f32[0]", &[]), &[]);
    }
}

#[test]
fn a_nan_anywhere_gives_nan() {
    for op in ["sum", "prod", "reduce_max", "reduce_min"] {
        for x in [[NAN, 1.0, INF], [1.0, NAN, -INF], [1.0, 2.0, NAN]] {
            assert_same(reduce(op, "f32[3]", "[0]", "f32[]", &x), &[NAN]);
        }
    }
}

#[test]
fn integers_wrap() {
    assert_same(reduce("sum", "i32[2]", "[0]", "i32[]", &[2_147_483_647.0, 1.0]), &[-2_147_483_648.0]);
    assert_same(reduce("sum", "u32[2]", "[0]", "u32[]", &[4_294_967_295.0, 3.0]), &[2.0]);
    assert_same(reduce("prod", "i32[3]", "[0]", "i32[]", &[65536.0, 65536.0, 3.0]), &[0.0]);
    assert_same(reduce("prod", "u32[2]", "[0]", "u32[]", &[4_294_967_295.0, 4_294_967_295.0]), &[1.0]);
    assert_same(reduce("reduce_max", "i32[2]", "[0]", "i32[]", &[-5.0, -7.0]), &[-5.0]);
}

#[test]
fn the_index_of_the_extreme_element() {
    assert_same(arg("argmax", "f32[2, 3]", 1, "i32[2]", &[1.0, 3.0, 2.0, 6.0, 5.0, 4.0]), &[1.0, 0.0]);
    assert_same(arg("argmax", "f32[2, 3]", 0, "i32[3]", &[1.0, 3.0, 2.0, 6.0, 2.0, 2.0]), &[1.0, 0.0, 0.0]);
    assert_same(arg("argmin", "f32[2, 3]", 1, "i32[2]", &[1.0, 3.0, 2.0, 6.0, 5.0, 4.0]), &[0.0, 2.0]);
    // The first of equal elements is chosen.
    assert_same(arg("argmax", "f32[4]", 0, "i32[]", &[1.0, 2.0, 2.0, 0.0]), &[1.0]);
    assert_same(arg("argmin", "f32[4]", 0, "i32[]", &[1.0, 0.0, -0.0, 0.0]), &[1.0]);
    assert_same(arg("argmax", "f32[2]", 0, "i32[]", &[-INF, -INF]), &[0.0]);
    // The first NaN takes precedence over all numbers.
    assert_same(arg("argmax", "f32[4]", 0, "i32[]", &[INF, NAN, NAN, INF]), &[1.0]);
    assert_same(arg("argmin", "f32[4]", 0, "i32[]", &[-INF, NAN, -INF, NAN]), &[1.0]);
    assert_same(arg("argmin", "f32[2]", 0, "i32[]", &[NAN, -INF]), &[0.0]);
    assert_same(arg("argmax", "i32[3]", 0, "i32[]", &[-3.0, -1.0, -2.0]), &[1.0]);
    assert_same(arg("argmax", "u32[2]", 0, "i32[]", &[0.0, 4_294_967_295.0]), &[1.0]);
    assert_same(arg("argmax", "f32[0, 3]", 1, "i32[0]", &[]), &[]);
}
