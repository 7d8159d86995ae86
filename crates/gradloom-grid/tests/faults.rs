//! Messages of faults that kernels find, on the simulated grid and on the CPU.

use gradloom_codegen::pipeline::{Limits, Precision, Target};
use gradloom_core::ir::{DType, parse};
use gradloom_cpu::CpuDevice;
use gradloom_runtime::{Device, Program};
use gradloom_testing::Leaves;

/// The bounds of both operands are 9, so that only the positions of faults tell them apart.
const ATTENTION: &str = "graph {\n\
    %0: f32[2, 4, 3, 16] = input \"q\"\n%1: f32[9, 2, 2, 16] = input \"k\"\n\
    %2: f32[9, 2, 2, 16] = input \"v\"\n%3: i32[2] = input \"length\"\n%4: i32[2, 4] = input \"table\"\n\
    %5: f32[2, 4, 3, 16], %6: f32[2, 4, 3] = attention %0, %1, %2, %3, %4 {scale=0.25, key_length, \
    block_table}\noutput \"o\" %5\n}";

#[test]
fn attention_names_the_operand_out_of_range() {
    let table = [8.0, 0.0, 3.0, 1.0, 7.0, 2.0, 5.0, 4.0];
    let with = |at: usize, entry: f64| {
        let mut table = table;
        table[at] = entry;
        table
    };
    let mut devices = vec![("cpu", Device::cpu())];
    for (name, target) in [
        ("portable", Target::wgsl(Limits::portable(), Precision::F32)),
        ("cuda", Target::cuda(Limits::cuda(), Precision::F32)),
    ] {
        devices.push((name, gradloom_grid::device(target)));
    }
    for (lengths, table, expected) in [
        ([3.0, 9.0], table, "attention: key_length is 9, but there are 8 keys (0..=8)"),
        ([-1.0, 8.0], table, "attention: key_length is -1, but there are 8 keys (0..=8)"),
        ([8.0, 8.0], with(2, 9.0), "attention: block_table[0, 2] is 9, outside the pool of 9 blocks"),
        ([8.0, 8.0], with(5, -3.0), "attention: block_table[1, 1] is -3, outside the pool of 9 blocks"),
    ] {
        let leaves = Leaves::random(11).with("length", DType::I32, &[2], &lengths).with(
            "table",
            DType::I32,
            &[2, 4],
            &table,
        );
        for (name, device) in &devices {
            let graph = parse(ATTENTION).expect("it parses");
            let mut program = Program::standalone(graph, device, &|kind| leaves.value(kind))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let error = program.evaluate(&|kind| leaves.value(kind)).expect_err("a value is out of range");
            assert!(error.to_string().contains(expected), "{name}: {error}");
        }
    }
}
