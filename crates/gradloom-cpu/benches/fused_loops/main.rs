//! Throughput benchmarks of single launches of fused loops. Run with
//! `cargo bench -p gradloom-cpu --bench fused_loops [filter]`.
//!
//! Prints the best of several runs, in microseconds per run and billions of bytes moved per second (operands
//! and results counted once each), along with this machine's read and copy bandwidth.

mod body;

use body::Builder;
use gradloom_codegen::cpu::loop_workspace;
use gradloom_core::ir::{DType, Graph, OpId, ValueId};
use gradloom_core::kernel::{Access, Kernel, Launch, Part, Phase, Schedule};
use gradloom_cpu::{Call, describe, prepare};
use gradloom_device::host::Pool;
use std::time::Instant;

/// A cache line, which is also the alignment of a program's memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u32; 16]);

/// Returns cache lines that hold at least `elements` f32s between 0.5 and 1.5, or small integers if `dtype`
/// is not f32.
fn memory(dtype: DType, elements: usize) -> Vec<Line> {
    let value = |i: usize| match dtype {
        DType::F32 => (0.5 + (i % 977) as f32 / 1000.0).to_bits(),
        _ => (i % 7) as u32,
    };
    (0..elements.div_ceil(16) + 1).map(|line| Line(std::array::from_fn(|i| value(16 * line + i)))).collect()
}

/// Times a launch that runs all the bodies.
fn bench(name: &str, all: &[Builder]) {
    if std::env::args().nth(1).is_some_and(|filter| !filter.starts_with('-') && !name.contains(&filter)) {
        return;
    }
    let (mut reads, mut writes, mut parts, mut may_alias, mut workspace) =
        (vec![], vec![], vec![], vec![], 0);
    let (mut places, mut next): (Vec<Vec<Line>>, u32) = (vec![], 0);
    for b in all {
        let (first_read, first_write, scratch) = (reads.len(), writes.len(), loop_workspace(&b.body));
        for (dtype, layout) in &b.reads {
            places.push(memory(*dtype, layout.end()));
            reads.push(Access { buffer: ValueId(next), dtype: *dtype, layout: layout.clone(), blocks: None });
            next += 1;
        }
        for (i, (dtype, layout, place)) in b.writes.iter().enumerate() {
            if let Some(read) = place {
                may_alias.push((first_write + i, first_read + read));
                writes.push(Access { layout: layout.clone(), ..reads[first_read + read].clone() });
                continue;
            }
            places.push(memory(*dtype, layout.end()));
            writes.push(Access {
                buffer: ValueId(next),
                dtype: *dtype,
                layout: layout.clone(),
                blocks: None,
            });
            next += 1;
        }
        parts.push(Part {
            kernel: Kernel::Loop(b.body.clone()),
            reads: first_read..reads.len(),
            writes: first_write..writes.len(),
            schedule: Schedule::Whole,
            workspace: workspace..workspace + scratch as u64,
        });
        workspace += scratch as u64;
    }
    let bytes: usize = reads.iter().chain(&writes).map(|a: &Access| a.layout.end() * a.dtype.bytes()).sum();
    let addresses: Vec<*mut u8> = places.iter_mut().map(|place| place.as_mut_ptr().cast()).collect();
    let of = |access: &Access| addresses[access.buffer.0 as usize];
    let sources: Vec<*const u8> = reads.iter().map(|a| of(a).cast_const()).collect();
    let targets: Vec<*mut u8> = writes.iter().map(of).collect();
    let kernel = if parts.len() == 1 { parts.swap_remove(0).kernel } else { Kernel::Group(parts) };
    let launch = Launch {
        op: OpId(0),
        kernel,
        reads,
        writes,
        may_alias,
        schedule: Schedule::Whole,
        workspace,
        phase: Phase::Compute,
    };
    let prepared = prepare(&launch, &Graph::new());
    let mut scratch = memory(DType::F32, workspace as usize / 4);
    print!("{name:34}");
    for threads in [1, std::thread::available_parallelism().map_or(1, usize::from)] {
        let pool = Pool::new(threads);
        let call =
            Call { pool: &pool, reads: &sources, writes: &targets, scratch: scratch.as_mut_ptr().cast() };
        let mut best = f64::INFINITY;
        let begin = Instant::now();
        while begin.elapsed().as_millis() < 300 {
            let start = Instant::now();
            prepared.run(&call).expect("no index is out of range");
            best = best.min(start.elapsed().as_secs_f64());
        }
        print!("{threads:3} threads {:9.1} us {:7.1} GB/s", best * 1e6, bytes as f64 / best / 1e9);
    }
    println!();
}

/// Measures the machine's memory bandwidth for reads and for copies.
fn bandwidth() {
    let (from, mut to) = (memory(DType::F32, 1 << 26), memory(DType::F32, 1 << 26));
    let bytes = 64 * from.len();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let chunk = from.len().div_ceil(threads);
    let mut best = [f64::INFINITY; 2];
    for _ in 0..5 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for from in from.chunks(chunk) {
                scope.spawn(move || {
                    let mut sums = [0u32; 16];
                    for line in from {
                        sums.iter_mut().zip(line.0).for_each(|(sum, v)| *sum = sum.wrapping_add(v));
                    }
                    std::hint::black_box(sums);
                });
            }
        });
        best[0] = best[0].min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (from, to) in from.chunks(chunk).zip(to.chunks_mut(chunk)) {
                scope.spawn(move || to.copy_from_slice(from));
            }
        });
        best[1] = best[1].min(start.elapsed().as_secs_f64());
    }
    println!(
        "memory, {threads} threads: reads {:.1} GB/s, copies {:.1} GB/s (both directions together)",
        bytes as f64 / best[0] / 1e9,
        2.0 * bytes as f64 / best[1] / 1e9
    );
}

fn main() {
    println!("{}", describe());
    if std::env::args().nth(1).is_none_or(|filter| filter.starts_with('-')) {
        bandwidth();
    }
    let one = |name: &str, builder: Builder| bench(name, &[builder]);
    one("copy 32M", body::copy(4096, 8192));
    one("add 32M", body::add(4096, 8192));
    one("chain 32M", body::chain(4096, 8192));
    one("chain 64K", body::chain(1024, 64));
    one("gelu 32M", body::gelu(4096, 8192));
    one("gelu [1024, 256]", body::gelu(1024, 256));
    for (rows, columns) in [(16_384, 768), (1024, 64), (1024, 128), (1024, 65)] {
        one(&format!("layer norm [{rows}, {columns}]"), body::layer_norm(rows, columns));
        one(&format!("layer norm gradient [{rows}, {columns}]"), body::layer_norm_gradient(rows, columns));
    }
    for (rows, columns) in [(512, 50_257), (4096, 8192), (32_768, 256), (1024, 65), (1024, 10)] {
        one(&format!("cross entropy [{rows}, {columns}]"), body::cross_entropy(rows, columns));
    }
    one("adamw 16M", body::adam_w(16 << 20));
    one("adamw 100K", body::adam_w(100_000));
    let small: Vec<Builder> = (0..100).map(|i| body::adam_w([64, 64, 4096, 16_384][i % 4])).collect();
    bench("adamw 100 parameters, 514K", &small);
    let large: Vec<Builder> = (0..50).map(|i| body::adam_w([768, 590_000][i % 2])).collect();
    bench("adamw 50 parameters, 14.8M", &large);
}
