//! Long loops, which must be computed correctly or rejected if a driver would exit them early.

use crate::{device, far, graph, skipped};
use gradloom_core::error::ErrorKind;
use gradloom_core::ir::DType;
use gradloom_core::reference::evaluate;
use gradloom_runtime::Program;
use gradloom_testing::{Leaves, values};

#[test]
fn loops_of_any_length_are_right_or_refused() {
    if skipped() {
        return;
    }
    let device = device();
    let (mut right, mut refused) = (0, 0);
    let mut check = |lines: &str, elements: &[usize]| {
        let graph = graph(lines);
        let ones = vec![1.0; elements.iter().product()];
        let leaves = Leaves::random(1).with("x", DType::F32, elements, &ones);
        let leaves = |kind: &_| leaves.value(kind);
        let want = evaluate(&graph, &leaves).unwrap();
        let mut program = match Program::standalone(graph, &device, &leaves) {
            Ok(program) => program,
            Err(error) => {
                assert!(error.to_string().contains("llvmpipe"), "{error}");
                assert_eq!(error.kind(), ErrorKind::Device);
                refused += 1;
                return;
            }
        };
        let got = program.evaluate(&leaves).unwrap();
        for ((_, got), (_, want)) in values(&got).zip(values(&want)) {
            for (got, want) in got.to_f64().into_iter().zip(want.to_f64()) {
                assert!(!far(got, want, 1e-5 * want.abs()), "{got}, not {want}:\n{lines}");
            }
        }
        right += 1;
    };
    for n in [1 << 10, 15_000, 23_000, 66_000, 131_072, 300_000] {
        for columns in [1, 2] {
            let product =
                format!("f32[{columns}, {columns}] = dot %0, %0 {{lhs_contract=[0], rhs_contract=[0]}}");
            check(
                &format!("%0: f32[{n}, {columns}] = input \"x\"\n%1: {product}\noutput \"y\" %1"),
                &[n, columns],
            );
        }
        for rows in [1, 64] {
            let of = |call: &str| format!("%0: f32[{rows}, {n}] = input \"x\"\n%1: {call}\noutput \"y\" %1");
            check(&of(&format!("f32[{rows}] = sum %0 {{axes=[1]}}")), &[rows, n]);
            check(&of(&format!("f32[{n}] = sum %0 {{axes=[0]}}")), &[rows, n]);
            check(&of(&format!("i32[{rows}] = argmax %0 {{axis=1}}")), &[rows, n]);
            let softmax = format!(
                "f32[{rows}] = reduce_max %0 {{axes=[1]}}\n%2: f32[{rows}, 1] = reshape %1\n\
                 %3: f32[{rows}, {n}] = broadcast %2\n%4: f32[{rows}, {n}] = sub %0, %3\n\
                 %5: f32[{rows}, {n}] = exp %4\n%6: f32[{rows}] = sum %5 {{axes=[1]}}\n\
                 %7: f32[{rows}, 1] = reshape %6\n%8: f32[{rows}, {n}] = broadcast %7\n\
                 %9: f32[{rows}, {n}] = div %5, %8\noutput \"softmax\" %9"
            );
            check(&of(&softmax), &[rows, n]);
        }
    }
    assert!(right > 20, "{right} are right, {refused} refused");
}
