//! Launches that the host runs in the middle of a step: custom ops without GPU kernels.
//!
//! In: the plan of a step. Out: for each such launch, the bytes of its operands and results, and a method to
//! call the op. Invariant: results are written only if the op succeeds.

use super::{Regions, Results};
use crate::host::run_on_host;
use crate::memory::counted;
use crate::outcome::trap;
use gradloom_codegen::simt::custom::on_host;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{CustomOp, DType, Graph};
use gradloom_core::kernel::Access;
use gradloom_core::plan::{Plan, Region};
use std::ops::Range;
use std::sync::Arc;

/// A launch of a step that runs on the host.
#[derive(Debug)]
pub struct HostLaunch {
    /// Index of the launch in the plan.
    pub launch: usize,
    /// Index of the kernel in the step before which the launch runs.
    pub before: usize,
    op: Arc<dyn CustomOp>,
    /// Operands of the op.
    pub reads: Vec<Span>,
    writes: Vec<Span>,
}

/// Contiguous row-major elements in a region.
#[derive(Debug)]
pub struct Span {
    dtype: DType,
    elements: usize,
    /// Region that contains the elements.
    pub region: Region,
    /// Byte range of the elements in the region.
    pub bytes: Range<u64>,
}

impl Span {
    fn new(plan: &Plan, access: &Access) -> Self {
        assert!(access.layout.is_contiguous(), "operands of a host's op were copied; please report this");
        let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
        let elements = access.layout.shape.elements();
        let start = buffer.offset + access.start();
        let bytes = start..start + elements as u64 * access.dtype.bytes() as u64;
        Self { dtype: access.dtype, elements, region: buffer.region, bytes }
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> usize {
        counted(self.bytes.end - self.bytes.start)
    }

    /// Returns the byte range extended to whole 4-byte words.
    pub fn words(&self) -> Range<u64> {
        self.bytes.start / 4 * 4..self.bytes.end.next_multiple_of(4)
    }

    /// Allocates zeroed host memory for the elements, aligned for every dtype.
    pub fn on_host(&self) -> Result<Vec<u64>> {
        let (bytes, mut words) = (self.length(), Vec::new());
        let words_needed = bytes.div_ceil(8);
        words.try_reserve_exact(words_needed).map_err(|_| {
            Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of an op on the host"))
        })?;
        words.resize(words_needed, 0);
        Ok(words)
    }

    /// Copies bytes in native order into memory from [`Span::on_host`].
    pub fn fill(bytes: &[u8], words: &mut [u64]) {
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
    }
}

/// Returns the launches of a step that the host runs. `at` contains, for each, its index in the plan and the
/// index of the kernel in the step before which it runs.
pub fn host_launches(
    graph: &Graph,
    plan: &Plan,
    at: impl IntoIterator<Item = (usize, usize)>,
) -> Vec<HostLaunch> {
    let spans = |all: &[Access]| all.iter().map(|access| Span::new(plan, access)).collect();
    let host = |(number, before): (usize, usize)| {
        let launch = &plan.launches[number];
        let op = Arc::clone(on_host(launch, graph).expect("the host runs it"));
        HostLaunch { launch: number, before, op, reads: spans(&launch.reads), writes: spans(&launch.writes) }
    };
    at.into_iter().map(host).collect()
}

impl HostLaunch {
    /// Calls the op and writes its results. `results` are those of the program.
    ///
    /// # Errors
    /// Returns an error if the op fails (a trap), the device is lost, or there is not enough memory.
    pub fn call(&self, memory: &Regions, results: &Results, operands: &[Vec<u64>]) -> Result<()> {
        let mut values: Vec<Vec<u64>> = self.writes.iter().map(Span::on_host).collect::<Result<_>>()?;
        let reads = self.reads.iter().zip(operands);
        let reads = reads.map(|(span, words)| (span.dtype, words.as_ptr().cast(), span.elements));
        let writes = self.writes.iter().zip(&mut values);
        let writes = writes.map(|(span, words)| (span.dtype, words.as_mut_ptr().cast(), span.elements));
        // SAFETY: each vector holds at least the bytes of its span, initialized and aligned to 8 bytes.
        let done = unsafe { run_on_host(&*self.op, reads, writes) };
        done.map_err(|message| results.at(self.launch, trap(message)))?;
        for (span, words) in self.writes.iter().zip(&values) {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            bytes.truncate(span.length());
            if !bytes.is_empty() {
                let (to, start) = memory.place(span.region, span.bytes.start);
                to.write(start, &bytes)?;
            }
        }
        Ok(())
    }
}
