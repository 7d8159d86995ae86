//! Measurement of a kernel's time for each of several choices.
//!
//! In: a device, and the shaders of a kernel for each choice. Out: a time for each choice, measured by the
//! device's clock if it has one and otherwise by the host's. Invariant: the shaders are those that programs
//! run, except that products have no epilogue; operands are random numbers; a choice whose results differ
//! from those of the first choice is not timed.

use super::super::gpu::Gpu;
use super::super::load::bind;
use super::super::pipelines::Pipeline;
use super::super::timestamps::Queries;
use super::values::{Values, agree};
use gradloom_codegen::wgsl::tuning::Alone;
use gradloom_codegen::wgsl::{Dispatch, Operands};
use gradloom_core::error::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgpu::{
    BindGroup, CommandEncoderDescriptor, ComputePassDescriptor, ComputePassTimestampWrites, Features,
};

/// Duration of the warm-up, during which a device raises the clock rate that it lowers when idle.
const WARM: Duration = Duration::from_millis(300);
/// Approximate duration of a measured pass, which repeats a kernel.
const PASS: Duration = Duration::from_millis(2);
/// Maximum number of repetitions in a pass.
const REPEATS: u32 = 50;
/// Number of passes of each choice. The choices alternate, so that a temporary disturbance affects all of
/// them.
const ROUNDS: usize = 5;
/// Multiple of the fastest choice's time in the first pass above which a choice is not measured again.
const HOPELESS: u32 = 3;

/// A kernel on a device.
pub(super) struct Bench {
    gpu: Arc<Gpu>,
    clock: Option<Queries>,
    ready: Vec<Ready>,
}

/// The dispatches of one choice.
struct Ready {
    dispatches: Vec<Encodable>,
    /// True if the results agree with those of the first choice.
    agrees: bool,
}

/// A dispatch that can be encoded.
struct Encodable {
    pipeline: Arc<Pipeline>,
    bindings: BindGroup,
    workgroups: [u32; 3],
}

impl Bench {
    /// Creates the pipelines and the memory of a kernel and runs each choice once, so that the driver's lazy
    /// initialization, and any failure of it, precedes the measurement. `tolerance` is the maximum difference
    /// from the results of the first choice, relative to the largest result.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, the driver rejects a shader, or the device is lost.
    pub(super) fn new(gpu: Arc<Gpu>, mut all: Vec<Alone>, tolerance: f32) -> Result<Self> {
        if let Some(change) = gpu.dispatch {
            all.iter_mut().flat_map(|alone| &mut alone.dispatches).for_each(change);
        }
        let dispatches: Vec<(&Operands, &Dispatch)> =
            all.iter().flat_map(|a| a.dispatches.iter().map(|dispatch| (&a.operands, dispatch))).collect();
        let mut pipelines = gpu.pipelines.get(&gpu, &dispatches, |_, error| error)?.into_iter();
        gpu.check()?;
        let values = Values::new(&gpu, &all)?;
        let has_clock = gpu.device.features().contains(Features::TIMESTAMP_QUERY);
        let clock = has_clock.then(|| Queries::new(&gpu, 2)).transpose()?;
        let mut bench = Self { gpu, clock, ready: Vec::new() };
        let mut first: Option<Vec<f32>> = None;
        for (i, alone) in all.iter().enumerate() {
            let dispatches = alone.dispatches.iter().map(|dispatch| {
                let pipeline = pipelines.next().expect("a pipeline for each dispatch");
                let places = dispatch.bindings.iter().map(|bound| {
                    let (memory, range) = values.place(&alone.operands, bound);
                    (&memory.buffer, range.start, (range.end - range.start).next_multiple_of(4))
                });
                let bindings = bind(&bench.gpu, &pipeline, None, places);
                Encodable { pipeline, bindings, workgroups: dispatch.workgroups }
            });
            let dispatches = dispatches.collect();
            bench.ready.push(Ready { dispatches, agrees: true });
            values.clear(alone)?;
            bench.time(i, 1)?;
            let results = values.results(alone)?;
            match &first {
                None => first = Some(results),
                Some(first) => bench.ready[i].agrees = agree(&results, first, tolerance),
            }
        }
        Ok(bench)
    }

    /// Returns the number of choices whose results differ from those of the first choice.
    pub(super) fn wrong(&self) -> usize {
        self.ready.iter().filter(|ready| !ready.agrees).count()
    }

    /// Returns the median time of each choice, in order; [`Duration::MAX`] for choices that were ruled out.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub(super) fn times(&self) -> Result<Vec<Duration>> {
        let began = Instant::now();
        while !self.gpu.limits.software && began.elapsed() < WARM {
            self.time(0, REPEATS)?;
        }
        let first: Result<Vec<Duration>> = (0..self.ready.len()).map(|i| self.time(i, 1)).collect();
        let first = first?;
        let agree = |(i, _): &(usize, &Duration)| self.ready[*i].agrees;
        let least = first.iter().enumerate().filter(agree).map(|(_, &once)| once).min();
        let least = least.unwrap_or_default().max(Duration::from_micros(1));
        let mut all: Vec<Vec<Duration>> = vec![Vec::new(); first.len()];
        for _ in 0..ROUNDS {
            let worth = |(_, once): &(usize, &Duration)| **once <= HOPELESS * least;
            for (i, &once) in first.iter().enumerate().filter(agree).filter(worth) {
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

    /// Returns the mean time of a choice in a pass that runs it `repeats` times.
    fn time(&self, choice: usize, repeats: u32) -> Result<Duration> {
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        {
            let timestamp_writes = self.clock.as_ref().map(|clock| ComputePassTimestampWrites {
                query_set: &clock.set,
                beginning_of_pass_write_index: Some(0),
                end_of_pass_write_index: Some(1),
            });
            let mut pass =
                encoder.begin_compute_pass(&ComputePassDescriptor { label: None, timestamp_writes });
            for _ in 0..repeats {
                for dispatch in &self.ready[choice].dispatches {
                    let Encodable { pipeline, bindings, workgroups: [x, y, z] } = dispatch;
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
            Some(clock) => clock.read(&self.gpu, submission)?[1],
            None => {
                self.gpu.wait(submission)?;
                began.elapsed()
            }
        };
        self.gpu.check()?;
        Ok(took / repeats)
    }
}
