//! Matrix products compared with those of the `gemm` crate. Run with
//! `cargo bench -p gradloom-cpu --bench products [filter]`.
//!
//! Prints billions of floating-point operations per second for this crate and for `gemm` (one call for the
//! whole problem), on one thread and on all threads, the ratios, and the rate of products of operands that
//! are rounded to bf16. Their runs alternate, and the best of many runs counts, so that other load on the
//! machine affects both alike.

use gradloom_codegen::cpu::dot_workspace;
use gradloom_core::ir::{DType, DotAxes, Graph, OpId, OpKind, ValueId};
use gradloom_core::kernel::{Access, Kernel, Launch, Layout, Phase, Schedule};
use gradloom_cpu::{Call, describe, prepare};
use gradloom_device::host::Pool;
use std::time::Instant;

/// A cache line, which is also the alignment of a program's memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [f32; 16]);

/// Returns cache lines that hold at least `elements` f32s between 0.5 and 1.5.
fn memory(elements: usize) -> Vec<Line> {
    let value = |i: usize| 0.5 + (i % 977) as f32 / 1000.0;
    (0..elements.div_ceil(16) + 1).map(|line| Line(std::array::from_fn(|i| value(16 * line + i)))).collect()
}

/// A batch of products `[m, k] x [k, n]`, with `extents` m, n and k.
struct Shape {
    name: String,
    batch: usize,
    extents: [usize; 3],
    /// True for each operand stored in column-major order.
    by_columns: [bool; 2],
}

impl Shape {
    fn new(name: impl Into<String>, batch: usize, extents: [usize; 3], by_columns: [bool; 2]) -> Self {
        Self { name: name.into(), batch, extents, by_columns }
    }
}

/// Returns the three products of each linear layer in a GPT training step on 1,024 tokens.
fn training_step(label: &str, width: usize, vocabulary: usize) -> Vec<Shape> {
    let tokens = 1024;
    let layers = [
        ("qkv", width, 3 * width),
        ("projection", width, width),
        ("up", width, 4 * width),
        ("down", 4 * width, width),
        ("head", width, vocabulary),
    ];
    let shapes = layers.into_iter().flat_map(|(layer, from, to)| {
        // The head's weight is the transposed token embedding, so its storage order is the opposite.
        let tied = layer == "head";
        [
            Shape::new(format!("{label} {layer} y"), 1, [tokens, to, from], [false, tied]),
            Shape::new(format!("{label} {layer} dx"), 1, [tokens, from, to], [false, !tied]),
            Shape::new(format!("{label} {layer} dW"), 1, [from, to, tokens], [true, false]),
        ]
    });
    shapes.collect()
}

fn shapes() -> Vec<Shape> {
    let mut all = training_step("S", 128, 256);
    all.extend(training_step("M", 384, 8192));
    let small = [
        ("256x1x64", 1, [256, 64, 1], [false, false]),
        ("256x64x64", 1, [256, 64, 64], [false, false]),
        ("256x64x1", 1, [256, 1, 64], [false, false]),
        ("64x256x64 dW", 1, [64, 64, 256], [true, false]),
        ("128x784x256", 1, [128, 256, 784], [false, false]),
        ("784x128x256 dW", 1, [784, 256, 128], [true, false]),
        ("128x256x10", 1, [128, 10, 256], [false, false]),
        ("128x10x256 dx", 1, [128, 256, 10], [false, true]),
        ("1024x64x64", 1, [1024, 64, 64], [false, false]),
        ("1024x64x64 dx", 1, [1024, 64, 64], [false, true]),
        ("64x1024x64 dW", 1, [64, 64, 1024], [true, false]),
        ("1x768x3072", 1, [1, 3072, 768], [false, false]),
        ("1x3072x768 transposed", 1, [1, 768, 3072], [false, true]),
        ("1x768x50257 transposed", 1, [1, 50257, 768], [false, true]),
        ("4x768x3072", 1, [4, 3072, 768], [false, false]),
        ("1024 of 8x16x8", 1024, [8, 8, 16], [false, true]),
        ("1024x1024x1024", 1, [1024; 3], [false, false]),
    ];
    all.extend(small.map(|(name, batch, extents, by_columns)| Shape::new(name, batch, extents, by_columns)));
    all
}

/// Returns the time of each function's fastest run, in seconds.
fn race(mut functions: [&mut dyn FnMut(); 3]) -> [f64; 3] {
    let mut best = [f64::INFINITY; 3];
    let begin = Instant::now();
    while begin.elapsed().as_millis() < 300 {
        for (function, best) in functions.iter_mut().zip(&mut best) {
            for _ in 0..3 {
                let start = Instant::now();
                function();
                *best = best.min(start.elapsed().as_secs_f64());
            }
        }
    }
    best
}

fn bench(shape: &Shape, pools: &[Pool]) {
    let Shape { batch, extents: [m, n, k], .. } = *shape;
    let layout = |rows: usize, columns: usize, by_columns: bool| {
        let (row, column) = if by_columns { (1, rows) } else { (columns, 1) };
        Layout::new(0, [batch, rows, columns].into(), vec![rows * columns, row, column])
    };
    let layouts = [layout(m, k, shape.by_columns[0]), layout(k, n, shape.by_columns[1])];
    let access = |buffer: usize, layout: Layout| Access {
        buffer: ValueId(buffer as u32),
        dtype: DType::F32,
        layout,
        blocks: None,
    };
    let axes =
        DotAxes { lhs_batch: vec![0], rhs_batch: vec![0], lhs_contract: vec![2], rhs_contract: vec![1] };
    let mut launch = Launch {
        op: OpId(0),
        kernel: Kernel::Op(OpKind::Dot(axes)),
        reads: layouts.iter().cloned().enumerate().map(|(i, layout)| access(i, layout)).collect(),
        writes: vec![access(2, Layout::contiguous(&[batch, m, n].into()))],
        may_alias: Vec::new(),
        schedule: Schedule::Whole,
        workspace: 0,
        phase: Phase::Compute,
    };
    let most = pools.iter().map(Pool::threads).max().unwrap_or(1);
    let mut prepared = |operands: DType| {
        launch.schedule = if operands == DType::F32 { Schedule::Whole } else { Schedule::Rounded(operands) };
        let workspace = dot_workspace(&launch.kernel, &launch.reads, &launch.writes, &[], operands, most);
        launch.workspace = workspace as u64;
        (prepare(&launch, &Graph::new()), workspace)
    };
    let ((kernel, workspace), (rounded, of_rounded)) = (prepared(DType::F32), prepared(DType::BF16));

    let operands = layouts.each_ref().map(|layout| memory(layout.end()));
    let mut result = memory(batch * m * n);
    let mut scratch = memory(workspace.max(of_rounded) / 4);
    let reads = operands.each_ref().map(|operand| operand.as_ptr().cast::<u8>());
    let writes = [result.as_mut_ptr().cast::<u8>()];
    let scratch = scratch.as_mut_ptr().cast();
    let rate = |seconds: f64| 2.0 * (batch * m * n * k) as f64 / seconds / 1e9;
    let mut line = format!("{:24}", shape.name);
    for pool in pools {
        let call = Call { pool, reads: &reads, writes: &writes, scratch };
        let parallelism = match pool.threads() {
            1 => gemm::Parallelism::None,
            threads => gemm::Parallelism::Rayon(threads),
        };
        let mut crate_alone = || {
            let stride = |operand: usize, axis: usize| layouts[operand].strides[axis] as isize;
            for i in 0..batch {
                let at = |operand: usize| {
                    reads[operand].cast::<f32>().wrapping_add(i * layouts[operand].strides[0])
                };
                // SAFETY: the buffers hold the elements of their layouts, and the result `m·n` elements per
                // product.
                unsafe {
                    gemm::gemm(
                        m,
                        n,
                        k,
                        writes[0].cast::<f32>().wrapping_add(i * m * n),
                        1,
                        n as isize,
                        false,
                        at(0),
                        stride(0, 2),
                        stride(0, 1),
                        at(1),
                        stride(1, 2),
                        stride(1, 1),
                        0.0,
                        1.0,
                        false,
                        false,
                        false,
                        parallelism,
                    );
                }
            }
        };
        let mut rounded = || rounded.run(&call).expect("no trap");
        let [ours, theirs, bf16] =
            race([&mut || kernel.run(&call).expect("no trap"), &mut crate_alone, &mut rounded]);
        line +=
            &format!(" | {:7.1} {:7.1} {:5.2} {:7.1}", rate(ours), rate(theirs), theirs / ours, rate(bf16));
    }
    println!("{line} | {:6} KiB", workspace / 1024);
}

fn main() {
    println!("{}", describe());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let pools: Vec<Pool> =
        if threads == 1 { vec![Pool::new(1)] } else { vec![Pool::new(1), Pool::new(threads)] };
    let columns: String = pools
        .iter()
        .map(|pool| format!(" | {:>2}: ours {:>7} ratio {:>7}", pool.threads(), "gemm", "bf16"))
        .collect();
    println!("{:24}{columns} | workspace   (GFLOP/s)", "");
    let filter = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    for shape in shapes() {
        if filter.as_ref().is_none_or(|filter| shape.name.contains(filter)) {
            bench(&shape, &pools);
        }
    }
}
