//! Time measurement by the device's clock.
//!
//! In: a device with timestamps, and the encoder of a pass. Out: the duration of the pass.

use super::super::download::Download;
use super::super::gpu::Gpu;
use super::super::memory::staging;
use gradloom_core::error::{Error, ErrorKind, Result};
use std::time::Duration;
use wgpu::{
    Buffer, BufferUsages, ComputePassTimestampWrites, Features, QuerySet, QuerySetDescriptor, QueryType,
};

/// Timestamp queries at the start and the end of a pass.
pub(super) struct Clock {
    queries: QuerySet,
    resolved: Buffer,
    staging: Buffer,
}

impl Clock {
    /// Creates a clock; returns `None` if the device does not support timestamps.
    pub(super) fn new(gpu: &Gpu) -> Result<Option<Self>> {
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

    pub(super) fn ends(&self) -> ComputePassTimestampWrites<'_> {
        ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        }
    }

    pub(super) fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.resolve_query_set(&self.queries, 0..2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.staging, 0, 16);
    }

    /// Waits for the submission and returns the time between the start and the end of the pass.
    pub(super) fn read(&self, gpu: &Gpu, submission: wgpu::SubmissionIndex) -> Result<Duration> {
        let time = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        let ends = |bytes: &[u8]| [time(&bytes[..8]), time(&bytes[8..16])];
        let ([began, ended], _) = Download::new(self.staging.clone(), submission).read(gpu, ends)?;
        let ticks = ended.saturating_sub(began) as f64;
        Ok(Duration::from_nanos((ticks * f64::from(gpu.queue.get_timestamp_period())) as u64))
    }
}
