//! Failures of a program's steps, read from the status of any step.
//!
//! In: the status after a step, with steps in any order. Out: the failures that no earlier read reported.
//! Invariant: each failure is reported once, and the device keeps its records until they are read here.

use crate::memory::Memory;
use gradloom_codegen::step::{ACKNOWLEDGED, Failure, STATUS_WORDS, STEP_WORDS, Status};
use std::sync::{Arc, Mutex, PoisonError};

/// Size of the status in bytes.
pub const STATUS_BYTES: usize = 4 * STATUS_WORDS;
/// Size in bytes of the part of the status that is cleared when a step starts.
pub const STEP_BYTES: u64 = 4 * STEP_WORDS as u64;

/// Counter of the failures of a program that the host has acknowledged.
#[derive(Debug)]
pub(super) struct FailureLog {
    count: Mutex<u32>,
    status: Arc<Memory>,
}

impl FailureLog {
    pub(super) fn new(status: &Arc<Memory>) -> Self {
        Self { count: Mutex::default(), status: Arc::clone(status) }
    }

    /// Returns the new failures in order, each with the number of new failures before it that have no
    /// record.
    pub(super) fn news(&self, status: &Status) -> Vec<(Failure, u32)> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut news = Vec::new();
        for failure in status.failures_from(*count) {
            news.push((failure, failure.number - *count));
            *count = failure.number + 1;
        }
        if !news.is_empty() {
            // Acknowledge the records, so that later steps may overwrite them. Steps in flight run before
            // this write. If the device is lost, the next call reports it.
            let _ = self.status.write(4 * ACKNOWLEDGED, &count.to_le_bytes());
        }
        news
    }
}
