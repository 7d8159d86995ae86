//! Cumulative ops, sorting and scattering of rows, with the limits of the device and of others.

use crate::{agree, devices, skipped};
use gradloom_core::ir::DType;
use gradloom_testing::Leaves;

/// Returns numbers around 0 with ties, including infinities and NaN.
fn numbers(count: usize) -> Vec<f64> {
    let special = [f64::NAN, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY];
    let number = |i: usize| match i % 101 {
        at if at < special.len() => special[at],
        _ => ((i * 7919) % 701) as f64 * 0.25 - 80.0,
    };
    (0..count).map(number).collect()
}

#[test]
fn sums_up_to_each_element() {
    if skipped() {
        return;
    }
    for device in devices() {
        for [rows, extent] in [[3, 5], [2, 130], [1, 70_000], [300, 2049]] {
            let count = rows * extent;
            let values: Vec<f64> = (0..count).map(|i| ((i * 31) % 17) as f64 - 8.0).collect();
            for (op, reverse) in [("cumsum", ""), ("cumsum", "{reverse}"), ("cummax", "")] {
                let lines = format!(
                    "%0: f32[{rows}, {extent}] = input \"x\"\n%1: f32[{rows}, {extent}] = {op} %0 {reverse}\n\
                     output \"y\" %1"
                );
                let leaves = Leaves::random(1).with("x", DType::F32, &[rows, extent], &values);
                agree(&device, &lines, &leaves, 1e-6);
            }
        }
    }
}

#[test]
fn rows_in_order() {
    if skipped() {
        return;
    }
    for device in devices() {
        for (rows, extent, count) in
            [(70, 5, 5), (3, 1024, 1000), (2, 5000, 100), (1, 9000, 7), (2, 3000, 3000), (1, 5000, 600)]
        {
            let leaves = Leaves::random(1).with("x", DType::F32, &[rows, extent], &numbers(rows * extent));
            for order in ["", ", descending"] {
                let lines = format!(
                    "%0: f32[{rows}, {extent}] = input \"x\"\n\
                     %1: f32[{rows}, {count}], %2: i32[{rows}, {count}] = sort %0 {{count={count}{order}}}\n\
                     output \"y\" %1\noutput \"i\" %2"
                );
                agree(&device, &lines, &leaves, 0.0);
            }
        }
    }
}

#[test]
fn the_last_update_of_a_row_stays() {
    if skipped() {
        return;
    }
    for device in devices() {
        for (rows, count, width) in [(5, 1, 3), (9, 40, 1), (7, 3000, 5), (300, 9000, 2)] {
            let index: Vec<f64> = (0..count).map(|i| ((i * 7919) % rows) as f64).collect();
            for dtype in ["f32", "bool"] {
                let lines = format!(
                    "%0: {dtype}[{rows}, {width}] = input \"x\"\n%1: i32[{count}] = input \"i\"\n\
                     %2: {dtype}[{count}, {width}] = input \"u\"\n\
                     %3: {dtype}[{rows}, {width}] = scatter %0, %1, %2 {{batch=0}}\noutput \"y\" %3"
                );
                agree(&device, &lines, &Leaves::random(3).with("i", DType::I32, &[count], &index), 0.0);
            }
        }
    }
}
