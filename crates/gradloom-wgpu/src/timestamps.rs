//! Times of a step's dispatches, measured by the device's clock.
//!
//! In: the encoder of a step, while profiling is on. Out: the span of each launch. The host waits for such a
//! step. A device that cannot write timestamps inside a pass reports no spans.

use super::download::Download;
use super::gpu::Gpu;
use super::memory::staging;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_device::spans::Spans;
use std::time::Duration;
use wgpu::{
    Buffer, BufferUsages, CommandEncoder, ComputePass, Features, QuerySet, QuerySetDescriptor, QueryType,
    SubmissionIndex,
};

/// Maximum number of queries in a set.
const QUERIES: usize = wgpu::QUERY_SET_MAX_QUERIES as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    Dispatches,
    Step,
}

/// Timestamp queries of the device, and the memory from which their times are read.
pub(super) struct Queries {
    pub(super) set: QuerySet,
    resolved: Buffer,
    staging: Buffer,
}

impl Queries {
    /// Creates `count` queries, on a device that supports them.
    ///
    /// # Errors
    /// Returns an error if there is no memory for them.
    pub(super) fn new(gpu: &Gpu, count: usize) -> Result<Self> {
        let descriptor = QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count: count as u32 };
        let usage = BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC;
        let resolved = gpu
            .buffer("gradloom timestamps", 8 * count, usage)
            .ok_or_else(|| Error::new(ErrorKind::Device, "no memory for timestamps on the GPU"))?;
        Ok(Self {
            set: gpu.device.create_query_set(&descriptor),
            resolved,
            staging: staging(gpu, 8 * count)?,
        })
    }

    /// Copies the timestamps to the staging buffer, after all were written.
    pub(super) fn resolve(&self, encoder: &mut CommandEncoder) {
        let bytes = self.staging.size();
        encoder.resolve_query_set(&self.set, 0..(bytes / 8) as u32, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.staging, 0, bytes);
    }

    /// Waits for a submission and returns its times relative to the first one. After an error, the queries
    /// must not be used again.
    ///
    /// # Errors
    /// Returns an error if the device is lost.
    pub(super) fn read(&self, gpu: &Gpu, submission: SubmissionIndex) -> Result<Vec<Duration>> {
        let period = f64::from(gpu.queue.get_timestamp_period());
        let words = |bytes: &[u8]| -> Vec<u64> {
            bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect()
        };
        let (times, _) = Download::new(self.staging.clone(), submission).read(gpu, words)?;
        let since = |time: u64| Duration::from_nanos((time.saturating_sub(times[0]) as f64 * period) as u64);
        Ok(times.iter().map(|&time| since(time)).collect())
    }
}

pub(super) struct Timestamps {
    pub(super) queries: Queries,
    pub(super) timed: Timed,
    dispatches: usize,
}

impl Timestamps {
    /// Creates queries for `dispatches` dispatches; returns `None` if the device does not support timestamps,
    /// or there are no dispatches or too many.
    pub(super) fn new(gpu: &Gpu, timed: Timed, dispatches: usize) -> Result<Option<Self>> {
        let count = match timed {
            Timed::Dispatches => dispatches + 1,
            Timed::Step => 2,
        };
        let can = gpu.device.features().contains(Features::TIMESTAMP_QUERY_INSIDE_PASSES);
        if !can || dispatches == 0 || count > QUERIES {
            return Ok(None);
        }
        Ok(Some(Self { queries: Queries::new(gpu, count)?, timed, dispatches }))
    }

    /// Records the time in a pass at point `at`: 0 is before the first dispatch, 1 after it, and so on.
    pub(super) fn note(&self, pass: &mut ComputePass<'_>, at: usize) {
        let query = match self.timed {
            Timed::Dispatches => at,
            Timed::Step if at == 0 => 0,
            Timed::Step if at == self.dispatches => 1,
            Timed::Step => return,
        };
        pass.write_timestamp(&self.queries.set, query as u32);
    }
}

/// Adds the spans of a step from the times between its dispatches. `launches` contains the launch of each
/// dispatch, `None` for the guards.
pub(super) fn add_spans(times: &[Duration], launches: &[Option<usize>], profile: &mut Spans) {
    let span = |(pair, launch): (&[Duration], &Option<usize>)| {
        launch.map(|launch| (launch, pair[0], pair[1].saturating_sub(pair[0])))
    };
    profile.add_all(times.windows(2).zip(launches).filter_map(span));
}
