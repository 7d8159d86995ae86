//! Selection of the fastest cuBLASLt algorithm for each product, measured once.
//!
//! In: a product, and addresses of memory for it. Out: an algorithm. Invariant: a product is computed by the
//! same algorithm every time a program is loaded, so algorithms are measured only if the choice can be
//! cached.

use super::clock::Clock;
use super::driver::{Address, Algorithm, Call, Node, ProductCall};
use super::gpu::Gpu;
use super::graph::Building;
use super::kept::Kept;
use gradloom_codegen::cuda::LibraryProduct;
use gradloom_core::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of algorithms measured.
const MOST: usize = 8;
/// Approximate number of multiplications per timing.
const MULTIPLICATIONS: usize = 1 << 31;
/// Minimum and maximum number of runs per timing.
const RUNS: std::ops::RangeInclusive<usize> = 2..=16;
/// Number of timings, the shortest of which is used.
const ROUNDS: usize = 3;
/// Another algorithm replaces the library's first choice only if it takes less than this fraction of the
/// first choice's time.
const GAIN: f64 = 0.98;

#[derive(Debug)]
pub(super) struct Algorithms {
    known: Mutex<HashMap<LibraryProduct, Algorithm>>,
    kept: Kept,
}

impl Algorithms {
    pub(super) fn new(kept: Kept) -> Self {
        Self { known: Mutex::default(), kept }
    }

    /// Returns the algorithm for a product. Measuring overwrites the result and the scratch.
    ///
    /// # Errors
    /// Returns an error if the library has no algorithm, or the device is lost.
    pub(super) fn get(
        &self,
        gpu: &Arc<Gpu>,
        product: &LibraryProduct,
        addresses: [Address; 5],
    ) -> Result<Algorithm> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(algorithm) = known.get(product) {
            return Ok(*algorithm);
        }
        let products = gpu.products().expect("the program was made for it");
        let (name, version, scratch) = (&gpu.properties.name, products.version(), product.workspace);
        let key =
            format!("{name}\ncuBLASLt {version}, timed in graphs\n{product}\n{scratch} bytes of scratch");
        let kept = self.kept.read("product", &key).and_then(|bytes| unpacked(&bytes));
        let algorithm = match kept {
            Some(algorithm) => algorithm,
            None => {
                let most = if self.kept.folder.is_some() { MOST } else { 1 };
                let all = gpu.ask("choose how to multiply", |_| products.algorithms(product, most))?;
                let algorithm = fastest(gpu, product, &all, addresses)?;
                self.kept.write("product", &key, &algorithm.map(u64::to_le_bytes).concat());
                algorithm
            }
        };
        known.insert(*product, algorithm);
        Ok(algorithm)
    }
}

fn unpacked(bytes: &[u8]) -> Option<Algorithm> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    if rest.is_empty() { words.try_into().ok() } else { None }
}

/// Returns the fastest algorithm, or the first one if no other takes less than [`GAIN`] of its time.
fn fastest(
    gpu: &Arc<Gpu>,
    product: &LibraryProduct,
    all: &[Algorithm],
    addresses: [Address; 5],
) -> Result<Algorithm> {
    let Some((&first, others)) = all.split_first() else {
        return Err(Error::new(ErrorKind::Device, format!("the library has no way for {product}")).help(
            "`CudaOptions::without_cublaslt` computes it by gradloom's own kernels; please report this",
        ));
    };
    if others.is_empty() {
        return Ok(first);
    }
    let mut clock = Clock::new(gpu);
    let mut time = |&algorithm: &Algorithm| {
        time(gpu, &mut clock, ProductCall { product: *product, algorithm, addresses })
    };
    let (mut best, mut least) = (first, GAIN * time(&first)?);
    for algorithm in others {
        // Skip an algorithm that the library offers but then rejects.
        let Ok(taken) = time(algorithm) else {
            gpu.check()?;
            continue;
        };
        if taken < least {
            (best, least) = (*algorithm, taken);
        }
    }
    Ok(best)
}

/// Returns the fastest measured time of a product in seconds. Runs are chained in one CUDA graph, because
/// launching a small product takes longer than computing it.
fn time(gpu: &Gpu, clock: &mut Clock, call: ProductCall) -> Result<f64> {
    let LibraryProduct { batch, m, n, k, .. } = call.product;
    let call = Call::Product(call);
    let runs = (MULTIPLICATIONS / (batch * m * n * k)).clamp(*RUNS.start(), *RUNS.end());
    let building = Building::new(gpu)?;
    let mut last: Option<Node> = None;
    for _ in 0..runs {
        last = Some(building.add(last.as_slice(), false, &call)?);
    }
    let graph = building.ready()?;
    let mut least = f64::INFINITY;
    let mut round = || -> Result<f64> {
        clock.set(0)?;
        gpu.ask("multiply", |driver| driver.launch_graph(graph.exec, gpu.stream))?;
        clock.set(1)?;
        Ok(clock.between(0, 1)?.as_secs_f64())
    };
    // Ignore the first round, which warms up the device.
    let timed =
        round().and_then(|_| (0..ROUNDS).try_for_each(|_| round().map(|taken| least = least.min(taken))));
    gpu.give_back(|driver| graph.destroy(driver));
    timed.map(|()| least / runs as f64)
}
