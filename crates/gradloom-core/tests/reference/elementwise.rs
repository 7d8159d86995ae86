//! Unary, binary, compare, select, cast and iota, constants, and random bits.

use crate::{INF, NAN, assert_close, assert_same, eval, trap};

const MIN: f64 = -2_147_483_648.0;
const MAX: f64 = 2_147_483_647.0;
const UMAX: f64 = 4_294_967_295.0;

fn unary(op: &str, dtype: &str, x: &[f64]) -> Vec<f64> {
    let ty = format!("{dtype}[{}]", x.len());
    eval(&format!("%0: {ty} = input \"x\"\n%9: {ty} = {op} %0"), &[("x", x)])
}

fn binary(op: &str, dtype: &str, a: &[f64], b: &[f64]) -> Vec<f64> {
    let ty = format!("{dtype}[{}]", a.len());
    let lines = format!("%0: {ty} = input \"a\"\n%1: {ty} = input \"b\"\n%9: {ty} = {op} %0, %1");
    eval(&lines, &[("a", a), ("b", b)])
}

#[test]
fn exact_functions_of_floats() {
    assert_same(unary("neg", "f32", &[1.5, 0.0, -0.0, INF, NAN]), &[-1.5, -0.0, 0.0, -INF, NAN]);
    assert_same(unary("abs", "f32", &[-1.5, -0.0, -INF, NAN]), &[1.5, 0.0, INF, NAN]);
    assert_same(unary("sign", "f32", &[-3.5, 2.0, 0.0, -0.0, NAN, -INF]), &[-1.0, 1.0, 0.0, -0.0, NAN, -1.0]);
    assert_same(unary("floor", "f32", &[-1.5, 1.5, -0.0, INF, NAN]), &[-2.0, 1.0, -0.0, INF, NAN]);
    assert_same(unary("sqrt", "f32", &[4.0, 0.0, -1.0, INF]), &[2.0, 0.0, NAN, INF]);
    assert_same(unary("rsqrt", "f32", &[4.0, 0.0, -1.0, INF]), &[0.5, INF, NAN, 0.0]);
    assert_same(unary("detach", "f32", &[-0.0, NAN, 3.0]), &[-0.0, NAN, 3.0]);
    // The result is not rounded to f32.
    assert_same(unary("neg", "f32", &[0.1]), &[-0.1]);
}

#[test]
fn transcendental_functions() {
    use std::f64::consts::{E, FRAC_1_SQRT_2, FRAC_PI_4, LN_2};
    assert_close(unary("exp", "f32", &[0.0, 1.0, -INF, INF, NAN, 1000.0]), &[1.0, E, 0.0, INF, NAN, INF]);
    assert_close(unary("log", "f32", &[1.0, 2.0, 0.0, -1.0, INF]), &[0.0, LN_2, -INF, NAN, INF]);
    assert_close(unary("sin", "f32", &[0.0, FRAC_PI_4, INF]), &[0.0, FRAC_1_SQRT_2, NAN]);
    assert_close(unary("cos", "f32", &[0.0, FRAC_PI_4, INF]), &[1.0, FRAC_1_SQRT_2, NAN]);
    assert_close(unary("tanh", "f32", &[0.0, LN_2, INF, -INF]), &[0.0, 0.6, 1.0, -1.0]);
    assert_close(
        unary("sigmoid", "f32", &[0.0, LN_2, -LN_2, INF, -INF, NAN]),
        &[0.5, 2.0 / 3.0, 1.0 / 3.0, 1.0, 0.0, NAN],
    );
    assert_same(unary("sigmoid", "f32", &[-1000.0, 1000.0]), &[0.0, 1.0]);
    // Values from Abramowitz and Stegun, table 7.1.
    assert_close(
        unary("erf", "f32", &[0.0, 0.5, 1.0, -1.0, INF, -INF]),
        &[0.0, 0.520_499_877_813_046_5, 0.842_700_792_949_714_9, -0.842_700_792_949_714_9, 1.0, -1.0],
    );
    // For this number, exp(x) - 1 and log(1 + x) would lose all digits.
    let tiny = 1e-20;
    assert_same(unary("expm1", "f32", &[tiny, 0.0, -INF]), &[tiny, 0.0, -1.0]);
    assert_same(unary("log1p", "f32", &[tiny, 0.0, -1.0, -2.0]), &[tiny, 0.0, -INF, NAN]);
}

#[test]
fn functions_of_integers_wrap() {
    assert_same(unary("neg", "i32", &[5.0, 0.0, MIN]), &[-5.0, 0.0, MIN]);
    assert_same(unary("abs", "i32", &[-5.0, MIN, MAX]), &[5.0, MIN, MAX]);
    assert_same(unary("sign", "i32", &[-5.0, 0.0, MAX]), &[-1.0, 0.0, 1.0]);
    assert_same(unary("not", "i32", &[0.0, -1.0, MAX]), &[-1.0, 0.0, MIN]);
    assert_same(unary("not", "u32", &[0.0, UMAX, 1.0]), &[UMAX, 0.0, UMAX - 1.0]);
    assert_same(unary("not", "bool", &[0.0, 1.0]), &[1.0, 0.0]);
    assert_same(unary("detach", "i32", &[MIN, 7.0]), &[MIN, 7.0]);
    assert_same(unary("detach", "bool", &[0.0, 1.0]), &[0.0, 1.0]);
}

#[test]
fn binary_functions_of_floats() {
    assert_same(binary("add", "f32", &[0.1, INF], &[0.2, -INF]), &[0.1 + 0.2, NAN]);
    assert_same(binary("sub", "f32", &[1.0, INF], &[3.0, INF]), &[-2.0, NAN]);
    assert_same(binary("mul", "f32", &[-2.0, 0.0], &[0.0, INF]), &[-0.0, NAN]);
    assert_same(binary("div", "f32", &[1.0, -1.0, 0.0], &[0.0, 0.0, 0.0]), &[INF, -INF, NAN]);
    assert_same(binary("min", "f32", &[1.0, NAN, 1.0, -INF], &[2.0, 1.0, NAN, INF]), &[1.0, NAN, NAN, -INF]);
    assert_same(binary("max", "f32", &[1.0, NAN, 1.0, -INF], &[2.0, 1.0, NAN, INF]), &[2.0, NAN, NAN, INF]);
    assert_same(
        binary("pow", "f32", &[2.0, 0.0, -8.0, 9.0], &[10.0, 0.0, 0.5, 0.5]),
        &[1024.0, 1.0, NAN, 3.0],
    );
    // The result has the sign of the dividend.
    let expected = &[1.0, -1.0, 1.0, -1.0, NAN, 5.0];
    assert_same(
        binary("rem", "f32", &[7.0, -7.0, 7.0, -7.0, 1.0, 5.0], &[3.0, 3.0, -3.0, -3.0, 0.0, INF]),
        expected,
    );
}

#[test]
fn binary_functions_of_integers() {
    assert_same(binary("add", "i32", &[MAX, MIN], &[1.0, -1.0]), &[MIN, MAX]);
    assert_same(binary("add", "u32", &[UMAX], &[2.0]), &[1.0]);
    assert_same(binary("sub", "u32", &[0.0], &[1.0]), &[UMAX]);
    assert_same(binary("sub", "i32", &[MIN], &[1.0]), &[MAX]);
    assert_same(binary("mul", "i32", &[65536.0, MAX, MIN], &[65536.0, MAX, -1.0]), &[0.0, 1.0, MIN]);
    assert_same(binary("mul", "u32", &[UMAX, UMAX], &[UMAX, 2.0]), &[1.0, UMAX - 1.0]);
    assert_same(binary("div", "i32", &[7.0, -7.0, MIN], &[-2.0, 2.0, -1.0]), &[-3.0, -3.0, MIN]);
    assert_same(binary("div", "u32", &[UMAX], &[2.0]), &[2_147_483_647.0]);
    assert_same(binary("rem", "i32", &[7.0, -7.0, MIN], &[-3.0, 3.0, -1.0]), &[1.0, -1.0, 0.0]);
    assert_same(binary("min", "i32", &[-1.0], &[1.0]), &[-1.0]);
    assert_same(binary("max", "u32", &[UMAX], &[1.0]), &[UMAX]);
    assert_same(binary("and", "i32", &[-1.0, 12.0], &[5.0, 10.0]), &[5.0, 8.0]);
    assert_same(binary("or", "u32", &[12.0], &[10.0]), &[14.0]);
    assert_same(binary("xor", "i32", &[-1.0], &[5.0]), &[-6.0]);
}

#[test]
fn shifts_take_the_count_modulo_32() {
    assert_same(
        binary("shl", "i32", &[1.0, 1.0, 1.0, 3.0], &[31.0, 32.0, -1.0, 31.0]),
        &[MIN, 1.0, MIN, MIN],
    );
    assert_same(binary("shl", "u32", &[UMAX, 1.0], &[31.0, 33.0]), &[2_147_483_648.0, 2.0]);
    assert_same(binary("shr", "i32", &[-8.0, MIN, 8.0], &[1.0, 31.0, 33.0]), &[-4.0, -1.0, 4.0]);
    assert_same(binary("shr", "u32", &[UMAX, UMAX], &[31.0, 32.0]), &[1.0, UMAX]);
}

#[test]
fn binary_functions_of_bools() {
    let (a, b) = (&[0.0, 0.0, 1.0, 1.0], &[0.0, 1.0, 0.0, 1.0]);
    assert_same(binary("and", "bool", a, b), &[0.0, 0.0, 0.0, 1.0]);
    assert_same(binary("or", "bool", a, b), &[0.0, 1.0, 1.0, 1.0]);
    assert_same(binary("xor", "bool", a, b), &[0.0, 1.0, 1.0, 0.0]);
}

#[test]
fn integer_division_by_zero_traps() {
    for (op, dtype) in [("div", "i32"), ("div", "u32"), ("rem", "i32"), ("rem", "u32")] {
        let lines = format!(
            "%0: {dtype}[2] = constant [6, 7]\n%1: {dtype}[2] = constant [1, 0]\n%9: {dtype}[2] = {op} %0, %1"
        );
        assert_eq!(trap(&lines, &[]), format!("{op} of 7 by zero at element 1"));
    }
}

#[test]
fn comparisons() {
    let compare = |op: &str, dtype: &str, a: &[f64], b: &[f64]| {
        let n = a.len();
        let leaves = format!("%0: {dtype}[{n}] = input \"a\"\n%1: {dtype}[{n}] = input \"b\"");
        eval(&format!("{leaves}\n%9: bool[{n}] = {op} %0, %1"), &[("a", a), ("b", b)])
    };
    let (a, b) = (&[1.0, 2.0, 3.0, NAN, 0.0, NAN], &[2.0, 2.0, 2.0, 1.0, -0.0, NAN]);
    assert_same(compare("eq", "f32", a, b), &[0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    assert_same(compare("ne", "f32", a, b), &[1.0, 0.0, 1.0, 1.0, 0.0, 1.0]);
    assert_same(compare("lt", "f32", a, b), &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_same(compare("le", "f32", a, b), &[1.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    assert_same(compare("gt", "f32", a, b), &[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_same(compare("ge", "f32", a, b), &[0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
    assert_same(compare("lt", "i32", &[-1.0, MIN], &[1.0, MAX]), &[1.0, 1.0]);
    assert_same(compare("gt", "u32", &[UMAX], &[1.0]), &[1.0]);
    assert_same(compare("lt", "bool", &[0.0, 1.0], &[1.0, 1.0]), &[1.0, 0.0]);
}

#[test]
fn select_keeps_the_bits_of_what_it_takes() {
    let lines = "%0: bool[3] = constant [true, false, true]\n%1: f32[3] = constant [-0.0, 1.0, nan]\n\
                 %2: f32[3] = constant [5.0, -0.0, 6.0]\n%9: f32[3] = select %0, %1, %2";
    assert_same(eval(lines, &[]), &[-0.0, -0.0, NAN]);
    let lines = "%0: bool[2] = constant [true, false]\n%1: i32[2] = constant -2147483648\n\
                 %2: i32[2] = constant 2147483647\n%9: i32[2] = select %0, %1, %2";
    assert_same(eval(lines, &[]), &[MIN, MAX]);
}

#[test]
fn casts() {
    let cast = |from: &str, to: &str, x: &[f64]| {
        let n = x.len();
        eval(&format!("%0: {from}[{n}] = input \"x\"\n%9: {to}[{n}] = cast %0"), &[("x", x)])
    };
    let floats = &[1.9, -1.9, 3e9, -3e9, INF, -INF, NAN, 5e9];
    assert_same(cast("f32", "i32", floats), &[1.0, -1.0, MAX, MIN, MAX, MIN, 0.0, MAX]);
    assert_same(cast("f32", "u32", floats), &[1.0, 0.0, 3e9, 0.0, UMAX, 0.0, 0.0, UMAX]);
    assert_same(cast("f32", "bool", &[0.0, -0.0, 0.1, NAN]), &[0.0, 0.0, 1.0, 1.0]);
    assert_same(cast("f32", "f32", &[-0.0, 0.1]), &[-0.0, 0.1]);
    assert_same(cast("i32", "u32", &[-1.0, MIN]), &[UMAX, 2_147_483_648.0]);
    assert_same(cast("u32", "i32", &[UMAX, 2_147_483_648.0]), &[-1.0, MIN]);
    assert_same(cast("i32", "f32", &[MAX]), &[MAX]);
    assert_same(cast("i32", "bool", &[0.0, -7.0]), &[0.0, 1.0]);
    assert_same(cast("bool", "f32", &[0.0, 1.0]), &[0.0, 1.0]);
    assert_same(cast("bool", "i32", &[0.0, 1.0]), &[0.0, 1.0]);
}

#[test]
fn leaves_without_operands() {
    assert_same(eval("%9: f32[2, 3] = iota {axis=1}", &[]), &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    assert_same(eval("%9: i32[2, 3] = iota {axis=0}", &[]), &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    assert_same(eval("%9: u32[0, 3] = iota {axis=1}", &[]), &[]);
    assert_same(eval("%9: f32[2] = constant 0.1", &[]), &[0.1, 0.1]);
    assert_same(eval("%9: bool[2] = constant [true, false]", &[]), &[1.0, 0.0]);
    assert_same(eval("%9: f32[0, 4] = constant []", &[]), &[]);
}

#[test]
fn random_bits_are_philox_with_the_documented_counter() {
    use gradloom_core::philox::philox4x32;
    let bits = |shape: &str, site: &str, seed: [f64; 2], step: f64| {
        let leaves = "%0: u32[] = scalar \"lo\"\n%1: u32[] = scalar \"hi\"\n%2: u32[] = scalar \"step\"";
        let lines = format!("{leaves}\n%9: u32{shape} = random_bits %0, %1, %2 {{site={site}}}");
        eval(&lines, &[("lo", &seed[..1]), ("hi", &seed[1..]), ("step", &[step])])
    };
    // Known answers from Random123 (kat_vectors) for an all-zero counter and key.
    let zero = [0x6627_e8d5_u32, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8].map(f64::from);
    assert_same(bits("[2, 2]", "0", [0.0, 0.0], 0.0), &zero);
    assert_same(bits("[3]", "0", [0.0, 0.0], 0.0), &zero[..3]);
    assert_same(bits("[0]", "0", [0.0, 0.0], 0.0), &[]);
    let second = philox4x32([1, 0, 5, 7], [3, 4]).map(f64::from);
    assert_same(bits("[8]", "7", [3.0, 4.0], 5.0)[4..].to_vec(), &second);
    // 5/8 is 0.101 in binary: the word of the last digit AND that of the second OR that of the first.
    let word = |digit: u32| philox4x32([1, digit << 24, 5, 7], [3, 4]);
    let [last, second, first] = [0, 1, 2].map(word);
    let expected = [0, 1, 2, 3].map(|i| f64::from(last[i] & second[i] | first[i]));
    assert_same(bits("[8]", "7, ones=5, digits=3", [3.0, 4.0], 5.0)[4..].to_vec(), &expected);
}
