//! How long a product takes by each of some choices.
//!
//! In: a device, a problem, choices. Out: a time for each, by the device's clock where it has one. Always holds: the shaders are those that programs
//! run, without what follows from the product; operands are random numbers.

use super::super::download::Download;
use super::super::gpu::Gpu;
use super::super::memory::staging;
use super::super::pipelines::Pipeline;
use gradloom_codegen::cpu::DotProblem;
use gradloom_codegen::wgsl::dot::Choice;
use gradloom_codegen::wgsl::{Bound, Dispatch, Limits, Operands, Shaders, product_alone};
use gradloom_core::error::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding, BufferUsages,
    CommandEncoderDescriptor, ComputePassDescriptor, ComputePassTimestampWrites, Features, QuerySet,
    QuerySetDescriptor, QueryType,
};

/// A device lowers its clock when it is idle, and takes this long to raise it.
const WARM: Duration = Duration::from_millis(300);
/// A measured pass repeats a product for about as long as this, at most `REPEATS` times.
const PASS: Duration = Duration::from_millis(2);
const REPEATS: u32 = 50;
/// Passes of each choice, in turns: what disturbs the machine for a while disturbs all of them.
const ROUNDS: usize = 5;
/// A choice that once took so many times as long as the fastest is measured no more.
const HOPELESS: u32 = 3;
/// Bytes of random numbers, which are repeated.
const PATTERN: usize = 1 << 20;

/// A product's operands on a device, and what computes it.
pub(super) struct Bench<'p> {
    gpu: Arc<Gpu>,
    problem: &'p DotProblem,
    limits: Limits,
    clock: Option<Clock>,
    ready: Vec<Vec<Ready>>,
}

/// A dispatch that can be encoded.
struct Ready {
    pipeline: Arc<Pipeline>,
    bindings: BindGroup,
    workgroups: [u32; 3],
}

impl<'p> Bench<'p> {
    pub(super) fn new(gpu: Arc<Gpu>, problem: &'p DotProblem, limits: &Limits) -> Result<Self> {
        let clock = Clock::new(&gpu)?;
        Ok(Self { gpu, problem, limits: *limits, clock, ready: Vec::new() })
    }

    /// Makes the pipelines of some choices, and memory.
    ///
    /// # Errors
    /// When there is not enough memory; when the driver refuses a shader, or the device is lost over it.
    pub(super) fn prepare(&mut self, choices: &[Choice]) -> Result<()> {
        let shaders: Vec<Shaders> =
            choices.iter().map(|choice| product_alone(self.problem, choice, &self.limits)).collect();
        let all: Vec<(&Operands, &Dispatch)> = shaders
            .iter()
            .flat_map(|shaders| shaders.dispatches.iter().map(|dispatch| (&shaders.operands, dispatch)))
            .collect();
        let mut pipelines = self.gpu.pipelines.get(&self.gpu, &all, |_, error| error)?.into_iter();
        self.gpu.check()?;
        let ends = |shaders: &Shaders| shaders.operands.bindings.last().map_or(0, |last| last.range.end);
        let scratch = all.iter().flat_map(|(_, dispatch)| &dispatch.bindings).map(|bound| match bound {
            Bound::Workspace(range) => range.end,
            _ => 0,
        });
        let scratch = self.buffer(scratch.max().unwrap_or(0))?;
        let arena = self.buffer(shaders.first().map_or(0, ends))?;
        self.fill(&arena)?;
        for shaders in &shaders {
            let ready = shaders.dispatches.iter().map(|dispatch| {
                let pipeline = pipelines.next().expect("a pipeline for each dispatch");
                let bindings = self.bind(&pipeline, &shaders.operands, dispatch, [&arena, &scratch]);
                Ready { pipeline, bindings, workgroups: dispatch.workgroups }
            });
            let ready = ready.collect();
            self.ready.push(ready);
        }
        // Each runs once, so that what a driver does at first is done, and fails here.
        for i in 0..self.ready.len() {
            self.time(i, 1)?;
        }
        Ok(())
    }

    fn buffer(&self, bytes: usize) -> Result<Buffer> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        self.gpu.buffer("gradloom measurement", bytes, usage).ok_or_else(|| {
            Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of operands on the GPU"))
        })
    }

    /// Fills a buffer with numbers in [-1, 1).
    fn fill(&self, buffer: &Buffer) -> Result<()> {
        let mut x = 0x9E37_79B9_7F4A_7C15_u64;
        let pattern: Vec<u8> = (0..PATTERN / 4)
            .flat_map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                ((x >> 40) as f32 / (1_u64 << 23) as f32 - 1.0).to_le_bytes()
            })
            .collect();
        let from = self.buffer(PATTERN)?;
        self.gpu.queue.write_buffer(&from, 0, &pattern);
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        for start in (0..buffer.size()).step_by(PATTERN) {
            let bytes = (buffer.size() - start).min(PATTERN as u64);
            encoder.copy_buffer_to_buffer(&from, 0, buffer, start, bytes);
        }
        self.gpu.queue.submit([encoder.finish()]);
        self.gpu.check()
    }

    fn bind(
        &self,
        pipeline: &Pipeline,
        operands: &Operands,
        dispatch: &Dispatch,
        [arena, scratch]: [&Buffer; 2],
    ) -> BindGroup {
        let resource = |bound: &Bound| {
            let (buffer, range) = match bound {
                Bound::Operand(i) => (arena, operands.bindings[*i].range.clone()),
                Bound::Workspace(range) => (scratch, range.clone()),
                Bound::Piece(i, bytes) => {
                    let start = operands.bindings[*i].range.start;
                    (arena, start + bytes.start..start + bytes.end)
                }
                Bound::Table(_) | Bound::Status { .. } => unreachable!("a product alone has neither"),
            };
            let size = std::num::NonZeroU64::new((range.len() as u64).next_multiple_of(4));
            BindingResource::Buffer(BufferBinding { buffer, offset: range.start as u64, size })
        };
        let entries: Vec<BindGroupEntry<'_>> = dispatch
            .bindings
            .iter()
            .enumerate()
            .map(|(i, bound)| BindGroupEntry { binding: i as u32, resource: resource(bound) })
            .collect();
        self.gpu.device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &pipeline.bindings,
            entries: &entries,
        })
    }

    /// The time of each choice that was prepared, in their order; the longest there is for those that are out of the question.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn times(&self) -> Result<Vec<Duration>> {
        let began = Instant::now();
        while !self.limits.software && began.elapsed() < WARM {
            self.time(0, REPEATS)?;
        }
        let first: Result<Vec<Duration>> = (0..self.ready.len()).map(|i| self.time(i, 1)).collect();
        let first = first?;
        let least = first.iter().min().copied().unwrap_or_default().max(Duration::from_micros(1));
        let mut all: Vec<Vec<Duration>> = vec![Vec::new(); first.len()];
        for _ in 0..ROUNDS {
            for (i, &once) in first.iter().enumerate().filter(|&(_, &once)| once <= HOPELESS * least) {
                let repeats = PASS.as_nanos() / once.as_nanos().max(1);
                all[i].push(self.time(i, repeats.clamp(1, REPEATS.into()) as u32)?);
            }
        }
        let median = |mut times: Vec<Duration>| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or(Duration::MAX)
        };
        Ok(all.into_iter().map(median).collect())
    }

    /// The mean time of a choice over a pass in which it runs so many times.
    fn time(&self, choice: usize, repeats: u32) -> Result<Duration> {
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        {
            let timestamp_writes = self.clock.as_ref().map(Clock::ends);
            let mut pass =
                encoder.begin_compute_pass(&ComputePassDescriptor { label: None, timestamp_writes });
            for _ in 0..repeats {
                for Ready { pipeline, bindings, workgroups: [x, y, z] } in &self.ready[choice] {
                    pass.set_pipeline(&pipeline.pipeline);
                    pass.set_bind_group(0, bindings, &[]);
                    pass.dispatch_workgroups(*x, *y, *z);
                }
            }
        }
        if let Some(clock) = &self.clock {
            clock.resolve(&mut encoder);
        }
        let commands = encoder.finish();
        let began = Instant::now();
        let submission = self.gpu.queue.submit([commands]);
        let took = match &self.clock {
            Some(clock) => clock.read(&self.gpu, submission)?,
            None => {
                self.gpu.wait(submission)?;
                began.elapsed()
            }
        };
        self.gpu.check()?;
        Ok(took / repeats)
    }
}

/// The device's clock, at both ends of a pass.
struct Clock {
    queries: QuerySet,
    resolved: Buffer,
    staging: Buffer,
}

impl Clock {
    /// None on a device that cannot tell.
    fn new(gpu: &Gpu) -> Result<Option<Self>> {
        if !gpu.device.features().contains(Features::TIMESTAMP_QUERY) {
            return Ok(None);
        }
        let descriptor = QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count: 2 };
        let usage = BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC;
        let resolved = gpu
            .buffer("gradloom timestamps", 16, usage)
            .ok_or_else(|| Error::new(ErrorKind::Device, "no memory for timestamps on the GPU"))?;
        Ok(Some(Self {
            queries: gpu.device.create_query_set(&descriptor),
            resolved,
            staging: staging(gpu, 16)?,
        }))
    }

    fn ends(&self) -> ComputePassTimestampWrites<'_> {
        ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        }
    }

    fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.resolve_query_set(&self.queries, 0..2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.staging, 0, 16);
    }

    /// Waits, and gives the time between the ends.
    fn read(&self, gpu: &Gpu, submission: wgpu::SubmissionIndex) -> Result<Duration> {
        let time = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        let ends = |bytes: &[u8]| [time(&bytes[..8]), time(&bytes[8..16])];
        let ([began, ended], _) = Download::new(self.staging.clone(), submission).read(gpu, ends)?;
        let ticks = ended.saturating_sub(began) as f64;
        Ok(Duration::from_nanos((ticks * f64::from(gpu.queue.get_timestamp_period())) as u64))
    }
}
