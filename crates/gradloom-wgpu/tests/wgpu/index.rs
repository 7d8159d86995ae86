//! Random bits, argmax and argmin, gather and scatter against the reference.

use crate::{agree, devices, traps};
use gradloom_core::ir::DType;
use gradloom_testing::{Leaves, Random};

const FRACTION: &str = ", ones=1843, digits=11";

#[test]
fn random_bits_are_those_of_the_reference() {
    if crate::skipped() {
        return;
    }
    for device in devices() {
        for (shape, ones) in
            [("", ""), ("3", ""), ("7, 5", ""), ("8, 8", ""), ("300, 57", ""), ("300, 57", FRACTION)]
        {
            let lines = format!(
                "%0: u32[] = scalar \"a\"\n%1: u32[] = scalar \"b\"\n%2: u32[] = scalar \"c\"\n\
                 %3: u32[{shape}] = random_bits %0, %1, %2 {{site=4294967295{ones}}}\noutput \"y\" %3"
            );
            let leaves = [("a", 4_294_967_295.0), ("b", 3_000_000_007.0), ("c", 65_537.0)];
            let leaves = leaves
                .into_iter()
                .fold(Leaves::random(1), |l, (name, v)| l.with(name, DType::U32, &[], &[v]));
            agree(&device, &lines, &leaves, 0.0);
        }
    }
}

#[test]
fn the_first_of_equal_extremes_wins_and_nan_wins_over_all() {
    if crate::skipped() {
        return;
    }
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for device in devices() {
        for op in ["argmax", "argmin"] {
            for (values, dtype) in [
                (vec![1.0, 3.0, 3.0, 2.0], DType::F32),
                (vec![-1.0, -3.0, -3.0, -2.0], DType::F32),
                (vec![0.0, -0.0, 0.0, -0.0], DType::F32),
                (vec![-0.0, 0.0, 1e-42, -1e-42], DType::F32),
                (vec![inf, nan, -inf, nan], DType::F32),
                (vec![inf, 1.0, -inf, -inf], DType::F32),
                (vec![5.0, -7.0, -7.0, 5.0], DType::I32),
                (vec![5.0, 4e9, 1.0, 4e9], DType::U32),
            ] {
                let lines =
                    format!("%0: {dtype}[4] = input \"x\"\n%1: i32[] = {op} %0 {{axis=0}}\noutput \"y\" %1");
                agree(&device, &lines, &Leaves::random(1).with("x", dtype, &[4], &values), 0.0);
            }
            for (from, axis, to) in
                [("3, 4, 5", 1, "3, 5"), ("5, 300", 1, "5"), ("300, 3", 0, "3"), ("2, 128", 1, "2")]
            {
                for dtype in ["f32", "i32", "u32"] {
                    // Draw values from a set of two, so that ties occur.
                    let lines = format!(
                        "%0: {dtype}[{from}] = input \"x\"\n%1: i32[{to}] = {op} %0 {{axis={axis}}}\n\
                         output \"y\" %1"
                    );
                    agree(&device, &lines, &Leaves::random(2), 0.0);
                }
            }
        }
        let lines = "%0: f32[3, 200] = input \"x\"\n%1: f32[200, 3] = permute %0 {perm=[1, 0]}\n\
             %2: i32[3] = argmax %1 {axis=0}\noutput \"y\" %2";
        agree(&device, lines, &Leaves::random(3), 0.0);
    }
}

/// Returns an input of random indices below `rows` with the given shape.
fn indices(shape: &[usize], rows: usize, seed: u64) -> Leaves {
    let mut random = Random::new(seed);
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| random.below(rows) as f64).collect();
    Leaves::random(seed).with("i", DType::I32, shape, &values)
}

fn list(extents: &[usize]) -> String {
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

#[test]
fn rows_are_gathered_and_added_to() {
    if crate::skipped() {
        return;
    }
    let cases: [(&[usize], &[usize], usize); 11] = [
        (&[7, 3], &[4], 0),
        (&[7], &[2, 2], 0),
        (&[2, 7, 3], &[2, 5], 1),
        (&[64, 7], &[64], 1),
        (&[5, 4, 7], &[5, 4, 40], 2),
        (&[7, 3], &[0], 0),
        (&[7, 0], &[4], 0),
        // These cases have long runs of equal indices, and runs of various lengths.
        (&[2, 5], &[100], 0),
        (&[300, 40], &[4, 90], 0),
        (&[3000, 4], &[700], 0),
        // This case has more indices than are sorted in one pass.
        (&[2, 50, 2], &[2, 8500], 1),
    ];
    for device in devices() {
        for (x, index, batch) in cases {
            let updates = [index, &x[batch + 1..]].concat();
            for dtype in ["f32", "u32"] {
                let text = |operand: &str| {
                    format!(
                        "%0: {dtype}[{x}] = {operand}\n%1: i32[{index}] = input \"i\"\n\
                         %2: {dtype}[{updates}] = input \"u\"\n\
                         %3: {dtype}[{x}] = scatter_add %0, %1, %2 {{batch={batch}}}\noutput \"y\" %3\n\
                         %4: {dtype}[{updates}] = gather %3, %1 {{batch={batch}}}\noutput \"z\" %4",
                        x = list(x),
                        index = list(index),
                        updates = list(&updates)
                    )
                };
                let zero = if dtype == "f32" { "constant 0.0" } else { "constant 0" };
                for operand in ["input \"x\"", zero] {
                    agree(&device, &text(operand), &indices(index, x[batch], 17), 1e-5);
                }
            }
        }
    }
}

#[test]
fn rows_in_other_layouts() {
    if crate::skipped() {
        return;
    }
    let lines = "%0: f32[4, 3, 9] = input \"x\"\n%1: f32[9, 4, 3] = permute %0 {perm=[2, 0, 1]}\n\
        %2: i32[6, 5] = input \"i\"\n%3: i32[5, 6] = permute %2 {perm=[1, 0]}\n\
        %4: f32[5, 6, 4, 3] = gather %1, %3 {batch=0}\n\
        %5: f32[4, 5, 3, 6] = input \"u\"\n%6: f32[5, 6, 4, 3] = permute %5 {perm=[1, 3, 0, 2]}\n\
        %7: f32[9, 4, 3] = scatter_add %1, %3, %6 {batch=0}\noutput \"y\" %4\noutput \"z\" %7";
    for device in devices() {
        agree(&device, lines, &indices(&[6, 5], 9, 23), 1e-5);
    }
}

#[test]
fn distinct_rows_are_put_and_others_left_out() {
    if crate::skipped() {
        return;
    }
    let numbers: Vec<f64> = (0..900).map(|i| f64::from(i * 7 % 900) - 40.0).collect();
    for dtype in ["f32", "i32"] {
        let lines = format!(
            "%0: {dtype}[500, 9] = input \"x\"\n%1: i32[900] = input \"i\"\n\
             %2: {dtype}[900, 9] = input \"u\"\n\
             %3: {dtype}[500, 9] = scatter_distinct %0, %1, %2 {{batch=0}}\noutput \"y\" %3"
        );
        for device in devices() {
            agree(&device, &lines, &Leaves::random(1).with("i", DType::I32, &[900], &numbers), 0.0);
        }
    }
}

#[test]
fn an_index_out_of_range_is_a_trap() {
    if crate::skipped() {
        return;
    }
    for device in devices() {
        for (x, index, values) in [
            ("7, 3", 3, vec![0.0, 7.0, 1.0]),
            ("7, 3", 3, vec![6.0, 1.0, -1.0]),
            ("7, 3", 1, vec![7.0]),
            ("0, 3", 2, vec![0.0, 0.0]),
        ] {
            for op in [
                format!("%3: f32[{index}, 3] = gather %0, %1 {{batch=0}}"),
                format!("%3: f32[{x}] = scatter_add %0, %1, %2 {{batch=0}}"),
            ] {
                let lines = format!(
                    "%0: f32[{x}] = input \"x\"\n%1: i32[{index}] = input \"i\"\n\
                     %2: f32[{index}, 3] = input \"u\"\n{op}\noutput \"y\" %3"
                );
                traps(&device, &lines, &Leaves::random(1).with("i", DType::I32, &[index], &values));
            }
        }
    }
}

/// The kernel writes a row's result to the memory of the row's index. Invocations past the last row, which
/// read the last row's index again, must not read that result as an index.
#[test]
fn what_an_invocation_wrote_is_no_index_for_another() {
    if crate::skipped() {
        return;
    }
    let rows = 300;
    let lines = format!(
        "%0: f32[{rows}, 7] = input \"x\"\n%1: i32[{rows}] = argmax %0 {{axis=1}}\n\
         %2: f32[{rows}, 1] = param \"y\"\n\
         %3: f32[{rows}, 1] = exp %2\n%4: f32[{rows}] = gather %3, %1 {{batch=1}}\n\
         %5: f32[{rows}] = param \"w\"\n\
         %6: f32[{rows}] = mul %4, %5\noutput \"z\" %6"
    );
    // The largest number of each row is in the first column.
    let x: Vec<f64> = (0..7 * rows).map(|i| -f64::from(i % 7)).collect();
    let leaves = Leaves::random(1).with("x", DType::F32, &[rows as usize, 7], &x);
    for device in devices() {
        agree(&device, &lines, &leaves, 1e-5);
    }
}
