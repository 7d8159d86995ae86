//! Gradients at kinks, ties and zeros, where finite differences do not apply: they follow PyTorch's
//! conventions.

use crate::leaves::Leaves;
use gradloom_core::grad::append;
use gradloom_core::ir::{
    BinaryOp, Builder, CompareOp, DType, Graph, Literal, Number, OpKind, Output, ReduceOp, Type, UnaryOp,
    ValueId,
};

const NAN: f64 = f64::NAN;

/// Computes the gradients of Σ f(x..) with respect to each operand.
fn gradients(operands: &[&[f64]], f: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> ValueId) -> Vec<Vec<f64>> {
    let (mut graph, mut leaves) = (Graph::new(), Leaves::default());
    let mut b = Builder::new(&mut graph, None);
    let x: Vec<_> = operands
        .iter()
        .enumerate()
        .map(|(i, values)| leaves.param(&mut b, &format!("x{i}"), &[values.len()], values))
        .collect();
    let y = f(&mut b, &x);
    let axes: Vec<_> = (0..b.shape(y).rank()).collect();
    let loss = b.reduce(ReduceOp::Sum, y, &axes);
    let gradients = append(&mut graph, loss, None, &x).unwrap();
    for (i, gradient) in gradients.into_iter().enumerate() {
        graph.outputs.push(Output { name: i.to_string(), value: gradient.unwrap() });
    }
    leaves.run(&graph).outputs.into_iter().map(|(_, tensor)| tensor.to_f64()).collect()
}

fn unary(op: UnaryOp, x: &[f64]) -> Vec<f64> {
    gradients(&[x], |b, x| b.unary(op, x[0])).remove(0)
}

fn binary(op: BinaryOp, a: &[f64], b: &[f64]) -> [Vec<f64>; 2] {
    gradients(&[a, b], |builder, x| builder.binary(op, x[0], x[1])).try_into().unwrap()
}

fn reduce(op: ReduceOp, x: &[f64]) -> Vec<f64> {
    gradients(&[x], |b, x| b.reduce(op, x[0], &[0])).remove(0)
}

#[test]
fn abs_has_slope_0_at_0() {
    assert_eq!(unary(UnaryOp::Abs, &[-2.0, -0.0, 0.0, 3.0]), [-1.0, 0.0, 0.0, 1.0]);
}

#[test]
fn relu_written_as_a_maximum_splits_its_kink() {
    let relu = |x: &[f64]| {
        gradients(&[x], |b, x| {
            let zeros = b.splat_like(x[0], 0.0);
            b.binary(BinaryOp::Max, x[0], zeros)
        })
        .remove(0)
    };
    assert_eq!(relu(&[-1.0, 0.0, 2.0]), [0.0, 0.5, 1.0]);
}

#[test]
fn elementwise_extremes_share_a_tie_half_and_half() {
    let (a, b) = ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]);
    assert_eq!(binary(BinaryOp::Max, &a, &b), [[0.0, 0.5, 1.0], [1.0, 0.5, 0.0]]);
    assert_eq!(binary(BinaryOp::Min, &a, &b), [[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]]);
}

#[test]
fn reductions_to_an_extreme_share_ties_evenly() {
    assert_eq!(reduce(ReduceOp::Max, &[3.0, 1.0, 3.0, 3.0]), [1.0 / 3.0, 0.0, 1.0 / 3.0, 1.0 / 3.0]);
    assert_eq!(reduce(ReduceOp::Min, &[3.0, 1.0, 3.0, 1.0]), [0.0, 0.5, 0.0, 0.5]);
    assert_eq!(reduce(ReduceOp::Max, &[f64::NEG_INFINITY; 2]), [0.5, 0.5]);
}

#[test]
fn a_product_with_zeros_has_the_product_of_the_others() {
    assert_eq!(reduce(ReduceOp::Prod, &[2.0, 3.0, 4.0]), [12.0, 8.0, 6.0]);
    assert_eq!(reduce(ReduceOp::Prod, &[2.0, 0.0, 4.0]), [0.0, 8.0, 0.0]);
    assert_eq!(reduce(ReduceOp::Prod, &[-0.0, 3.0, 4.0]), [12.0, 0.0, 0.0]);
    assert_eq!(reduce(ReduceOp::Prod, &[0.0, 3.0, 0.0]), [0.0, 0.0, 0.0]);
    assert_eq!(reduce(ReduceOp::Prod, &[7.0]), [1.0]);
}

#[test]
fn each_row_of_a_product_counts_its_own_zeros() {
    let product = gradients(&[&[2.0, 3.0, 0.0, 5.0, 0.0, 0.0]], |b, x| {
        let rows = b.reshape(x[0], [3, 2]);
        b.reduce(ReduceOp::Prod, rows, &[1])
    });
    assert_eq!(product, [[3.0, 2.0, 5.0, 0.0, 0.0, 0.0]]);
}

#[test]
fn powers_at_zero_are_finite() {
    // The powers are 0², 0⁰, 3⁰, 0¹ and (-2)³.
    let [da, db] = binary(BinaryOp::Pow, &[0.0, 0.0, 3.0, 0.0, -2.0], &[2.0, 0.0, 0.0, 1.0, 3.0]);
    assert_eq!(da, [0.0, 0.0, 0.0, 1.0, 12.0]);
    assert_eq!((db[0], db[1], db[3]), (0.0, 0.0, 0.0));
    assert!((db[2] - 3f64.ln()).abs() < 1e-15);
    assert!(db[4].is_nan(), "the exponent of a negative base has no slope");
}

#[test]
fn a_remainder_moves_against_its_divisor_by_the_whole_quotient() {
    let [da, db] = binary(BinaryOp::Rem, &[7.0, -7.0, 7.0, -7.0, 1.0], &[2.0, 2.0, -2.0, -2.0, 4.0]);
    assert_eq!(da, [1.0; 5]);
    assert_eq!(db, [-3.0, 3.0, 3.0, -3.0, 0.0]);
}

#[test]
fn nothing_flows_through_the_branch_that_is_not_taken() {
    // The slope of sqrt at 0 is infinite, so multiplying it by a mask would result in NaN.
    let [dx] = &gradients(&[&[0.0, 4.0]], |b, x| {
        let zeros = b.splat_like(x[0], 0.0);
        let positive = b.compare(CompareOp::Gt, x[0], zeros);
        let safe = b.splat_like(x[0], 1.0);
        let argument = b.select(positive, x[0], safe);
        let root = b.unary(UnaryOp::Sqrt, argument);
        b.select(positive, root, zeros)
    })[..] else {
        unreachable!()
    };
    assert_eq!(dx, &[0.0, 0.25]);
}

#[test]
fn a_nan_reaches_the_gradient() {
    let [da, db] = binary(BinaryOp::Mul, &[NAN, 1.0], &[2.0, NAN]);
    assert!(da[1].is_nan() && db[0].is_nan());
    assert_eq!((da[0], db[1]), (2.0, 1.0));
    assert!(unary(UnaryOp::Abs, &[NAN])[0].is_nan());
}

#[test]
fn a_row_that_is_read_twice_gets_both_cotangents() {
    let table = gradients(&[&[1.0, 2.0, 3.0]], |b, x| {
        let index = b.op(
            OpKind::Constant {
                ty: Type::new(DType::I32, [4]),
                data: Literal::Dense([2, 0, 2, 2].map(Number::Int).into()),
            },
            &[],
        );
        b.op(OpKind::Gather { batch: 0 }, &[x[0], index])
    });
    assert_eq!(table, [[1.0, 0.0, 3.0]]);
}

#[test]
fn cotangents_of_several_consumers_add_up() {
    // The derivative of x·x + x + sin(x) is 2x + 1 + cos(x).
    let [dx] = &gradients(&[&[0.5, -1.0]], |b, x| {
        let square = b.mul(x[0], x[0]);
        let sin = b.unary(UnaryOp::Sin, x[0]);
        let sum = b.add(square, x[0]);
        b.add(sum, sin)
    })[..] else {
        unreachable!()
    };
    for (got, x) in dx.iter().zip([0.5f64, -1.0]) {
        assert!((got - (2.0 * x + 1.0 + x.cos())).abs() < 1e-15, "{got}");
    }
}

#[test]
fn a_power_of_zero_has_no_slope_downwards() {
    let [da, db] = binary(BinaryOp::Pow, &[0.0, 2.0], &[-1.0, -1.0]);
    assert_eq!(da, [f64::NEG_INFINITY, -0.25]);
    assert_eq!(db[0], f64::NEG_INFINITY);
    assert!((db[1] - 0.5 * 2f64.ln()).abs() < 1e-15);
}

/// Computes the gradient of `x op limit ? x : other`.
fn clipped(x: &[f64], op: CompareOp, limit: f64, other: f64) -> Vec<f64> {
    let choose = |b: &mut Builder<'_>, x: &[ValueId]| {
        let (limit, other) = (b.splat_like(x[0], limit), b.splat_like(x[0], other));
        let condition = b.compare(op, x[0], limit);
        b.select(condition, x[0], other)
    };
    gradients(&[x], choose).remove(0)
}

#[test]
fn a_rectifier_passes_what_is_positive_and_its_relatives_what_they_choose() {
    let x = [-3.0, -1.0, -0.0, 0.0, 1.0, 3.0, NAN];
    assert_eq!(clipped(&x, CompareOp::Gt, 0.0, 0.0), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(clipped(&x, CompareOp::Gt, -2.0, 0.0), [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(clipped(&x, CompareOp::Lt, 0.0, 0.0), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(clipped(&x, CompareOp::Ge, 0.0, 0.0), [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(clipped(&x, CompareOp::Gt, 0.0, 5.0), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
}

#[test]
fn a_choice_by_the_sign_of_something_else_is_no_rectifier() {
    let (x, z) = ([-1.0, -1.0, 2.0, 2.0], [1.0, -1.0, 1.0, -1.0]);
    let by_sign = |b: &mut Builder<'_>, v: &[ValueId]| {
        let zeros = b.splat_like(v[0], 0.0);
        let condition = b.compare(CompareOp::Gt, v[1], zeros);
        b.select(condition, v[0], zeros)
    };
    // Add the second operand, so that the loss depends on both operands.
    let gradients_of_sum = gradients(&[&x, &z], |b, v| {
        let chosen = by_sign(b, v);
        b.add(chosen, v[1])
    });
    assert_eq!(gradients_of_sum, [[1.0, 0.0, 1.0, 0.0], [1.0; 4]]);
    // Gradients flow to both branches.
    let both = gradients(&[&z, &x], |b, v| {
        let zeros = b.splat_like(v[0], 0.0);
        let condition = b.compare(CompareOp::Gt, v[0], zeros);
        b.select(condition, v[0], v[1])
    });
    assert_eq!(both, [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]);
}

#[test]
fn a_limit_or_another_branch_that_is_computed_is_not_taken_for_zero() {
    let x = [-3.0, -0.5, 0.5, 3.0];
    let computed = |b: &mut Builder<'_>, x: ValueId| {
        let zeros = b.splat_like(x, 0.0);
        b.unary(UnaryOp::Exp, zeros)
    };
    let other = gradients(&[&x], |b, x| {
        let (zeros, ones) = (b.splat_like(x[0], 0.0), computed(b, x[0]));
        let condition = b.compare(CompareOp::Gt, x[0], zeros);
        b.select(condition, x[0], ones)
    });
    assert_eq!(other, [[0.0, 0.0, 1.0, 1.0]]);
    let limit = gradients(&[&x], |b, x| {
        let (zeros, ones) = (b.splat_like(x[0], 0.0), computed(b, x[0]));
        let limit = b.neg(ones);
        let condition = b.compare(CompareOp::Gt, x[0], limit);
        b.select(condition, x[0], zeros)
    });
    assert_eq!(limit, [[0.0, 1.0, 1.0, 1.0]]);
}
