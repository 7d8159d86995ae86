//! Times of a step's dispatches, by the device's clock.
//!
//! In: the encoder of a step, while profiling is on. Out: the span of each launch. Such a step is waited for;
//! a device that cannot write timestamps inside of a pass has no spans.

use super::download::Download;
use super::gpu::Gpu;
use super::memory::staging;
use crate::profile::Spans;
use gradloom_core::error::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};
use wgpu::{
    Buffer, BufferUsages, CommandEncoder, ComputePass, Features, QuerySet, QuerySetDescriptor, QueryType,
    SubmissionIndex,
};

/// Queries of a set, at most.
const QUERIES: usize = wgpu::QUERY_SET_MAX_QUERIES as usize;

/// A clock for the dispatches of a program.
pub(super) struct Timestamps {
    queries: QuerySet,
    resolved: Buffer,
    staging: Buffer,
    count: usize,
}

impl Timestamps {
    /// For so many dispatches; `None` where the device cannot time them, or there are too many.
    pub(super) fn new(gpu: &Gpu, dispatches: usize) -> Result<Option<Self>> {
        let count = dispatches + 1;
        if !gpu.device.features().contains(Features::TIMESTAMP_QUERY_INSIDE_PASSES) || count > QUERIES {
            return Ok(None);
        }
        let descriptor = QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count: count as u32 };
        let usage = BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC;
        let resolved = gpu
            .buffer("gradloom timestamps", 8 * count, usage)
            .ok_or_else(|| Error::new(ErrorKind::Device, "no memory for timestamps on the GPU"))?;
        let queries = gpu.device.create_query_set(&descriptor);
        Ok(Some(Self { queries, resolved, staging: staging(gpu, 8 * count)?, count }))
    }

    /// Notes the time in a pass, as number `at`: 0 before the first dispatch, and so on.
    pub(super) fn note(&self, pass: &mut ComputePass<'_>, at: usize) {
        pass.write_timestamp(&self.queries, at as u32);
    }

    /// Copies the times to the host's buffer, at the end of a step.
    pub(super) fn resolve(&self, encoder: &mut CommandEncoder) {
        encoder.resolve_query_set(&self.queries, 0..self.count as u32, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.staging, 0, 8 * self.count as u64);
    }

    /// Waits for a step, and adds its spans; `launches` has the launch of each dispatch, none for the guards.
    /// Not to be used again after an error.
    pub(super) fn read(
        &self,
        gpu: &Gpu,
        submission: SubmissionIndex,
        launches: &[Option<usize>],
        profile: &mut Spans,
    ) -> Result<()> {
        let period = f64::from(gpu.queue.get_timestamp_period());
        let words = |bytes: &[u8]| -> Vec<u64> {
            bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect()
        };
        let (times, _) = Download::new(self.staging.clone(), submission).read(gpu, words)?;
        let span =
            |from: u64, to: u64| Duration::from_nanos((to.saturating_sub(from) as f64 * period) as u64);
        let start = Instant::now();
        let mut last: Option<(usize, Duration, Duration)> = None;
        for (pair, launch) in times.windows(2).zip(launches) {
            let (began, took) = (span(times[0], pair[0]), span(pair[0], pair[1]));
            last = match (last, launch) {
                (Some((known, began, sum)), Some(launch)) if known == *launch => {
                    Some((known, began, sum + took))
                }
                (previous, launch) => {
                    previous
                        .into_iter()
                        .for_each(|(launch, began, took)| profile.add(launch, start + began, took));
                    launch.map(|launch| (launch, began, took))
                }
            };
        }
        last.into_iter().for_each(|(launch, began, took)| profile.add(launch, start + began, took));
        Ok(())
    }
}
