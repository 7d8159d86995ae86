//! Throughput of CPU kernels, one launch each:
//! `cargo bench -p gradloom-cpu --bench cpu_kernels [filter]`.
//!
//! Prints the best of several runs, in nanoseconds per run, billions of elements per second and billions of
//! bytes moved per second.

use gradloom_codegen::cpu::loop_workspace;
use gradloom_core::fuse::single;
use gradloom_core::ir::{
    ArgReduceOp, BinaryFraction, BinaryOp, CompareOp, DType, Graph, OpId, OpKind, ReduceOp, Shape, UnaryOp,
    ValueId,
};
use gradloom_core::kernel::{Access, Kernel, Launch, Layout, Phase, Schedule};
use gradloom_cpu::{Call, describe, prepare};
use gradloom_device::host::Pool;
use std::time::Instant;

/// A cache line, which is also the alignment of a program's memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u32; 16]);

/// Returns cache lines that hold at least `elements` f32s between 0.5 and 1.5.
fn memory(elements: usize) -> Vec<Line> {
    let value = |i: usize| (0.5 + (i % 977) as f32 / 1000.0).to_bits();
    (0..elements.div_ceil(16) + 1).map(|line| Line(std::array::from_fn(|i| value(16 * line + i)))).collect()
}

/// Times the kernel of an op; elementwise ops and reductions are loops.
fn bench(name: &str, kernel: Kernel, reads: &[(DType, Layout)], (dtype, shape): (DType, Shape)) {
    if std::env::args().nth(1).is_some_and(|filter| !filter.starts_with('-') && !name.contains(&filter)) {
        return;
    }
    let access =
        |buffer: usize, dtype, layout| Access { buffer: ValueId(buffer as u32), dtype, layout, blocks: None };
    let mut accesses: Vec<Access> =
        reads.iter().enumerate().map(|(i, (d, l))| access(i, *d, l.clone())).collect();
    let kernel = match &kernel {
        Kernel::Op(kind) => single(kind, &mut accesses, dtype),
        _ => kernel,
    };
    let workspace = kernel.body().map_or(0, loop_workspace);
    let launch = Launch {
        op: OpId(0),
        kernel,
        reads: accesses,
        writes: vec![access(reads.len(), dtype, Layout::contiguous(&shape))],
        may_alias: Vec::new(),
        schedule: Schedule::Whole,
        workspace: workspace as u64,
        phase: Phase::Compute,
    };
    let sources: Vec<Vec<Line>> = reads.iter().map(|(_, layout)| memory(layout.end())).collect();
    let mut target = memory(shape.elements());
    let addresses: Vec<*const u8> = sources.iter().map(|m| m.as_ptr().cast()).collect();
    let writes = [target.as_mut_ptr().cast()];
    let mut scratch = memory(workspace / 4);
    let elements = reads.iter().map(|(_, l)| l.shape.elements()).max().unwrap_or(0).max(shape.elements());
    let bytes = sources.iter().map(|m| 64 * m.len()).sum::<usize>() + shape.elements() * dtype.bytes();
    for threads in [1, std::thread::available_parallelism().map_or(1, usize::from)] {
        let pool = Pool::new(threads);
        let kernel = prepare(&launch, &Graph::new());
        let call =
            Call { pool: &pool, reads: &addresses, writes: &writes, scratch: scratch.as_mut_ptr().cast() };
        let mut best = f64::INFINITY;
        let begin = Instant::now();
        while begin.elapsed().as_millis() < 150 {
            let start = Instant::now();
            kernel.run(&call).expect("no kernel here traps");
            best = best.min(start.elapsed().as_secs_f64());
        }
        let rate = |count: usize| count as f64 / best / 1e9;
        println!(
            "{name:34} {threads:3} threads {:12.0} ns {:8.2} G/s {:8.1} GB/s",
            best * 1e9,
            rate(elements),
            rate(bytes)
        );
    }
}

fn main() {
    println!("{}", describe());
    let f32s = |shape: &Shape| (DType::F32, shape.clone());
    let dense = |shape: &Shape| (DType::F32, Layout::contiguous(shape));
    let small = Shape::from([16 * 1024]);
    let large = Shape::from([4096, 4096]);
    let rows = Shape::from([8192, 768]);

    for (label, shape) in [("16K", &small), ("16M", &large)] {
        let op = |op| Kernel::Op(OpKind::Binary(op));
        bench(&format!("add {label}"), op(BinaryOp::Add), &[dense(shape), dense(shape)], f32s(shape));
        bench(&format!("max {label}"), op(BinaryOp::Max), &[dense(shape), dense(shape)], f32s(shape));
        let greater = Kernel::Op(OpKind::Compare(CompareOp::Gt));
        bench(
            &format!("greater {label}"),
            greater,
            &[dense(shape), dense(shape)],
            (DType::Bool, shape.clone()),
        );
    }
    bench(
        "pow 16K",
        Kernel::Op(OpKind::Binary(BinaryOp::Pow)),
        &[dense(&small), dense(&small)],
        f32s(&small),
    );
    for op in UnaryOp::ALL.iter().copied().filter(|op| op.accepts(DType::F32)) {
        bench(&format!("{} 16K", op.name()), Kernel::Op(OpKind::Unary(op)), &[dense(&small)], f32s(&small));
    }
    let add = Kernel::Op(OpKind::Binary(BinaryOp::Add));
    let bias = |shape: [usize; 2], strides: [usize; 2]| {
        (DType::F32, Layout { offset: 0, shape: shape.into(), strides: strides.to_vec() })
    };
    bench(
        "add bias [8192, 768] + [768]",
        add.clone(),
        &[dense(&rows), bias([8192, 768], [0, 1])],
        f32s(&rows),
    );
    bench(
        "add [8192, 768] + [8192, 1]",
        add.clone(),
        &[dense(&rows), bias([8192, 768], [1, 0])],
        f32s(&rows),
    );
    let narrow = Shape::from([1 << 20, 3]);
    bench("add [1M, 3] + [3]", add.clone(), &[dense(&narrow), bias([1 << 20, 3], [0, 1])], f32s(&narrow));
    let square = Shape::from([2048, 2048]);
    bench("add transposed 2048", add, &[dense(&square), bias([2048, 2048], [1, 2048])], f32s(&square));

    bench("copy 16M", Kernel::Copy, &[dense(&large)], f32s(&large));
    bench("copy transposed 2048", Kernel::Copy, &[bias([2048, 2048], [1, 2048])], f32s(&square));
    let heads = Layout::contiguous(&Shape::from([8, 1024, 12, 64])).permute(&[0, 2, 1, 3]);
    let shape = heads.shape.clone();
    bench("copy heads [8, 1024, 12, 64]", Kernel::Copy, &[(DType::F32, heads)], (DType::F32, shape));

    let reduce = |op, axes: &[usize]| Kernel::Op(OpKind::Reduce { op, axes: axes.to_vec() });
    bench("sum [8192, 768] rows", reduce(ReduceOp::Sum, &[1]), &[dense(&rows)], f32s(&Shape::from([8192])));
    bench("sum [8192, 768] columns", reduce(ReduceOp::Sum, &[0]), &[dense(&rows)], f32s(&Shape::from([768])));
    bench("sum [8192, 768] all", reduce(ReduceOp::Sum, &[0, 1]), &[dense(&rows)], f32s(&Shape::scalar()));
    bench("max [8192, 768] rows", reduce(ReduceOp::Max, &[1]), &[dense(&rows)], f32s(&Shape::from([8192])));
    bench("sum [1M, 3] rows", reduce(ReduceOp::Sum, &[1]), &[dense(&narrow)], f32s(&Shape::from([1 << 20])));
    bench("sum [1M, 3] columns", reduce(ReduceOp::Sum, &[0]), &[dense(&narrow)], f32s(&Shape::from([3])));
    for shape in [[64, 128, 256], [32, 512, 64], [4, 4096, 1024], [512, 128, 16], [2048, 64, 4]] {
        let x = Shape::from(shape);
        let result = Shape::from([shape[0], shape[2]]);
        bench(&format!("sum {shape:?} middle"), reduce(ReduceOp::Sum, &[1]), &[dense(&x)], f32s(&result));
        let ends = Shape::from([shape[1]]);
        bench(&format!("sum {shape:?} ends"), reduce(ReduceOp::Sum, &[0, 2]), &[dense(&x)], f32s(&ends));
    }
    let argmax = Kernel::Op(OpKind::ArgReduce { op: ArgReduceOp::ArgMax, axis: 1 });
    bench("argmax [8192, 768] rows", argmax, &[dense(&rows)], (DType::I32, [8192].into()));
    let random = Kernel::Op(OpKind::RandomBits { shape: small.clone(), site: 1, ones: BinaryFraction::HALF });
    let scalar = (DType::U32, Layout::contiguous(&Shape::scalar()));
    bench("random bits 16K", random, &[scalar.clone(), scalar.clone(), scalar], (DType::U32, small));
}
