//! What a program's steps tell of each other.
//!
//! In: the status as a step left it, in any order of the steps. Out: the failures in it that were in none before. Always holds: each failure comes out
//! once; the device keeps what it recorded until it was read here.

use super::gpu::Gpu;
use gradloom_codegen::wgsl::{Failure, STATUS_WORDS, STEP_WORDS, Status, TOLD};
use std::sync::{Mutex, PoisonError};
use wgpu::Buffer;

/// Bytes of the status.
pub(super) const STATUS_BYTES: usize = 4 * STATUS_WORDS;
/// Those of them that are cleared when a step starts.
pub(super) const STEP_BYTES: u64 = 4 * STEP_WORDS as u64;

/// How many of a program's failures the host knows.
#[derive(Debug)]
pub(super) struct Told {
    count: Mutex<u32>,
    /// On the device.
    status: Buffer,
}

impl Told {
    pub(super) fn new(status: &Buffer) -> Self {
        Self { count: Mutex::default(), status: status.clone() }
    }

    /// The failures that are new, in order, each with the number of those before it that are new and have no record.
    pub(super) fn news(&self, gpu: &Gpu, status: &Status) -> Vec<(Failure, u32)> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut news = Vec::new();
        for failure in status.failures_from(*count) {
            news.push((failure, failure.number - *count));
            *count = failure.number + 1;
        }
        if !news.is_empty() {
            // The next steps may overwrite the records; those in flight come before.
            gpu.queue.write_buffer(&self.status, 4 * TOLD as u64, &count.to_le_bytes());
        }
        news
    }
}
