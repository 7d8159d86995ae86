//! Launches that the host runs in the middle of a step: users' ops without kernels for GPUs.
//!
//! In: the commands of a step up to such a launch. Out: its results on the device, for the commands that
//! follow. The step is cut there: the commands so far are submitted, and the host waits for the operands.
//! Always holds: an op is not called once its step has trapped, and one that fails ends the step before its
//! commit.

use super::download::Download;
use super::gpu::Gpu;
use super::memory::{on_device, staging};
use super::program::Ready;
use crate::host_op::run_on_host;
use crate::program::trap;
use crate::webgpu::{Regions, STATUS_BYTES};
use gradloom_codegen::simt::custom::on_host;
use gradloom_codegen::wgsl::{Owner, Status};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{CustomOp, DType, Graph};
use gradloom_core::kernel::Access;
use gradloom_core::plan::{Plan, Region};
use std::ops::Range;
use std::sync::Arc;
use wgpu::{CommandEncoder, CommandEncoderDescriptor};

/// A launch of the step.
#[derive(Debug)]
pub(super) struct HostLaunch {
    /// Its number in the plan.
    pub(super) launch: usize,
    /// The number of the step's dispatch before which it runs.
    pub(super) before: usize,
    op: Arc<dyn CustomOp>,
    reads: Vec<Span>,
    writes: Vec<Span>,
}

/// Row-major elements in a region.
#[derive(Debug)]
struct Span {
    dtype: DType,
    elements: usize,
    region: Region,
    bytes: Range<usize>,
}

impl Span {
    fn new(plan: &Plan, access: &Access) -> Self {
        assert!(access.layout.is_contiguous(), "operands of a host's op were copied; please report this");
        let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
        let (size, elements) = (access.dtype.bytes(), access.layout.shape.elements());
        let start = buffer.offset + access.layout.offset * size;
        let bytes = start..start + elements * size;
        Self { dtype: access.dtype, elements, region: buffer.region, bytes }
    }

    /// The whole words that have its bytes.
    fn words(&self) -> Range<usize> {
        self.bytes.start / 4 * 4..self.bytes.end.next_multiple_of(4)
    }

    /// Memory of the host for its elements, aligned to any dtype.
    fn on_host(&self) -> Result<Vec<u64>> {
        let (bytes, mut words) = (self.bytes.len(), Vec::new());
        let words_needed = bytes.div_ceil(8);
        words.try_reserve_exact(words_needed).map_err(|_| {
            Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of an op on the host"))
        })?;
        words.resize(words_needed, 0);
        Ok(words)
    }
}

/// The launches of a step that the host runs, in order.
pub(super) fn host_launches(graph: &Graph, plan: &Plan, steps: &[Ready]) -> Vec<HostLaunch> {
    let spans = |all: &[Access]| all.iter().map(|access| Span::new(plan, access)).collect();
    let launches = plan.launches.iter().enumerate();
    let hosted = launches.filter_map(|(number, launch)| Some((number, launch, on_host(launch, graph)?)));
    hosted
        .map(|(number, launch, op)| HostLaunch {
            launch: number,
            before: steps.partition_point(|step| match step.owner {
                Owner::Launch(other) => other < number,
                // A user's op can trap, so it is never part of the commit.
                Owner::Guards => false,
                Owner::Hoisted(_) => true,
            }),
            op: Arc::clone(op),
            reads: spans(&launch.reads),
            writes: spans(&launch.writes),
        })
        .collect()
}

impl HostLaunch {
    /// Submits the commands so far, runs the op on what they left, and gives an encoder for those that
    /// follow.
    ///
    /// # Errors
    /// The op's own, as a trap; a lost device; missing memory.
    pub(super) fn run(
        &self,
        gpu: &Gpu,
        memory: &Regions,
        mut encoder: CommandEncoder,
    ) -> Result<CommandEncoder> {
        let mut ends = vec![STATUS_BYTES];
        for read in &self.reads {
            ends.push(ends[ends.len() - 1] + read.words().len());
        }
        let staging = staging(gpu, ends[self.reads.len()])?;
        let status = &on_device(memory.status()).buffer;
        encoder.copy_buffer_to_buffer(status, 0, &staging, 0, STATUS_BYTES as u64);
        for (read, &to) in self.reads.iter().zip(&ends) {
            let words = read.words();
            if !words.is_empty() {
                let (from, start) = memory.place(read.region, words.start);
                let from = &on_device(from).buffer;
                encoder.copy_buffer_to_buffer(from, start as u64, &staging, to as u64, words.len() as u64);
            }
        }
        let submission = gpu.submit(encoder)?;
        let mut operands: Vec<Vec<u64>> = self.reads.iter().map(Span::on_host).collect::<Result<_>>()?;
        let (status, _) = Download::new(staging, submission).read(gpu, |bytes| {
            for ((read, &at), operand) in self.reads.iter().zip(&ends).zip(&mut operands) {
                let at = at + (read.bytes.start - read.words().start);
                copy(&bytes[at..at + read.bytes.len()], operand);
            }
            Status::new(bytes)
        })?;
        if status.trap().is_none() {
            self.call(memory, &operands)?;
        }
        Ok(gpu.device.create_command_encoder(&CommandEncoderDescriptor::default()))
    }

    /// Calls the op, and writes its results.
    fn call(&self, memory: &Regions, operands: &[Vec<u64>]) -> Result<()> {
        let mut results: Vec<Vec<u64>> = self.writes.iter().map(Span::on_host).collect::<Result<_>>()?;
        let reads = self.reads.iter().zip(operands);
        let reads = reads.map(|(span, words)| (span.dtype, words.as_ptr().cast(), span.elements));
        let writes = self.writes.iter().zip(&mut results);
        let writes = writes.map(|(span, words)| (span.dtype, words.as_mut_ptr().cast(), span.elements));
        // SAFETY: each vector has the bytes of its span, initialised, and is aligned to eight.
        unsafe { run_on_host(&*self.op, reads, writes) }.map_err(trap)?;
        for (span, words) in self.writes.iter().zip(&results) {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            bytes.truncate(span.bytes.len());
            if !bytes.is_empty() {
                let (to, start) = memory.place(span.region, span.bytes.start);
                to.write(start, &bytes)?;
            }
        }
        Ok(())
    }
}

/// Fills words with bytes, in the machine's order.
fn copy(bytes: &[u8], words: &mut [u64]) {
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(whole);
    }
}
