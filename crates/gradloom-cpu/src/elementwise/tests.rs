//! Compares every function, on every dtype and in many layouts, with f64 and 64-bit integer arithmetic.

use crate::testing::{Case, Random, Tensor, assert_close};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, OpKind, Shape, UnaryOp};
use gradloom_core::kernel::Layout;

fn shapes() -> Vec<Shape> {
    let lists: [&[usize]; 9] =
        [&[], &[1], &[63], &[65, 3], &[4, 1, 5], &[2, 3, 130], &[7, 600], &[3, 2, 2, 3, 2], &[5, 9001]];
    lists.into_iter().take(if cfg!(miri) { 6 } else { 9 }).map(Shape::from).collect()
}

/// Rounds `value` to f32 if `dtype` is f32; returns other numbers unchanged.
fn rounded(dtype: DType, value: f64) -> f64 {
    if dtype == DType::F32 { f64::from(value as f32) } else { value }
}

/// Wraps an integer to the range of `dtype`.
fn wrapped(dtype: DType, value: i64) -> f64 {
    match dtype {
        DType::I32 => f64::from(value as i32),
        DType::U32 => f64::from(value as u32),
        DType::U8 => f64::from(value as u8),
        DType::Bool | DType::F32 | DType::F16 | DType::BF16 | DType::I64 => {
            unreachable!("{dtype} does not wrap")
        }
    }
}

fn unary_reference(op: UnaryOp, dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => op.float(x),
        DType::I32 | DType::U32 | DType::U8 | DType::I64 => wrapped(dtype, op.int(x as i64)),
        DType::Bool => f64::from(u8::from(op.bool(x != 0.0))),
    }
}

fn binary_reference(op: BinaryOp, dtype: DType, a: f64, b: f64) -> f64 {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => op.float(a, b),
        DType::I32 | DType::U32 | DType::U8 | DType::I64 => {
            wrapped(dtype, op.int(a as i64, b as i64).expect("no divisor is 0"))
        }
        DType::Bool => f64::from(u8::from(op.bool(a != 0.0, b != 0.0))),
    }
}

#[test]
fn unary_functions() {
    let mut random = Random(1);
    for &op in UnaryOp::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| op.accepts(dtype)) {
            for shape in shapes() {
                let x = Tensor::random(&mut random, dtype, &shape);
                let expected: Vec<f64> =
                    x.values().into_iter().map(|x| rounded(dtype, unary_reference(op, dtype, x))).collect();
                let case = Case::new(OpKind::Unary(op), vec![x], dtype, shape);
                let got = case.run_loop().unwrap();
                assert_close(&format!("{op:?} {dtype} {}", case.shape), &got, &expected, 4e-7);
            }
        }
    }
}

#[test]
fn binary_functions() {
    let mut random = Random(2);
    for &op in BinaryOp::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| op.accepts(dtype)) {
            let divides = dtype.is_integer() && matches!(op, BinaryOp::Div | BinaryOp::Rem);
            for shape in shapes() {
                let a = Tensor::random(&mut random, dtype, &shape);
                let mut b = Tensor::random(&mut random, dtype, &shape);
                if divides {
                    let nonzero: Vec<u32> =
                        (0..shape.elements()).map(|_| random.bits() >> random.below(31) | 1).collect();
                    b = Tensor::of_bits(dtype, shape.clone(), nonzero);
                }
                let pairs = a.values().into_iter().zip(b.values());
                let expected: Vec<f64> =
                    pairs.map(|(a, b)| rounded(dtype, binary_reference(op, dtype, a, b))).collect();
                let case = Case::new(OpKind::Binary(op), vec![a, b], dtype, shape);
                let got = case.run_loop().unwrap();
                let tolerance = if op == BinaryOp::Pow { 1e-7 } else { 0.0 };
                assert_close(&format!("{op:?} {dtype} {}", case.shape), &got, &expected, tolerance);
            }
        }
    }
}

#[test]
fn the_integer_corner_cases_wrap() {
    let run = |op, a: i32, b: i32| {
        let scalar = |v: i32| Tensor::of_bits(DType::I32, Shape::scalar(), [v as u32]);
        let case = Case::new(OpKind::Binary(op), vec![scalar(a), scalar(b)], DType::I32, Shape::scalar());
        case.run_loop().unwrap()[0]
    };
    assert_eq!(run(BinaryOp::Div, i32::MIN, -1), f64::from(i32::MIN));
    assert_eq!(run(BinaryOp::Rem, i32::MIN, -1), 0.0);
    assert_eq!(run(BinaryOp::Div, -7, 2), -3.0);
    assert_eq!(run(BinaryOp::Rem, -7, 2), -1.0);
    assert_eq!(run(BinaryOp::Shl, 1, 33), 2.0);
    assert_eq!(run(BinaryOp::Shr, -8, 1), -4.0);
}

#[test]
fn an_integer_division_by_zero_traps_at_the_first_zero() {
    for op in [BinaryOp::Div, BinaryOp::Rem] {
        for dtype in [DType::I32, DType::U32] {
            let n = 40_000;
            let ones = Tensor::of_bits(dtype, [n], vec![1; n]);
            let divisors = Tensor::of_bits(dtype, [n], (0..n).map(|i| u32::from(i != 1003 && i != 39_000)));
            let case = Case::new(OpKind::Binary(op), vec![ones, divisors], dtype, [n]);
            let trap = case.run_loop().unwrap_err();
            assert_eq!(trap.message, "an integer was divided by zero, at element 1003");
        }
    }
}

#[test]
fn comparisons() {
    let mut random = Random(3);
    for &op in CompareOp::ALL {
        for dtype in DType::COMPUTED {
            for shape in shapes() {
                let (a, b) =
                    (Tensor::random(&mut random, dtype, &shape), Tensor::random(&mut random, dtype, &shape));
                let compare = |(a, b): (f64, f64)| match op {
                    CompareOp::Eq => a == b,
                    CompareOp::Ne => a != b,
                    CompareOp::Lt => a < b,
                    CompareOp::Le => a <= b,
                    CompareOp::Gt => a > b,
                    CompareOp::Ge => a >= b,
                };
                let expected: Vec<f64> = a
                    .values()
                    .into_iter()
                    .zip(b.values())
                    .map(|pair| f64::from(u8::from(compare(pair))))
                    .collect();
                let case = Case::new(OpKind::Compare(op), vec![a, b], DType::Bool, shape);
                let got = case.run_loop().unwrap();
                assert_close(&format!("{op:?} {dtype} {}", case.shape), &got, &expected, 0.0);
            }
        }
    }
}

#[test]
fn selections() {
    let mut random = Random(4);
    for dtype in DType::IN_KERNELS {
        for shape in shapes() {
            let condition = Tensor::random(&mut random, DType::Bool, &shape);
            let (a, b) =
                (Tensor::random(&mut random, dtype, &shape), Tensor::random(&mut random, dtype, &shape));
            let both = a.values().into_iter().zip(b.values());
            let expected: Vec<f64> = condition
                .values()
                .iter()
                .zip(both)
                .map(|(&c, (a, b))| if c != 0.0 { a } else { b })
                .collect();
            let case = Case::new(OpKind::Select, vec![condition, a, b], dtype, shape);
            let got = case.run_loop().unwrap();
            assert_close(&format!("select {dtype} {}", case.shape), &got, &expected, 0.0);
        }
    }
}

#[test]
fn conversions() {
    let mut random = Random(5);
    for from in DType::IN_KERNELS {
        for to in DType::IN_KERNELS.into_iter().filter(|&to| from.casts_to(to)) {
            for shape in shapes() {
                let x = Tensor::random(&mut random, from, &shape);
                let convert = |x: f64| match (from, to) {
                    (_, DType::Bool) => f64::from(u8::from(x != 0.0)),
                    (_, DType::F32) => f64::from(x as f32),
                    (_, DType::F16 | DType::BF16) => to.rounded(x),
                    (DType::F32, DType::I32) => f64::from(x as i32),
                    (DType::F32, DType::U32) => f64::from(x as u32),
                    (_, to) => wrapped(to, x as i64),
                };
                let expected: Vec<f64> = x.values().into_iter().map(convert).collect();
                let case = Case::new(OpKind::Cast { dtype: to }, vec![x], to, shape);
                let got = case.run_loop().unwrap();
                assert_close(&format!("cast {from} to {to} {}", case.shape), &got, &expected, 0.0);
            }
        }
    }
}

#[test]
fn float_corner_cases() {
    let special = [0.0, -0.0, 1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e10, -1e10, 4e9, -0.5];
    let run = |op| {
        let case = Case::new(OpKind::Unary(op), vec![Tensor::f32([10], &special)], DType::F32, [10]);
        case.run_loop().unwrap()
    };
    let sign = run(UnaryOp::Sign);
    assert!(sign[0].is_sign_positive() && sign[1].is_sign_negative() && sign[3].is_nan());
    assert_eq!((sign[0], sign[1], sign[4], sign[5]), (0.0, 0.0, 1.0, -1.0));
    let sin = run(UnaryOp::Sin);
    assert!(sin[1].is_sign_negative() && sin[4].is_nan() && sin[5].is_nan());
    // This angle is beyond the range of the vectorized reduction.
    assert_close("sin(1e10)", &sin[6..7], &[libm::sin(1e10)], 1e-7);
    let rsqrt = run(UnaryOp::Rsqrt);
    assert_eq!((rsqrt[0], rsqrt[4]), (f64::INFINITY, 0.0));
    assert!(rsqrt[9].is_nan());
}

#[test]
fn a_result_may_overwrite_an_operand() {
    let mut random = Random(6);
    for shape in shapes() {
        for in_place in [0, 1] {
            let a = Tensor::contiguous(&mut random, DType::F32, &shape);
            let b = Tensor::contiguous(&mut random, DType::F32, &shape);
            let expected: Vec<f64> =
                a.values().into_iter().zip(b.values()).map(|(a, b)| f64::from((a - b) as f32)).collect();
            let mut case = Case::new(OpKind::Binary(BinaryOp::Sub), vec![a, b], DType::F32, shape.clone());
            case.in_place = Some(in_place);
            let got = case.run_loop().unwrap();
            assert_close(&format!("in place of {in_place}, {shape}"), &got, &expected, 0.0);
        }
        let x = Tensor::contiguous(&mut random, DType::I32, &shape);
        let expected: Vec<f64> = x.values().into_iter().map(|x| f64::from(x as f32)).collect();
        let mut case = Case::new(OpKind::Cast { dtype: DType::F32 }, vec![x], DType::F32, shape);
        case.in_place = Some(0);
        let got = case.run_loop().unwrap();
        assert_close("cast in place", &got, &expected, 0.0);
    }
}

#[test]
fn transposed_operands_large_and_small_in_place_and_not() {
    let mut random = Random(7);
    for n in [20, 100, 150] {
        for in_place in [None, Some(1)] {
            let shape = Shape::from([n, n + 1]);
            let turned = Layout { offset: 2, shape: shape.clone(), strides: vec![1, n + 3] };
            let a = Tensor::in_layout(&mut random, DType::F32, turned);
            let b = Tensor::contiguous(&mut random, DType::F32, &shape);
            let expected: Vec<f64> =
                a.values().into_iter().zip(b.values()).map(|(a, b)| f64::from((a - b) as f32)).collect();
            let mut case = Case::new(OpKind::Binary(BinaryOp::Sub), vec![a, b], DType::F32, shape);
            case.in_place = in_place;
            let got = case.run_loop().unwrap();
            assert_close(&format!("transposed {n}, in place of {in_place:?}"), &got, &expected, 0.0);
        }
    }
}
