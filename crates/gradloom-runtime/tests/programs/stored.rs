//! Tests products that read weights in their stored form: f16, bf16, and blocks.

use crate::{devices, graph};
use gradloom_codegen::pipeline::Target;
use gradloom_core::fuse::{Fusion, fuse};
use gradloom_core::ir::{BlockFormat, DType, Graph, OpKind};
use gradloom_core::kernel::{Kernel, Launch};
use gradloom_core::passes;
use gradloom_core::reference::evaluate;
use gradloom_cpu::CpuDevice as _;
use gradloom_runtime::{Device, Program};
use gradloom_testing::{Leaves, values};

/// Returns leaves in which the parameter `w`, u8 `[rows, bytes]`, has blocks of a format with scales of about
/// 2^-6.
fn leaves(format: BlockFormat, [rows, elements]: [usize; 2]) -> Leaves {
    let (size, row) = (format.block_bytes(), format.bytes_of(elements).unwrap());
    let byte = |i: usize| match i % size {
        0 => (i % 256) as f64,
        1 => [0x21, 0xa2][i / size % 2].into(),
        _ => (i * 89 % 253) as f64,
    };
    let blocks: Vec<f64> = (0..rows * row).map(byte).collect();
    Leaves::random(3).with("w", DType::U8, &[rows, row], &blocks)
}

/// Compares a graph on the CPU, after the passes, with the reference.
#[track_caller]
fn agrees(graph: &Graph, leaves: &Leaves) {
    let expected = evaluate(graph, &|kind: &OpKind| leaves.value(kind)).unwrap();
    let optimized = passes::run(graph.clone()).0;
    let unfused = Device::cpu_with_fusion(1, Fusion::Off).unwrap();
    for device in devices().into_iter().chain([unfused]) {
        let values_of = |kind: &OpKind| leaves.value(kind);
        let mut program = Program::standalone(optimized.clone(), &device, &values_of).unwrap();
        let found = program.evaluate(&values_of).unwrap();
        for ((name, found), (_, expected)) in values(&found).zip(values(&expected)) {
            for (i, (found, expected)) in found.to_f64().into_iter().zip(expected.to_f64()).enumerate() {
                let near = (found - expected).abs() <= 1e-4 * (1.0 + expected.abs());
                assert!(near, "{name}[{i}] is {found}, expected {expected}");
            }
        }
    }
}

/// Returns the number of launches in the CPU program that convert stored values.
fn conversions(graph: &Graph) -> usize {
    let optimized = passes::run(graph.clone()).0;
    let lowered = Target::cpu(2).lower(&optimized, fuse(&optimized, Fusion::On).unwrap());
    let converts = |launch: &&Launch| {
        let is_stored = launch.reads.iter().any(|read| read.dtype.is_for_memory());
        is_stored
            && !matches!(launch.kernel, Kernel::Op(OpKind::Dot(_)) | Kernel::Dot { .. } | Kernel::Group(_))
    };
    lowered.launches.iter().filter(converts).count()
}

#[test]
fn weights_in_blocks_are_read_by_products() {
    for (format, bytes) in [(BlockFormat::Q8_0, 102), (BlockFormat::Q4_0, 54)] {
        for rows in [1, 3, 40] {
            let head = format!(
                "%0: f32[{rows}, 96] = input \"x\"\n%1: u8[70, {bytes}] = param \"w\"\n\
                 %2: f32[70, 96] = dequantize %1 {{format={format}}}\n"
            );
            // A linear layer with an activation.
            let linear = graph(&format!(
                "{head}%3: f32[96, 70] = permute %2 {{perm=[1, 0]}}\n\
                 %4: f32[{rows}, 70] = dot %0, %3 {{lhs_contract=[1], rhs_contract=[0]}}\n\
                 %5: f32[{rows}, 70] = tanh %4\noutput \"y\" %5"
            ));
            // Heads next to each other: both the contraction and the columns have several axes.
            let heads = graph(&format!(
                "{head}%3: f32[7, 10, 3, 32] = reshape %2\n%4: f32[{rows}, 3, 32] = reshape %0\n\
                 %5: f32[{rows}, 7, 10] = dot %4, %3 {{lhs_contract=[1, 2], rhs_contract=[2, 3]}}\n\
                 output \"y\" %5"
            ));
            // A separate product for each group of outputs.
            let batch = graph(&format!(
                "{head}%3: f32[7, 10, 96] = reshape %2\n%4: f32[1, {rows}, 96] = reshape %0\n\
                 %5: f32[7, {rows}, 96] = broadcast %4\n%6: f32[7, {rows}, 10] = dot %5, %3 \
                 {{lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[2]}}\noutput \"y\" %6"
            ));
            // A subset of the rows, starting at a block in the middle.
            let part = graph(&format!(
                "{head}%3: f32[20, 32] = slice %2 {{start=[9, 32], limit=[49, 64], step=[2, 1]}}\n\
                 %4: f32[{rows}, 32] = slice %0 {{start=[0, 8], limit=[{rows}, 40], step=[1, 1]}}\n\
                 %5: f32[{rows}, 20] = dot %4, %3 {{lhs_contract=[1], rhs_contract=[1]}}\noutput \"y\" %5"
            ));
            for graph in [&linear, &heads, &batch, &part] {
                agrees(graph, &leaves(format, [70, 96]));
                assert_eq!(conversions(graph), 0, "{graph}");
            }
        }
    }
}

/// Stored values are converted to f32 once if a product cannot read them directly: for sums over the rows of
/// blocks (as in the gradient of the left operand), for parts of blocks, for left operands, and for values
/// that are outputs of the program.
#[test]
fn other_uses_are_converted_once() {
    for (format, bytes) in [(BlockFormat::Q8_0, 68), (BlockFormat::Q4_0, 36)] {
        let head = format!(
            "%0: f32[5, 64] = input \"x\"\n%1: u8[33, {bytes}] = param \"w\"\n\
             %2: f32[33, 64] = dequantize %1 {{format={format}}}\n"
        );
        let both = "%3: f32[5, 33] = dot %0, %2 {lhs_contract=[1], rhs_contract=[1]}\n\
                    %4: f32[5, 64] = dot %3, %2 {lhs_contract=[1], rhs_contract=[0]}\noutput \"y\" %4";
        let inside = "%3: f32[33, 40] = slice %2 {start=[0, 8], limit=[33, 48], step=[1, 1]}\n\
                      %4: f32[5, 40] = slice %0 {start=[0, 8], limit=[5, 48], step=[1, 1]}\n\
                      %5: f32[5, 33] = dot %4, %3 {lhs_contract=[1], rhs_contract=[1]}\noutput \"y\" %5";
        let left = "%3: f32[33, 5] = dot %2, %0 {lhs_contract=[1], rhs_contract=[1]}\noutput \"y\" %3";
        let kept = "%3: f32[5, 33] = dot %0, %2 {lhs_contract=[1], rhs_contract=[1]}\noutput \"y\" %3\n\
                    output \"w\" %2";
        for lines in [both, inside, left, kept] {
            let graph = graph(&format!("{head}{lines}"));
            agrees(&graph, &leaves(format, [33, 64]));
            assert_eq!(conversions(&graph), 1, "{graph}");
        }
    }
}

#[test]
fn rows_of_an_embedding_are_gathered_first() {
    let graph = graph(
        "%0: i32[2, 3] = input \"ids\"\n%1: u8[9, 36] = param \"w\"\n\
         %2: u8[2, 3, 36] = gather %1, %0 {batch=0}\n%3: f32[2, 3, 64] = dequantize %2 {format=q4_0}\n\
         %4: f32[3, 64, 2] = permute %3 {perm=[1, 2, 0]}\n%5: f32[3, 64, 2] = exp %4\noutput \"y\" %5",
    );
    let ids = [0.0, 8.0, 3.0, 3.0, 1.0, 7.0];
    let leaves = leaves(BlockFormat::Q4_0, [9, 64]).with("ids", DType::I32, &[2, 3], &ids);
    agrees(&graph, &leaves);
}

#[test]
fn floats_of_16_bits_are_read_by_products() {
    // Numbers that both dtypes represent exactly.
    let numbers: Vec<f64> = (0..2800).map(|i| f64::from(i * 7 % 17 - 8) / 8.0).collect();
    for dtype in [DType::F16, DType::BF16] {
        let leaves =
            Leaves::random(4).with("a", dtype, &[40, 70], &numbers).with("b", dtype, &[70, 40], &numbers);
        for rows in [1, 4, 50] {
            // Three products, with weights in row-major and in column-major order.
            let graph = graph(&format!(
                "%0: f32[{rows}, 40] = input \"x\"\n%1: {dtype}[40, 70] = param \"a\"\n\
                 %2: {dtype}[70, 40] = param \"b\"\n%3: f32[40, 70] = cast %1\n%4: f32[70, 40] = cast %2\n\
                 %5: f32[{rows}, 70] = dot %0, %3 {{lhs_contract=[1], rhs_contract=[0]}}\n\
                 %6: f32[{rows}, 70] = dot %0, %4 {{lhs_contract=[1], rhs_contract=[1]}}\n\
                 %7: f32[{rows}, 70] = add %5, %6\n\
                 %8: f32[{rows}, 40] = dot %7, %3 {{lhs_contract=[1], rhs_contract=[1]}}\noutput \"y\" %8"
            ));
            agrees(&graph, &leaves);
            assert_eq!(conversions(&graph), 0, "{graph}");
        }
    }
}
