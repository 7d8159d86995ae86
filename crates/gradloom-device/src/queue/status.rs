//! Failures of a program's steps, as read from the status of any step.
//!
//! In: the status as a step left it, in any order of the steps. Out: the failures in it that were in none
//! before. Always holds: each failure comes out once; the device keeps what it recorded until it was read
//! here.

use crate::memory::Memory;
use gradloom_codegen::step::{ACKNOWLEDGED, Failure, STATUS_WORDS, STEP_WORDS, Status};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the status.
pub const STATUS_BYTES: usize = 4 * STATUS_WORDS;
/// Bytes of the status that are cleared when a step starts.
pub const STEP_BYTES: u64 = 4 * STEP_WORDS as u64;

/// Number of a program's failures that the host has acknowledged.
#[derive(Debug)]
pub(super) struct FailureLog {
    count: Mutex<u32>,
    /// The status words on the device.
    status: Arc<Memory>,
}

impl FailureLog {
    pub(super) fn new(status: &Arc<Memory>) -> Self {
        Self { count: Mutex::default(), status: Arc::clone(status) }
    }

    /// The failures that are new, in order, each with the number of those before it that are new and have no
    /// record.
    pub(super) fn news(&self, status: &Status) -> Vec<(Failure, u32)> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut news = Vec::new();
        for failure in status.failures_from(*count) {
            news.push((failure, failure.number - *count));
            *count = failure.number + 1;
        }
        if !news.is_empty() {
            // The next steps may overwrite the records; those in flight come before.
            // A device that takes no more bytes says so at the next call.
            let _ = self.status.write(4 * ACKNOWLEDGED, &count.to_le_bytes());
        }
        news
    }
}
