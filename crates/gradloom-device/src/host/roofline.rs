//! Roofline model of a device, and a measurement of the processor's peak arithmetic rate and bandwidth.
//!
//! In: a number of threads. Out: a [`Roofline`], measured in about a second. Invariant: every rate is the
//! best of several runs on the threads of a [`Pool`], as kernels use them, so that other work on the machine
//! can only make it too low. By Williams, Waterman and Patterson (2009), a kernel takes at least flops / peak
//! and bytes / bandwidth.

#[cfg(target_arch = "x86_64")]
use super::InstructionSet;
use super::Pool;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Peak rates of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// Number of threads that reach the rates; 1 for a GPU.
    pub threads: usize,
    /// Peak f32 rate in FLOP/s; a fused multiply-add counts as two.
    pub flops: f64,
    /// Bandwidths by working set as (bytes of the working set, bytes per second), in ascending order of the
    /// size; the last working set exceeds the caches.
    pub bandwidth: Vec<(u64, f64)>,
    /// Peak rate in FLOP/s of matrix products and attention, if they are computed in a type other than f32.
    pub products: Option<f64>,
}

impl Roofline {
    /// Measures this machine with the given number of threads.
    pub fn measure(threads: usize) -> Self {
        let pool = Pool::new(threads);
        let threads = pool.threads();
        let bandwidth =
            working_sets(threads).into_iter().map(|set| (set as u64, triad(&pool, set))).collect();
        Self { threads, flops: peak(&pool), bandwidth, products: None }
    }

    /// Returns the bandwidth in bytes per second for a kernel that moves `bytes` bytes: that of the smallest
    /// working set of at least this size.
    pub fn bandwidth_for(&self, bytes: u64) -> f64 {
        let fits = self.bandwidth.iter().find(|(set, _)| *set >= bytes);
        fits.or(self.bandwidth.last()).map_or(f64::INFINITY, |(_, rate)| *rate)
    }

    /// Returns the minimum time of a kernel in seconds.
    pub fn seconds(&self, flops: u64, bytes: u64) -> f64 {
        self.at_rate(self.flops, flops, bytes)
    }

    /// Returns the minimum time of a matrix product in seconds.
    pub fn product_seconds(&self, flops: u64, bytes: u64) -> f64 {
        self.at_rate(self.products.unwrap_or(self.flops), flops, bytes)
    }

    fn at_rate(&self, rate: f64, flops: u64, bytes: u64) -> f64 {
        (flops as f64 / rate).max(bytes as f64 / self.bandwidth_for(bytes))
    }
}

/// Returns sizes of working sets in bytes, from the cores' own caches to main memory.
fn working_sets(threads: usize) -> Vec<usize> {
    // 192 KiB per thread fit into the second-level caches of the last ten years. Shared caches grow with the
    // number of cores; the upper limit keeps memory use reasonable on machines with very many cores.
    let near = threads * (192 << 10);
    let far = (threads * (24 << 20)).clamp(384 << 20, 4 << 30);
    let mut sets: Vec<usize> =
        std::iter::successors(Some(near), |set| Some(set * 4)).take_while(|&set| 2 * set < far).collect();
    sets.push(far);
    sets
}

/// Returns the shortest time of several runs.
fn best(runs: usize, mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let began = Instant::now();
        run();
        began.elapsed()
    };
    (0..runs).map(time).min().unwrap_or(Duration::MAX).max(Duration::from_nanos(1))
}

/// Measures `a = b + s * c` (McCalpin's STREAM triad) in bytes per second. Two arrays are read and one is
/// written; the fetch of a cache line before it is written is not counted.
fn triad(pool: &Pool, working_set: usize) -> f64 {
    let elements = working_set / 3 / size_of::<f32>() / pool.threads();
    type Arrays = [Vec<f32>; 3];
    // Each thread initializes its own arrays, so that the system allocates them in memory near that thread.
    let arrays: Vec<Mutex<Arrays>> = (0..pool.threads()).map(|_| Mutex::default()).collect();
    pool.run(arrays.len(), &|i| {
        *lock(&arrays[i]) = [0.0, 1.0, 2.0].map(|value| vec![value; elements]);
    });
    // Runs of at least about a millisecond, so that the time to wake threads is negligible.
    let repeats = (32_usize << 20).div_ceil(working_set).max(1);
    let time = best(8, || {
        pool.run(arrays.len(), &|i| {
            let [a, b, c] = &mut *lock(&arrays[i]);
            for _ in 0..repeats {
                let factor = black_box(3.0);
                for ((a, b), c) in a.iter_mut().zip(&*b).zip(&*c) {
                    *a = b + factor * c;
                }
                black_box(&mut *a);
            }
        });
    });
    (3 * elements * size_of::<f32>() * pool.threads() * repeats) as f64 / time.as_secs_f64()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Number of independent multiply-add chains. Two units with a latency of four or five cycles need at least
/// ten.
const CHAINS: usize = 12;

/// Number of rounds in one run, about half a millisecond.
const ROUNDS: usize = 100_000;

fn peak(pool: &Pool) -> f64 {
    let (round, lanes) = multiply_and_add();
    let tasks = pool.threads();
    let time = best(20, || pool.run(tasks, &|_| _ = black_box(round(black_box(0.5)))));
    (2 * CHAINS * lanes * ROUNDS * tasks) as f64 / time.as_secs_f64()
}

/// Returns a function that keeps the widest units busy for [`ROUNDS`] rounds, and the number of their lanes.
fn multiply_and_add() -> (fn(f32) -> f32, usize) {
    #[cfg(target_arch = "x86_64")]
    match InstructionSet::detect() {
        InstructionSet::Baseline => (plain::<false>, 4),
        // SAFETY: the machine supports the level, which includes AVX2 and FMA.
        InstructionSet::Avx2 => (|x| unsafe { avx2(x) }, 8),
        InstructionSet::Avx512 | InstructionSet::Avx512Bf16 | InstructionSet::AmxBf16 => {
            // SAFETY: the machine supports the level, which includes AVX-512 F.
            (|x| unsafe { avx512(x) }, 16)
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    (plain::<{ cfg!(target_arch = "aarch64") }>, 4)
}

/// Runs the chains on four lanes with the baseline instruction set. `FUSED` selects fused multiply-adds,
/// which are slow if the instruction set has none.
fn plain<const FUSED: bool>(x: f32) -> f32 {
    let mut chains = [[x; 4]; CHAINS];
    for _ in 0..ROUNDS {
        for lane in chains.as_flattened_mut() {
            *lane = if FUSED { lane.mul_add(x, x) } else { *lane * x + x };
        }
    }
    chains.as_flattened().iter().sum()
}

#[cfg(target_arch = "x86_64")]
macro_rules! fused {
    ($name:ident, $features:literal, $set:ident, $fma:ident, $add:ident, $first:ident) => {
        #[target_feature(enable = $features)]
        fn $name(x: f32) -> f32 {
            use std::arch::x86_64::{$add, $first, $fma, $set};
            let factor = $set(x);
            let mut chains = [factor; CHAINS];
            for _ in 0..ROUNDS {
                for chain in &mut chains {
                    *chain = $fma(*chain, factor, factor);
                }
            }
            $first(chains.into_iter().reduce(|a, b| $add(a, b)).unwrap_or(factor))
        }
    };
}
#[cfg(target_arch = "x86_64")]
fused!(avx512, "avx512f", _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_cvtss_f32);
#[cfg(target_arch = "x86_64")]
fused!(avx2, "avx2,fma", _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_cvtss_f32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_converge_to_what_they_compute() {
        let (round, lanes) = multiply_and_add();
        // Each chain converges to the fixed point 1 of y = y / 2 + 1 / 2.
        let sum = round(0.5);
        assert!(sum == CHAINS as f32 || sum == (4 * CHAINS) as f32, "{sum} of {lanes} lanes");
        assert_eq!(plain::<false>(0.5), (4 * CHAINS) as f32);
    }

    #[test]
    fn working_sets_ascend_and_end_beyond_the_caches() {
        for threads in [1, 2, 7, 64, 1024] {
            let sets = working_sets(threads);
            assert!(sets.is_sorted() && sets.len() >= 2, "{threads}: {sets:?}");
            assert!(sets[0] == threads * 196_608 && *sets.last().unwrap() >= 384 << 20);
        }
    }

    #[test]
    fn the_bound_of_a_kernel_is_the_stricter_one() {
        let bandwidth = vec![(10, 50.0), (1000, 5.0)];
        let roofline = Roofline { threads: 1, flops: 100.0, bandwidth, products: Some(1000.0) };
        assert_eq!(
            [0, 10, 11, 1000, 5000].map(|bytes| roofline.bandwidth_for(bytes)),
            [50.0, 50.0, 5.0, 5.0, 5.0]
        );
        assert_eq!(roofline.seconds(200, 10), 2.0);
        assert_eq!(roofline.seconds(200, 100), 20.0);
        assert_eq!(roofline.product_seconds(2000, 10), 2.0);
    }
}
