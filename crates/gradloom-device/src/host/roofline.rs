//! Limits of a device, and a measurement of the processor's limits: multiplications and additions per
//! second, and bytes per second.
//!
//! In: a number of threads. Out: a [`Roofline`], measured in about a second. Always holds: every number is
//! the best of several runs on the threads of a [`Pool`], as kernels use them; other work on the machine
//! makes them too low, never too high. Williams, Waterman, Patterson (2009): a kernel takes at least flops /
//! peak and bytes / bandwidth.

use super::Pool;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The bounds of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// Threads that it holds for; 1 of a GPU.
    pub threads: usize,
    /// Floating-point operations a second in f32, a fused multiplication and addition counted as two.
    pub flops: f64,
    /// (bytes that are gone through again and again, bytes a second), ascending in the bytes; the last one is
    /// beyond the caches.
    pub bandwidth: Vec<(u64, f64)>,
    /// Operations a second in products and attention, where they are computed in another type than f32.
    pub products: Option<f64>,
}

impl Roofline {
    /// Measures this machine.
    pub fn measure(threads: usize) -> Self {
        let pool = Pool::new(threads);
        let threads = pool.threads();
        let bandwidth =
            working_sets(threads).into_iter().map(|set| (set as u64, triad(&pool, set))).collect();
        Self { threads, flops: peak(&pool), bandwidth, products: None }
    }

    /// Returns the bytes a second for a kernel that moves `bytes` bytes: that of the smallest working set
    /// that holds them.
    pub fn bandwidth_for(&self, bytes: u64) -> f64 {
        let fits = self.bandwidth.iter().find(|(set, _)| *set >= bytes);
        fits.or(self.bandwidth.last()).map_or(f64::INFINITY, |(_, rate)| *rate)
    }

    /// Returns the minimum seconds that a kernel takes.
    pub fn seconds(&self, flops: u64, bytes: u64) -> f64 {
        self.at_rate(self.flops, flops, bytes)
    }

    /// Returns the minimum seconds that a product takes.
    pub fn product_seconds(&self, flops: u64, bytes: u64) -> f64 {
        self.at_rate(self.products.unwrap_or(self.flops), flops, bytes)
    }

    fn at_rate(&self, rate: f64, flops: u64, bytes: u64) -> f64 {
        (flops as f64 / rate).max(bytes as f64 / self.bandwidth_for(bytes))
    }
}

/// Returns sizes in bytes from the caches next to the cores to the memory.
fn working_sets(threads: usize) -> Vec<usize> {
    // 192 KiB a thread lie in the second-level caches of the last ten years. What cores share grows with
    // their number, but a machine with very many of them has other uses for its memory.
    let near = threads * (192 << 10);
    let far = (threads * (24 << 20)).clamp(384 << 20, 4 << 30);
    let mut sets: Vec<usize> =
        std::iter::successors(Some(near), |set| Some(set * 4)).take_while(|&set| 2 * set < far).collect();
    sets.push(far);
    sets
}

/// Returns the least of several times.
fn best(runs: usize, mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let began = Instant::now();
        run();
        began.elapsed()
    };
    (0..runs).map(time).min().unwrap_or(Duration::MAX).max(Duration::from_nanos(1))
}

/// Measures `a = b + s * c` (McCalpin's STREAM) in bytes a second, two arrays read and one written; that a
/// cache line is fetched before it is written is not counted.
fn triad(pool: &Pool, working_set: usize) -> f64 {
    let elements = working_set / 3 / size_of::<f32>() / pool.threads();
    type Arrays = [Vec<f32>; 3];
    // Filled by the threads, so that the system places them near those that will use them, more or less.
    let arrays: Vec<Mutex<Arrays>> = (0..pool.threads()).map(|_| Mutex::default()).collect();
    pool.run(arrays.len(), &|i| {
        *lock(&arrays[i]) = [0.0, 1.0, 2.0].map(|value| vec![value; elements]);
    });
    // At least a millisecond's worth, so that waking threads does not count.
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

/// Chains of multiplications and additions: two units with a latency of four or five want at least ten at a
/// time.
const CHAINS: usize = 12;

/// Rounds of one run: about half a millisecond.
const ROUNDS: usize = 100_000;

fn peak(pool: &Pool) -> f64 {
    let (round, lanes) = multiply_and_add();
    let tasks = pool.threads();
    let time = best(20, || pool.run(tasks, &|_| _ = black_box(round(black_box(0.5)))));
    (2 * CHAINS * lanes * ROUNDS * tasks) as f64 / time.as_secs_f64()
}

/// Returns the function that keeps the widest units busy for [`ROUNDS`] rounds, and how many elements they
/// take at once.
fn multiply_and_add() -> (fn(f32) -> f32, usize) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the machine has it.
            return (|x| unsafe { avx512(x) }, 16);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the machine has them.
            return (|x| unsafe { avx2(x) }, 8);
        }
        (plain::<false>, 4)
    }
    #[cfg(not(target_arch = "x86_64"))]
    (plain::<{ cfg!(target_arch = "aarch64") }>, 4)
}

/// Four lanes in what the crate was compiled for; fused where that is an instruction.
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
        // y = y / 2 + 1 / 2 ends at 1, in each chain.
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
