//! Tests that every op has kernels for every dtype that its shape rule accepts: a program runs or traps as in
//! the reference, and never panics.

use crate::graph;
use gradloom_core::error::ErrorKind;
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp, parse};
use gradloom_core::passes;
use gradloom_core::reference::evaluate;
use gradloom_cpu::CpuDevice as _;
use gradloom_cpu::Loops;
use gradloom_runtime::{Device, Program};
use gradloom_testing::Leaves;

/// Returns lines that define `%9` from inputs of a dtype: `%0` and `%1` are `[3, 4]`, `%2` is i32 `[3]`, and
/// `%3` is an i32 scalar.
fn cases(dtype: DType) -> Vec<String> {
    let t = dtype.name();
    let value = if dtype == DType::Bool { "true" } else { "1" };
    let mut lines: Vec<String> = Vec::new();
    lines.extend(UnaryOp::ALL.iter().map(|op| format!("{t}[3, 4] = {} %0", op.name())));
    lines.extend(BinaryOp::ALL.iter().map(|op| format!("{t}[3, 4] = {} %0, %1", op.name())));
    lines.extend(CompareOp::ALL.iter().map(|op| format!("bool[3, 4] = {} %0, %1", op.name())));
    for axes in ["0", "1", "0, 1", ""] {
        let shape =
            ["[4]", "[3]", "[]", "[3, 4]"][["0", "1", "0, 1", ""].iter().position(|a| *a == axes).unwrap()];
        lines.extend(
            ReduceOp::ALL.iter().map(|op| format!("{t}{shape} = {} %0 {{axes=[{axes}]}}", op.name())),
        );
    }
    lines.extend(["argmax", "argmin"].map(|op| format!("i32[3] = {op} %0 {{axis=1}}")));
    lines.extend(["argmax", "argmin"].map(|op| format!("i32[4] = {op} %0 {{axis=0}}")));
    lines.extend(DType::ALL.map(|to| format!("{}[3, 4] = cast %0", to.name())));
    lines.extend((0..2).map(|axis| format!("{t}[3, 4] = iota {{axis={axis}}}")));
    lines.push(format!("{t}[3, 4] = constant {value}"));
    lines.push(format!("{t}[3, 4] = select %8, %0, %1"));
    lines.push(format!("{t}[6, 2] = reshape %0"));
    lines.push(format!("{t}[3, 2, 3] = windows %0 {{size=[3], step=[1], dilation=[1]}}"));
    lines.push(format!("{t}[3, 4] = scatter %0, %2, %1 {{batch=0}}"));
    lines.push(format!("{t}[4, 3] = permute %0 {{perm=[1, 0]}}"));
    lines.push(format!("{t}[2, 2] = slice %0 {{start=[0, 1], limit=[3, 4], step=[2, 2]}}"));
    lines.push(format!("{t}[6, 8] = pad %0 {{low=[1, 0], high=[0, 1], interior=[1, 1], value={value}}}"));
    lines.push(format!("{t}[3, 8] = concat %0, %1 {{axis=1}}"));
    lines.push(format!("{t}[2, 2] = dynamic_slice %0, %3, %3"));
    lines.push(format!("{t}[3, 4] = dynamic_update_slice %0, %1, %3, %3"));
    lines.push(format!("{t}[3, 4] = gather %0, %2 {{batch=0}}"));
    lines.push(format!("{t}[3] = gather %0, %2 {{batch=1}}"));
    lines.push(format!("{t}[3, 4] = scatter_add %0, %2, %1 {{batch=0}}"));
    lines.push(format!("{t}[3, 4] = barrier %0, %2"));
    lines
}

#[test]
fn every_op_runs_at_every_dtype_that_it_takes() {
    let devices = [
        Device::cpu_with_loops(2, Loops::Native).unwrap(),
        Device::cpu_with_loops(1, Loops::Interpreted).unwrap(),
        Device::cpu_with_fusion(1, Fusion::Off).unwrap(),
    ];
    let (mut ran, mut refused) = (0, 0);
    for dtype in DType::ALL {
        let t = dtype.name();
        for case in cases(dtype) {
            // The result is an output, is compared with a state, and becomes the state's next value; an f32
            // result is also a guard.
            let mut lines = format!(
                "%0: {t}[3, 4] = input \"x\"\n%1: {t}[3, 4] = param \"y\"\n%2: i32[3] = input \"index\"\n\
                 %3: i32[] = input \"start\"\n%7: {t}[3, 4] = state \"s\" {{init={}}}\n\
                 %11: f32[3, 4] = input \"c\"\n%8: bool[3, 4] = eq %11, %11\n\
                 %9: {case}\noutput \"z\" %9\n",
                if dtype == DType::Bool { "true" } else { "1" }
            );
            if parse(&format!("graph {{\n{lines}\n}}")).is_err() {
                refused += 1;
                continue;
            }
            if dtype.is_for_memory() && case.starts_with(&format!("{t}[3, 4]")) {
                lines += "update %7 <- %9\n";
            } else if case.starts_with(&format!("{t}[3, 4]")) {
                lines += "%10: bool[3, 4] = ne %9, %7\noutput \"changed\" %10\nupdate %7 <- %9\n";
            }
            if dtype == DType::F32 && case.starts_with("f32") {
                lines += "guard \"g\" %9\n";
            }
            // Run graphs with i64 only after the passes, which convert it to words that kernels support.
            let has_i64 = case.contains("i64") || dtype == DType::I64;
            for passed in [has_i64, true] {
                let mut graph = graph(&lines);
                if passed {
                    graph = passes::run(graph).0;
                }
                let leaves = Leaves::random(7);
                let want = evaluate(&graph, &|kind| leaves.value(kind));
                for device in &devices {
                    let mut program =
                        Program::standalone(graph.clone(), device, &|kind| leaves.value(kind)).unwrap();
                    match (program.evaluate(&|kind| leaves.value(kind)), &want) {
                        (Ok(_), Ok(_)) => ran += 1,
                        (Err(error), Err(_)) => assert_eq!(error.kind(), ErrorKind::Trap, "{error}\n{lines}"),
                        (got, _) => panic!("{got:?} instead of {want:?} for\n{lines}"),
                    }
                }
            }
        }
    }
    assert!(ran > 500 && refused > 40, "{ran} ran, {refused} were refused");
}
