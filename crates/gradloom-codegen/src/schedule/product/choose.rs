//! The rule that chooses tiles if nothing was measured.

use super::{fits, of_operands, streams, suits};
use crate::limits::Limits;
use crate::narrow::narrow;
use crate::product::{Along, BatchAxis, DotProblem, Side};
use crate::schedule::precision::Precision;
use gradloom_core::ir::DType;
use gradloom_core::kernel::{CooperativeTile, Method, ProductChoice, Staging, Tile};

const fn staged([m, n, k, thread_m, thread_n]: [u32; 5]) -> Tile {
    Tile { m, n, k, thread_m, thread_n, staging: Staging::Workgroup(1) }
}

/// Minimum number of rows and columns of a product for cooperative matrices. In a smaller product, most of a
/// tile would be empty.
const COOPERATIVE: usize = 32;

/// Chooses how to compute a product on a device with these limits. `operands` is the type of operands in
/// matrix instructions, or `None` if these may not be used.
///
/// The numbers in the rules were measured on an H100 with the products of two GPT training steps
/// (`docs/history/webgpu-experiments.md`). The choice for each of them is within a fifth of the best of many.
pub fn choose(problem: &DotProblem, operands: Option<DType>, limits: &Limits) -> ProductChoice {
    match (limits.software, limits.scalar) {
        (_, true) => return scalar(problem),
        (true, false) => return software(problem),
        _ => {}
    }
    if let Some(choice) = of_few_rows(problem, operands, limits) {
        return choice;
    }
    let cooperative = operands.and_then(|operands| cooperative(problem, operands, limits));
    cooperative.unwrap_or_else(|| portable(problem, limits))
}

/// Returns the number of tiles of this size in all products.
fn tiles(problem: &DotProblem, m: usize, n: usize) -> usize {
    problem.batch_count() * problem.m.div_ceil(m) * problem.n.div_ceil(n)
}

/// Returns the number of parts for sums of length `k`: a power of two up to 16, such that each part has at
/// least 96 terms and the workgroups are not many more than a large device runs at a time.
fn parts(workgroups: usize, k: usize) -> u32 {
    let fits = |parts: &usize| k / parts >= 96 && workgroups <= 264 && workgroups * parts <= 600;
    [16, 8, 4, 2].into_iter().find(fits).map_or(1, narrow)
}

/// Returns a choice that only uses registers: a software device has no faster memory, and a barrier stops all
/// threads.
fn software(problem: &DotProblem) -> ProductChoice {
    let rows = match problem.m {
        0..=1 => 1,
        2..=3 => 2,
        4..=7 => 4,
        _ => 8,
    };
    let columns = if problem.n > 4 { 8 } else { 4 };
    // Uses fewer threads if there would be too few workgroups for the processor's cores.
    let threads = if tiles(problem, 64, 64) < 16 { 4 } else { 8 };
    by_threads([threads, threads], [rows, columns], Staging::Registers)
}

fn by_threads(threads: [u32; 2], [thread_m, thread_n]: [u32; 2], staging: Staging) -> ProductChoice {
    let (m, n) = (threads[0] * thread_m, threads[1] * thread_n);
    let tile = Tile { m, n, k: 4, thread_m, thread_n, staging };
    ProductChoice { method: Method::Portable(tile), parts: 1 }
}

/// Number of multiplications below which a software device takes longer to compile a kernel than to run it.
const LITTLE: u64 = 2 << 20;
/// Number of multiplications from which only a kernel's run time matters on a software device.
const MUCH: u64 = 8 << 20;

/// Returns a choice that loads element by element. A larger tile per thread needs fewer loads but takes
/// longer to compile: tiles of 4 x 4, 8 x 4 and 8 x 8 took 16, 22 and 31 ms to compile in SwiftShader, and
/// 14, 11 and 8 ms to run for `[1024, 64] x [64, 256]`.
fn scalar(problem: &DotProblem) -> ProductChoice {
    let extents = [problem.batch_count(), problem.m, problem.n, problem.k];
    let (rows, columns) = match extents.into_iter().map(|extent| extent as u64).fold(1, u64::saturating_mul) {
        ..LITTLE => (4, 4),
        LITTLE..MUCH => (8, 4),
        _ => (8, 8),
    };
    let thread_m = rows.min(narrow(problem.m.max(1).next_power_of_two()));
    let thread_n = columns.min(narrow(problem.n.max(1).next_power_of_two()));
    // A workgroup is one task of the device's thread pool: 16 threads, or 64 if that leaves enough tasks. The
    // threads form a square, or cover all the rows or columns of a thin product.
    let threads: u32 = if tiles(problem, 64, 64) < 16 { 16 } else { 64 };
    let needed =
        |extent: usize, each: u32| narrow(extent.div_ceil(each as usize).next_power_of_two().min(64));
    let (rows, columns, side) = (needed(problem.m, thread_m), needed(problem.n, thread_n), threads.isqrt());
    let (along, across) = match (rows < side, columns < side) {
        (true, _) => (rows, columns.min(threads / rows)),
        (false, true) => (rows.min(threads / columns), columns),
        (false, false) => (side, side),
    };
    by_threads([along, across], [thread_m, thread_n], Staging::Scalars)
}

/// Returns a choice with cooperative matrices, if the device supports them.
fn cooperative(problem: &DotProblem, operands: DType, limits: &Limits) -> Option<ProductChoice> {
    let wide = CooperativeTile { m: 128, n: 128, k: 32, subgroup_m: 64, subgroup_n: 64, buffers: 1 };
    // 1.5 times as fast as `wide` if the right operand's columns are contiguous.
    let deep = CooperativeTile { m: 128, n: 128, k: 64, subgroup_m: 64, subgroup_n: 32, buffers: 1 };
    let small = CooperativeTile { m: 64, n: 64, k: 64, subgroup_m: 32, subgroup_n: 32, buffers: 1 };
    let [wide, deep, small] = [wide, deep, small].map(|tile| of_operands(tile, Some(operands)));
    let fits = |tile| fits(Method::Cooperative(tile), operands, limits);
    if problem.m.min(problem.n) < COOPERATIVE {
        return None;
    }
    let large = if problem.rhs.contract_stride == 1 && fits(deep) { deep } else { wide };
    if fits(large) && tiles(problem, 128, 128) >= 512 {
        return Some(ProductChoice { method: Method::Cooperative(large), parts: 1 });
    }
    // Treat short sums in one wave of workgroups, and long sums of few results, specially.
    let count = tiles(problem, 128, 128);
    let (tile, parts) = match problem.k {
        ..=512 if (64..=132).contains(&count) => (deep, 1),
        4096.. if count <= 32 => (wide, 8),
        1024.. if tiles(problem, 64, 64) < 64 => (small, 4),
        _ => (small, 1),
    };
    let choice = |tile, parts| ProductChoice { method: Method::Cooperative(tile), parts };
    [(tile, parts), (small, 1)]
        .into_iter()
        .find(|(tile, _)| fits(*tile))
        .map(|(tile, parts)| choice(tile, parts))
}

/// Returns a choice in which groups of threads divide the terms of small tiles, if that fills the device. On
/// an H200, it is 1.1 to 1.6 times as fast as the other tiles for the products of S with few results. With 16
/// terms at a time, a multiprocessor has room for twice as many workgroups as with 32, and S takes 8% less
/// time on an H100.
fn sliced(problem: &DotProblem, limits: &Limits) -> Option<ProductChoice> {
    let tile = Tile { m: 32, n: 32, k: 16, thread_m: 4, thread_n: 4, staging: Staging::Sliced(4) };
    let choice = ProductChoice { method: Method::Portable(tile), parts: 1 };
    let few = (16..400).contains(&tiles(problem, 32, 32)) && problem.k <= 512;
    let deep = (16..=32).contains(&tiles(problem, 32, 32)) && (512..=1024).contains(&problem.k);
    let possible = suits(&choice, problem, Precision::F32, limits);
    (possible && (few || deep)).then_some(choice)
}

/// Maximum number of rows of a product that is bound by reading its right operand.
const FEW_ROWS: usize = 8;

/// Returns `true` if a product of few rows is computed by a kernel that reads its right operand once.
pub(crate) fn reads_once(problem: &DotProblem, operands: DType, limits: &Limits) -> bool {
    of_few_rows(problem, Some(operands), limits).is_some()
}

fn of_few_rows(problem: &DotProblem, operands: Option<DType>, limits: &Limits) -> Option<ProductChoice> {
    let streamed = operands.and_then(|operands| streamed(problem, operands, limits));
    streamed.or_else(|| lanes_of_terms(problem, limits))
}

/// Numbers of rows of products whose operands are loaded directly into the registers of matrix instructions.
/// For a single row, threads that divide the terms are faster.
const STREAMED: std::ops::RangeInclusive<usize> = 2..=64;
/// Maximum number of rows for workgroups of 16 rows. Products with more rows use workgroups of 32 rows.
const IN_SIXTEENS: usize = 32;

/// Number of tiles that occupy a large device.
const ENOUGH_TILES: usize = 264;

/// Minimum number of steps of 16 terms per subgroup before more subgroups are used. With 3 instead of 6, a
/// step with 16 texts takes 0.55 instead of 0.49 ms.
const STEPS: usize = 6;

/// Returns a choice with matrix instructions whose operands are loaded directly into registers, with the
/// terms divided among subgroups. On an H200, a step of GPT-2 124M takes 0.36 ms with 4 texts (0.47 ms by
/// threads), and 0.56 ms with 32 texts (0.65 ms by the library). With more texts, only products of about one
/// workgroup per multiprocessor use this choice. On an H100, 64 texts take 0.776 ms with it, 0.820 ms with
/// workgroups of 64 rows and 16 columns, which read more, and 0.780 ms if products of 48 workgroups use it
/// too.
fn streamed(problem: &DotProblem, operands: DType, limits: &Limits) -> Option<ProductChoice> {
    let is_wanted = limits.branches && operands != DType::F32 && problem.n >= 64;
    if !is_wanted || !STREAMED.contains(&problem.m) {
        return None;
    }
    let (rows, columns, most) = if problem.m > IN_SIXTEENS {
        if problem.k > LONG_SUM || !(96..=ENOUGH_TILES).contains(&tiles(problem, 32, 32)) {
            return None;
        }
        (32, 32, 8)
    } else {
        // Divides few columns among more workgroups.
        let columns = if tiles(problem, problem.m, 32) >= 48 { 32 } else { 16 };
        (16, columns, if tiles(problem, 16, columns) >= ENOUGH_TILES { 8 } else { 16 })
    };
    let tile = |subgroups| CooperativeTile::streamed([rows, columns].map(narrow), subgroups);
    let fits = |tile: &CooperativeTile| {
        streams(tile, problem, limits)
            && fits(Method::Cooperative(*tile), operands, limits)
            && (problem.k / tile.k as usize >= STEPS || tile.subgroups() == 1)
    };
    let mut tiles = [16, 8, 4, 2, 1].into_iter().filter(|subgroups| *subgroups <= most).map(tile);
    tiles.find(fits).map(|tile| ProductChoice { method: Method::Cooperative(tile), parts: 1 })
}

/// Minimum number of terms for which sums of few rows are cut.
const LONG_SUM: usize = 2048;

/// Returns the number of parts into which the sums of a product of few rows are cut, and which its epilogue
/// adds up. The parts divide the terms among more workgroups than there are tiles of columns. On an H200, a
/// step of GPT-2 124M takes 0.288 instead of 0.316 ms with 8 texts, 0.351 instead of 0.373 ms with 16, and
/// 0.465 instead of 0.494 ms with 32. On an H100 with 64 texts, it takes 0.776 instead of 0.793 ms, and 0.783
/// ms with 4 parts.
pub(crate) fn streamed_parts(problem: &DotProblem, operands: DType, limits: &Limits) -> usize {
    let parts = match problem.m {
        2..=8 => 2,
        9..=IN_SIXTEENS => 4,
        rows if STREAMED.contains(&rows) => 2,
        _ => return 1,
    };
    if problem.k < LONG_SUM || tiles(problem, 16, 16) >= ENOUGH_TILES {
        return 1;
    }
    let mut cut = problem.clone();
    cut.k /= parts;
    let [lhs_stride, rhs_stride] = [problem.lhs, problem.rhs].map(|side| side.contract_stride * cut.k);
    cut.batch.insert(0, BatchAxis { extent: parts, lhs_stride, rhs_stride });
    let is_cut = problem.k.is_multiple_of(parts) && streamed(&cut, operands, limits).is_some();
    if is_cut { parts } else { 1 }
}

/// Returns a choice in which threads divide the terms of a few columns, if there are few rows and a large
/// right operand.
fn lanes_of_terms(problem: &DotProblem, limits: &Limits) -> Option<ProductChoice> {
    if !limits.branches || problem.m > FEW_ROWS || problem.n < 64 || problem.k < 64 {
        return None;
    }
    let [rows, columns, slices] = match Side::both(problem)[1].along {
        Along::Contract => [FEW_ROWS, 16, 32],
        // Uses as many threads as the number of terms allows. With eight rows, a thread needs so many
        // registers that a multiprocessor only has room for one workgroup. On an H100, a step of GPT-2 124M
        // with 8 texts takes 0.62 ms in tiles of four rows, and 0.80 ms in tiles of eight, although these
        // read the right operand only once.
        Along::Free => [4, 16, (problem.k / 4).next_power_of_two().clamp(16, 128)],
    };
    let [m, columns, slices] = [rows.min(problem.m), columns, slices].map(narrow);
    let tile = Tile { m, n: columns, k: 4, thread_m: m, thread_n: 4, staging: Staging::Lanes(slices) };
    let choice = ProductChoice { method: Method::Portable(tile), parts: 1 };
    suits(&choice, problem, Precision::F32, limits).then_some(choice)
}

/// Returns a choice of tiles in workgroup memory, as large as possible while enough workgroups remain to fill
/// a large device.
fn portable(problem: &DotProblem, limits: &Limits) -> ProductChoice {
    if let Some(sliced) = sliced(problem, limits) {
        return sliced;
    }
    let (count, small, k) = (tiles(problem, 64, 64), tiles(problem, 32, 32), problem.k);
    let (tile, parts) = match count {
        0..14 if k > 512 => (staged([32, 32, 32, 4, 4]), parts(small, k)),
        0..48 if k <= 512 => (staged([32, 32, 32, 2, 4]), 1),
        0..96 if k <= 512 => (staged([32, 32, 32, 4, 4]), 1),
        0..512 => {
            let parts = parts(count, k);
            let depth = if count * parts as usize <= 132 { 32 } else { 16 };
            (staged([64, 64, depth, 8, 4]), parts)
        }
        _ if tiles(problem, 128, 128) < 512 => (staged([128, 64, 16, 8, 8]), 1),
        _ => (staged([128, 128, 32, 8, 8]), 1),
    };
    // The fallback below fits every device.
    let smaller = [tile, staged([128, 128, 16, 8, 8]), staged([64, 64, 16, 8, 4])];
    let tile = smaller.into_iter().find(|&tile| fits(Method::Portable(tile), DType::F32, limits));
    ProductChoice { method: Method::Portable(tile.unwrap_or(staged([32, 32, 16, 4, 4]))), parts }
}

/// Returns the number of elements of each operand to load together on a device with these limits: 4 neighbors
/// if possible, else 1.
pub fn lanes(problem: &DotProblem, limits: &Limits) -> [u32; 2] {
    if limits.scalar {
        return [1, 1];
    }
    Side::both(problem).map(|side| if side.has_fours { 4 } else { 1 })
}
