//! Views, padding, concatenation and dynamic windows.

use crate::{assert_same, eval, trap};

const SIX: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

fn view(from: &str, op: &str, to: &str, x: &[f64]) -> Vec<f64> {
    eval(&format!("%0: {from} = input \"x\"\n%9: {to} = {op}"), &[("x", x)])
}

#[test]
fn reshape_keeps_the_row_major_order() {
    assert_same(view("f32[2, 3]", "reshape %0", "f32[3, 1, 2]", SIX), SIX);
    assert_same(view("f32[1, 1]", "reshape %0", "f32[]", &[7.0]), &[7.0]);
    assert_same(view("i32[0, 3]", "reshape %0", "i32[5, 0]", &[]), &[]);
}

#[test]
fn permute() {
    let transposed = &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
    assert_same(view("f32[2, 3]", "permute %0 {perm=[1, 0]}", "f32[3, 2]", SIX), transposed);
    // Axis i of the result is axis perm[i] of the operand; this permutation of three axes differs from its
    // inverse.
    let x: Vec<f64> = (0..24).map(f64::from).collect();
    let moved = view("f32[2, 3, 4]", "permute %0 {perm=[2, 0, 1]}", "f32[4, 2, 3]", &x);
    assert_same(moved[..8].to_vec(), &[0.0, 4.0, 8.0, 12.0, 16.0, 20.0, 1.0, 5.0]);
    assert_same(view("bool[]", "permute %0 {perm=[]}", "bool[]", &[1.0]), &[1.0]);
}

#[test]
fn broadcast() {
    let (row, column) = (&[1.0, 2.0, 3.0], &[1.0, 2.0]);
    assert_same(view("f32[1, 3]", "broadcast %0", "f32[2, 3]", row), &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    assert_same(view("f32[2, 1]", "broadcast %0", "f32[2, 3]", column), &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    assert_same(view("f32[1, 3]", "broadcast %0", "f32[0, 3]", row), &[]);
    assert_same(view("f32[1, 3]", "broadcast %0", "f32[1, 3]", row), row);
}

#[test]
fn slice_with_steps() {
    let x: Vec<f64> = (0..12).map(f64::from).collect();
    let slice = |start, limit, step, to| {
        view("f32[3, 4]", &format!("slice %0 {{start={start}, limit={limit}, step={step}}}"), to, &x)
    };
    assert_same(slice("[0, 1]", "[3, 4]", "[2, 2]", "f32[2, 2]"), &[1.0, 3.0, 9.0, 11.0]);
    assert_same(slice("[1, 0]", "[2, 4]", "[1, 3]", "f32[1, 2]"), &[4.0, 7.0]);
    assert_same(slice("[1, 0]", "[2, 4]", "[7, 9]", "f32[1, 1]"), &[4.0]);
    assert_same(slice("[3, 0]", "[3, 4]", "[1, 1]", "f32[0, 4]"), &[]);
}

#[test]
fn pad_around_and_between() {
    let one = view("f32[2]", "pad %0 {low=[1], high=[2], interior=[2], value=-0.0}", "f32[7]", &[1.0, 2.0]);
    assert_same(one, &[-0.0, 1.0, -0.0, -0.0, 2.0, -0.0, -0.0]);
    let two = view(
        "i32[2, 2]",
        "pad %0 {low=[0, 1], high=[1, 0], interior=[1, 0], value=9}",
        "i32[4, 3]",
        &[1.0, 2.0, 3.0, 4.0],
    );
    assert_same(two, &[9.0, 1.0, 2.0, 9.0, 9.0, 9.0, 9.0, 3.0, 4.0, 9.0, 9.0, 9.0]);
    // Interior padding adds no elements to an axis of fewer than two elements.
    let empty = view("bool[0]", "pad %0 {low=[1], high=[1], interior=[5], value=true}", "bool[2]", &[]);
    assert_same(empty, &[1.0, 1.0]);
    let single = view("f32[1]", "pad %0 {low=[0], high=[0], interior=[5], value=8.0}", "f32[1]", &[3.0]);
    assert_same(single, &[3.0]);
    let scalar = view("f32[]", "pad %0 {low=[], high=[], interior=[], value=8.0}", "f32[]", &[3.0]);
    assert_same(scalar, &[3.0]);
}

#[test]
fn concat() {
    let leaves = "%0: f32[2, 1] = constant [1.0, 2.0]\n%1: f32[2, 0] = constant []\n\
                  %2: f32[2, 2] = constant [3.0, 4.0, 5.0, 6.0]";
    let joined = eval(&format!("{leaves}\n%9: f32[2, 3] = concat %0, %1, %2 {{axis=1}}"), &[]);
    assert_same(joined, &[1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
    let stacked = eval("%0: i32[1, 2] = constant [1, 2]\n%9: i32[3, 2] = concat %0, %0, %0 {axis=0}", &[]);
    assert_same(stacked, &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    assert_same(eval("%0: u32[1] = constant 7\n%9: u32[1] = concat %0 {axis=0}", &[]), &[7.0]);
}

const STARTS: &str = "%0: f32[2, 3] = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n\
                      %1: i32[] = input \"row\"\n%2: i32[] = input \"column\"\n";

#[test]
fn dynamic_slice() {
    let at = |row: f64, column: f64, to: &str| {
        let lines = format!("{STARTS}%9: {to} = dynamic_slice %0, %1, %2");
        eval(&lines, &[("row", &[row]), ("column", &[column])])
    };
    assert_same(at(0.0, 1.0, "f32[2, 2]"), &[2.0, 3.0, 5.0, 6.0]);
    assert_same(at(1.0, 2.0, "f32[1, 1]"), &[6.0]);
    assert_same(at(0.0, 0.0, "f32[2, 3]"), SIX);
    assert_same(at(2.0, 0.0, "f32[0, 3]"), &[]);
    assert_same(eval("%0: f32[] = constant 3.0\n%9: f32[] = dynamic_slice %0", &[]), &[3.0]);
}

#[test]
fn dynamic_update_slice() {
    let at = |row: f64, column: f64| {
        let lines = format!(
            "{STARTS}%3: f32[1, 2] = constant [8.0, 9.0]\n%9: f32[2, 3] = dynamic_update_slice %0, %3, %1, %2"
        );
        eval(&lines, &[("row", &[row]), ("column", &[column])])
    };
    assert_same(at(0.0, 0.0), &[8.0, 9.0, 3.0, 4.0, 5.0, 6.0]);
    assert_same(at(1.0, 1.0), &[1.0, 2.0, 3.0, 4.0, 8.0, 9.0]);
}

#[test]
fn windows_out_of_range_trap() {
    let slice = format!("{STARTS}%9: f32[1, 2] = dynamic_slice %0, %1, %2");
    let update =
        format!("{STARTS}%3: f32[1, 2] = constant 0.0\n%9: f32[2, 3] = dynamic_update_slice %0, %3, %1, %2");
    for lines in [&slice, &update] {
        let at = |row: f64, column: f64| trap(lines, &[("row", &[row]), ("column", &[column])]);
        assert_eq!(
            at(0.0, 2.0),
            "index 2 on axis 1 is out of range: a window of 2 in an extent of 3 starts at 0..=1"
        );
        assert_eq!(
            at(2.0, 0.0),
            "index 2 on axis 0 is out of range: a window of 1 in an extent of 2 starts at 0..=1"
        );
        assert_eq!(
            at(-1.0, 0.0),
            "index -1 on axis 0 is out of range: a window of 1 in an extent of 2 starts at 0..=1"
        );
    }
}
