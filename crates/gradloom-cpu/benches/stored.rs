//! Products of few rows with weights in their storage formats. Run with
//! `cargo bench -p gradloom-cpu --bench stored`.
//!
//! For each shape and format, prints billions of bytes of weights read per second on all threads, along with
//! the rate of a plain sum over the same bytes. Runs alternate, so that other load on the machine affects all
//! alike; the median and the best are printed. The weights of many products lie one after another in memory,
//! so that no run finds its weights in a cache.

use gradloom_codegen::cpu::dot_workspace;
use gradloom_core::ir::{BlockFormat, DType, DotAxes, Graph, OpId, OpKind, ValueId};
use gradloom_core::kernel::{Access, Kernel, Launch, Layout, Phase, Schedule};
use gradloom_cpu::{Call, Prepared, describe, prepare};
use gradloom_device::host::Pool;
use std::time::Instant;

/// Size in bytes of the weights, which successive runs read in turn.
const WEIGHTS: usize = 256 << 20;
const RUNS: usize = 101;

struct Form {
    name: &'static str,
    dtype: DType,
    blocks: Option<BlockFormat>,
}

const FORMS: [Form; 5] = [
    Form { name: "f32", dtype: DType::F32, blocks: None },
    Form { name: "bf16", dtype: DType::BF16, blocks: None },
    Form { name: "f16", dtype: DType::F16, blocks: None },
    Form { name: "q8_0", dtype: DType::U8, blocks: Some(BlockFormat::Q8_0) },
    Form { name: "q4_0", dtype: DType::U8, blocks: Some(BlockFormat::Q4_0) },
];

/// Creates a launch of `[m, k] x [k, n]`. With `by_columns`, the weights are in column-major order, as in the
/// linear layers of other frameworks and in files.
fn launch(form: &Form, [m, n, k]: [usize; 3], by_columns: bool, threads: usize) -> Launch {
    let access = |buffer: u32, dtype, layout| Access { buffer: ValueId(buffer), dtype, layout, blocks: None };
    let row = form.blocks.map_or(k, |format| format.bytes_of(k).expect("whole blocks"));
    let (shape, contract) = if by_columns { ([n, row], 1) } else { ([k, n], 0) };
    let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![contract], ..DotAxes::default() };
    let right = access(1, form.dtype, Layout::contiguous(&shape.into()));
    let mut launch = Launch {
        op: OpId(0),
        kernel: Kernel::Op(OpKind::Dot(axes)),
        reads: vec![
            access(0, DType::F32, Layout::contiguous(&[m, k].into())),
            Access { blocks: form.blocks, ..right },
        ],
        writes: vec![access(2, DType::F32, Layout::contiguous(&[m, n].into()))],
        may_alias: Vec::new(),
        schedule: Schedule::Whole,
        workspace: 0,
        phase: Phase::Compute,
    };
    launch.workspace =
        dot_workspace(&launch.kernel, &launch.reads, &launch.writes, &[], DType::F32, threads) as u64;
    launch
}

/// Sums `words` on all threads.
fn read(pool: &Pool, words: &[u64]) -> u64 {
    let total = std::sync::atomic::AtomicU64::new(0);
    let chunk = words.len().div_ceil(16).max(1);
    pool.run(words.len().div_ceil(chunk), &|task| {
        let words = &words[task * chunk..((task + 1) * chunk).min(words.len())];
        let mut sums = [0_u64; 32];
        let (whole, _) = words.as_chunks::<32>();
        for chunk in whole {
            (0..32).for_each(|i| sums[i] = sums[i].wrapping_add(chunk[i]));
        }
        total.fetch_add(sums.iter().fold(0, |a, b| a.wrapping_add(*b)), std::sync::atomic::Ordering::Relaxed);
    });
    total.into_inner()
}

/// Returns the median and the minimum.
fn summary(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [times[times.len() / 2], times[0]]
}

fn main() {
    println!("{}", describe());
    let pool = Pool::new(std::thread::available_parallelism().map_or(1, usize::from));
    // Small numbers in every format: 0x3c01 is about 1 as an f16 and about 0.008 as a bf16.
    let weights = vec![0x3c01_3c02_3c03_3c04_u64; WEIGHTS / 8];
    let shapes = [
        ([1, 3072, 768], true),
        ([1, 768, 3072], true),
        ([1, 50257, 768], true),
        ([4, 3072, 768], true),
        ([64, 3072, 768], true),
        ([1, 3072, 768], false),
        ([1, 768, 3072], false),
        ([1, 768, 768], false),
        ([1, 2304, 768], false),
        ([4, 3072, 768], false),
    ];
    println!("GB/s of weights (of a plain read): medians, best; GFLOP/s and time of medians");
    for (extents, by_columns) in shapes {
        let [m, n, k] = extents;
        let forms: Vec<&Form> = FORMS.iter().filter(|form| by_columns || form.blocks.is_none()).collect();
        let launches: Vec<Launch> =
            forms.iter().map(|form| launch(form, extents, by_columns, pool.threads())).collect();
        let kernels: Vec<Box<dyn Prepared>> =
            launches.iter().map(|launch| prepare(launch, &Graph::new())).collect();
        let left = vec![0.5_f32; m * k];
        let mut result = vec![0.0_f32; m * n];
        let mut times = vec![[vec![], vec![]]; forms.len()];
        for run in 0..RUNS {
            for (i, launch) in launches.iter().enumerate() {
                let right = &launch.reads[1];
                let bytes = right.layout.end() * right.dtype.bytes();
                let from =
                    (run * bytes.next_multiple_of(64) + i * WEIGHTS / 16) % (WEIGHTS - bytes) / 64 * 64;
                let reads = [left.as_ptr().cast(), weights.as_ptr().cast::<u8>().wrapping_add(from)];
                let mut scratch = vec![0_u64; launch.workspace as usize / 8 + 9];
                let aligned = scratch.as_mut_ptr().cast::<u8>();
                let aligned = aligned.wrapping_add(aligned.align_offset(64));
                let writes = [result.as_mut_ptr().cast()];
                let call = Call { pool: &pool, reads: &reads, writes: &writes, scratch: aligned };
                let start = Instant::now();
                kernels[i].run(&call).expect("no trap");
                times[i][0].push(start.elapsed().as_secs_f64());
                let behind = (from + WEIGHTS / 2) % (WEIGHTS - bytes) / 8;
                let start = Instant::now();
                std::hint::black_box(read(&pool, &weights[behind..][..bytes / 8]));
                times[i][1].push(start.elapsed().as_secs_f64());
            }
        }
        let layout = if by_columns { "by columns" } else { "by rows" };
        println!("{m}x{k}x{n} {layout}");
        for ((form, launch), [ours, plain]) in forms.iter().zip(&launches).zip(times) {
            let right = &launch.reads[1];
            let bytes = (right.layout.end() * right.dtype.bytes()) as f64;
            let [ours, plain] = [ours, plain].map(summary);
            let rates = |i: usize| format!("{:6.1} ({:5.1})", bytes / ours[i] / 1e9, bytes / plain[i] / 1e9);
            let flops = 2.0 * (m * n * k) as f64 / ours[0] / 1e9;
            println!("  {:8} {} {} {flops:7.1} {:8.1} us", form.name, rates(0), rates(1), ours[0] * 1e6);
        }
    }
}
