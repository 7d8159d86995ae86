//! Memory for the results of a program's steps.
//!
//! In: new staging buffers. Out: buffers for the results of a step, and counts of the steps that were read.
//! Invariant: a buffer belongs to one unread step. Where steps run in order, an earlier step whose results
//! are not needed may still write a buffer that was put back.

use super::Results;
use gradloom_core::error::Result;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Staging buffers that were put back, and the layout of results in them.
#[derive(Debug)]
pub struct Stagings<B> {
    results: Results,
    free: Mutex<Vec<B>>,
    readbacks: AtomicUsize,
    /// Number of steps up to and including the last one that was read.
    read: AtomicU64,
}

impl<B> Stagings<B> {
    /// Creates stagings without buffers.
    pub fn new(results: Results) -> Self {
        Self { results, free: Mutex::default(), readbacks: AtomicUsize::new(0), read: AtomicU64::new(0) }
    }

    /// Returns the layout of the results.
    pub fn results(&self) -> &Results {
        &self.results
    }

    /// Returns a buffer that was put back; without one, creates it by `new`, which is given its size in
    /// bytes.
    pub fn take(&self, new: impl FnOnce(usize) -> Result<B>) -> Result<B> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(|| new(self.results.bytes()), Ok)
    }

    /// Takes back a buffer.
    pub fn put_back(&self, staging: B) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(staging);
    }

    /// Counts a step whose results are about to be read.
    pub fn begin_read(&self) {
        self.readbacks.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the results of step `run` were read.
    pub fn end_read(&self, run: u64) {
        self.read.fetch_max(run + 1, Ordering::Relaxed);
    }

    /// Returns `true` if [`end_read`](Self::end_read) was called for the last of `runs` steps, so that the
    /// device is idle.
    pub fn all_read(&self, runs: u64) -> bool {
        self.read.load(Ordering::Relaxed) == runs
    }

    /// Returns the number of steps whose results were read.
    pub fn readbacks(&self) -> usize {
        self.readbacks.load(Ordering::Relaxed)
    }
}
