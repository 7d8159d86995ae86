//! Gather, scatter-add and their traps.

use crate::{assert_same, eval, run, trap};
use gradloom_core::error::ErrorKind;

#[test]
fn gather_rows() {
    let x = "%0: f32[3, 2] = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n";
    let lines =
        format!("{x}%1: i32[2, 2] = constant [2, 0, 0, 1]\n%9: f32[2, 2, 2] = gather %0, %1 {{batch=0}}");
    assert_same(eval(&lines, &[]), &[5.0, 6.0, 1.0, 2.0, 1.0, 2.0, 3.0, 4.0]);
    let lines = format!("{x}%1: i32[] = constant 1\n%9: f32[2] = gather %0, %1 {{batch=0}}");
    assert_same(eval(&lines, &[]), &[3.0, 4.0]);
    let lines = format!("{x}%1: i32[0] = constant []\n%9: f32[0, 2] = gather %0, %1 {{batch=0}}");
    assert_same(eval(&lines, &[]), &[]);
    // Without indices there is no trap, even if there are no rows.
    let lines =
        "%0: f32[0, 2] = constant []\n%1: i32[0] = constant []\n%9: f32[0, 2] = gather %0, %1 {batch=0}";
    assert_same(eval(lines, &[]), &[]);
}

#[test]
fn gather_in_a_batch() {
    // One element of each row, as in cross-entropy.
    let x = "%0: i32[2, 3] = constant [1, 2, 3, 4, 5, 6]\n";
    let lines = format!("{x}%1: i32[2] = constant [2, 0]\n%9: i32[2] = gather %0, %1 {{batch=1}}");
    assert_same(eval(&lines, &[]), &[3.0, 4.0]);
    let lines =
        format!("{x}%1: i32[2, 2] = constant [2, 0, 1, 1]\n%9: i32[2, 2] = gather %0, %1 {{batch=1}}");
    assert_same(eval(&lines, &[]), &[3.0, 1.0, 5.0, 5.0]);
    let bools = "%0: bool[1, 2, 2] = constant [true, false, false, true]\n%1: i32[1, 1] = constant 1\n\
                 %9: bool[1, 1, 2] = gather %0, %1 {batch=1}";
    assert_same(eval(bools, &[]), &[0.0, 1.0]);
}

#[test]
fn scatter_add_rows() {
    let x = "%0: f32[3, 2] = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n";
    let lines = format!(
        "{x}%1: i32[3] = constant [2, 0, 2]\n%2: f32[3, 2] = constant [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]\n\
         %9: f32[3, 2] = scatter_add %0, %1, %2 {{batch=0}}"
    );
    assert_same(eval(&lines, &[]), &[31.0, 42.0, 3.0, 4.0, 65.0, 86.0]);
    let batch = "%0: i32[2, 2] = constant 2147483647\n%1: i32[2] = constant [1, 0]\n\
                 %2: i32[2] = constant [1, 2]\n\
                 %9: i32[2, 2] = scatter_add %0, %1, %2 {batch=1}";
    let (max, min) = (2_147_483_647.0, -2_147_483_648.0);
    assert_same(eval(batch, &[]), &[max, min, min + 1.0, max]);
}

#[test]
fn updates_are_added_in_their_order() {
    // In f64, 1 + 1e16 - 1e16 is 0 and 1e16 - 1e16 + 1 is 1.
    let sum = |updates: &str| {
        let lines = format!(
            "%0: f32[1] = constant 1.0\n%1: i32[2] = constant 0\n%2: f32[2] = constant {updates}\n\
             %9: f32[1] = scatter_add %0, %1, %2 {{batch=0}}"
        );
        eval(&lines, &[])
    };
    assert_same(sum("[1e16, -1e16]"), &[0.0]);
    assert_same(sum("[-1.0, 1e16]"), &[1e16]);
}

#[test]
fn an_index_out_of_range_traps() {
    let gather =
        "%0: f32[2, 3] = constant 0.0\n%1: i32[2] = input \"i\"\n%9: f32[2] = gather %0, %1 {batch=1}";
    let message = "index 3 (element 1 of the indices) is out of range for the extent 3 of axis 1";
    assert_eq!(trap(gather, &[("i", &[2.0, 3.0])]), message);
    assert_eq!(
        trap(gather, &[("i", &[-1.0, 0.0])]),
        message.replace('3', "-1").replace("element 1", "element 0").replace("extent -1", "extent 3")
    );
    let scatter = "%0: f32[2, 0] = constant []\n%1: i32[1] = constant 2\n%2: f32[1, 0] = constant []\n\
                   %9: f32[2, 0] = scatter_add %0, %1, %2 {batch=0}";
    assert_eq!(
        trap(scatter, &[]),
        "index 2 (element 0 of the indices) is out of range for the extent 2 of axis 0"
    );
}

#[test]
fn a_trap_names_the_op_and_its_origin() {
    let lines = "@0 = \"src/model.rs\":12:20\n%0: f32[2] = constant 0.0\n%1: i32[1] = constant 5\n\
                 %9: f32[1] = gather %0, %1 {batch=0} @0";
    let error = run(lines, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Trap);
    assert_eq!(error.origin().unwrap().to_string(), "src/model.rs:12:20");
    assert_eq!(error.notes().collect::<Vec<_>>(), ["in %2: f32[1] = gather %0, %1 {batch=0}"]);
}
