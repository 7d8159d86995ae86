//! Sums along rows, columns and whole tensors, with extents around the thresholds between strategies.

use crate::{agree, devices};
use gradloom_core::ir::DType;
use gradloom_runtime::Program;
use gradloom_testing::Leaves;

/// Extents (rows, columns) around the thresholds: few and many rows per invocation, single columns, more
/// columns than lanes, and more columns than an invocation accumulates.
const EXTENTS: [[usize; 2]; 13] = [
    [1, 1],
    [1, 1000],
    [3, 700],
    [20, 300],
    [31, 65],
    [32, 64],
    [33, 17],
    [40, 513],
    [64, 1500],
    [40, 768],
    [300, 5],
    [1000, 1],
    [257, 512],
];

#[test]
fn sums_across_rows() {
    if crate::skipped() {
        return;
    }
    for device in devices() {
        for [r, c] in EXTENTS {
            let lines = format!(
                "%0: f32[{r}, {c}] = input \"x\"\n%1: f32[{r}, {c}] = mul %0, %0\n\
                 %2: f32[{c}] = sum %1 {{axes=[0]}}\n\
                 %3: f32[{c}] = reduce_max %0 {{axes=[0]}}\noutput \"sum\" %2\noutput \"max\" %3"
            );
            agree(&device, &lines, &Leaves::random(1), 1e-5);
        }
    }
}

#[test]
fn sums_across_rows_of_what_needs_its_rows_sum() {
    if crate::skipped() {
        return;
    }
    for device in devices() {
        for [r, c] in EXTENTS {
            let lines = format!(
                "%0: f32[{r}, {c}] = input \"x\"\n%1: f32[{r}] = sum %0 {{axes=[1]}}\n\
                 %2: f32[{r}, 1] = reshape %1\n\
                 %3: f32[{r}, {c}] = broadcast %2\n%4: f32[{r}, {c}] = mul %0, %3\n\
                 %5: f32[{c}] = sum %4 {{axes=[0]}}\n\
                 output \"rows\" %1\noutput \"all\" %4\noutput \"columns\" %5"
            );
            agree(&device, &lines, &Leaves::random(2), 1e-5);
        }
    }
}

#[test]
fn totals_of_several_values() {
    if crate::skipped() {
        return;
    }
    // One workgroup computes all totals of the first case and, on a software device, those of the second
    // case, but never those of the third, because of its longest sum.
    for device in devices() {
        for extents in [&[7, 1000][..], &[7, 1024, 1025, 3], &[5, 65_537, 100]] {
            let (mut lines, mut totals) = (String::new(), Vec::new());
            for (i, n) in extents.iter().enumerate() {
                let [x, square, sum, total] = [0, 1, 2, 3].map(|k| 4 * i + k);
                lines += &format!(
                    "%{x}: f32[{n}] = input \"x{i}\"\n%{square}: f32[{n}] = mul %{x}, %{x}\n\
                     %{sum}: f32[] = sum %{square} {{axes=[0]}}\n%{total}: f32[1] = reshape %{sum}\n"
                );
                totals.push(format!("%{total}"));
            }
            // Concatenated, the totals are computed by one launch, as for the norm of all gradients.
            let (all, norm, count) = (4 * extents.len(), 4 * extents.len() + 1, extents.len());
            let totals = totals.join(", ");
            lines += &format!(
                "%{all}: f32[{count}] = concat {totals} {{axis=0}}\n\
                 %{norm}: f32[] = sum %{all} {{axes=[0]}}\n\
                 output \"totals\" %{all}\noutput \"norm\" %{norm}"
            );
            agree(&device, &lines, &Leaves::random(3), 1e-5);
        }
    }
}

/// Sequential summation loses precision, most of all for equal summands.
#[test]
fn sums_over_many_rows_lose_few_digits() {
    if crate::skipped() {
        return;
    }
    for device in devices() {
        for [rows, columns] in [[5000, 20], [1 << 18, 3], [1 << 20, 1], [1 << 14, 65]] {
            let lines = format!(
                "%0: f32[{rows}, {columns}] = input \"x\"\n%1: f32[{rows}, {columns}] = mul %0, %0\n\
                 %2: f32[{columns}] = sum %1 {{axes=[0]}}\noutput \"sum\" %2"
            );
            let graph = crate::graph(&lines);
            for value in [0.1_f32, 0.7] {
                let elements = vec![f64::from(value); rows * columns];
                let leaves = Leaves::random(1).with("x", DType::F32, &[rows, columns], &elements);
                let values = |kind: &_| leaves.value(kind);
                let mut program = Program::standalone(graph.clone(), &device, &values).unwrap();
                let got = program.evaluate(&values).unwrap().output("sum").unwrap().to_f64();
                let want = f64::from(value * value) * rows as f64;
                for sum in got {
                    let error = ((sum - want) / want).abs();
                    assert!(error <= 1e-6, "[{rows}, {columns}] of {value}: {sum}, not {want}: {error:.1e}");
                }
            }
        }
    }
}
