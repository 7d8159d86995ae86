//! Submitted steps whose results have not been read.
//!
//! In: a staging buffer that a submission fills. Out: the results of the step.

use super::download::Download;
use super::gpu::Gpu;
use super::memory::staging;
use gradloom_core::error::Result;
use gradloom_device::backend::{Finished, Pending};
use gradloom_device::queue::Results;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use wgpu::{Buffer, SubmissionIndex};

#[derive(Debug)]
pub(super) struct Stagings {
    gpu: Arc<Gpu>,
    results: Results,
    free: Mutex<Vec<Buffer>>,
    readbacks: AtomicUsize,
    /// Number of steps up to and including the last one that was read.
    read: AtomicU64,
}

impl Stagings {
    pub(super) fn new(gpu: &Arc<Gpu>, results: Results) -> Self {
        Self {
            gpu: Arc::clone(gpu),
            results,
            free: Mutex::default(),
            readbacks: AtomicUsize::new(0),
            read: AtomicU64::new(0),
        }
    }

    pub(super) fn results(&self) -> &Results {
        &self.results
    }

    /// Returns a buffer that no step uses.
    pub(super) fn take(&self) -> Result<Buffer> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(|| staging(&self.gpu, self.results.bytes()), Ok)
    }

    fn put_back(&self, staging: Buffer) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(staging);
    }

    /// Returns `true` if the last of `runs` steps was read, so that the device is idle.
    pub(super) fn all_read(&self, runs: u64) -> bool {
        self.read.load(Ordering::Relaxed) == runs
    }

    pub(super) fn readbacks(&self) -> usize {
        self.readbacks.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct PendingStep {
    stagings: Arc<Stagings>,
    run: u64,
    /// Download of the results; `None` once a thread waits for it.
    download: Option<Download>,
}

impl PendingStep {
    /// Creates a pending step whose results are copied to `staging` by `submission`.
    pub(super) fn new(
        stagings: &Arc<Stagings>,
        run: u64,
        staging: Buffer,
        submission: SubmissionIndex,
    ) -> Self {
        Self { stagings: Arc::clone(stagings), run, download: Some(Download::new(staging, submission)) }
    }
}

impl Pending for PendingStep {
    fn run(&self) -> u64 {
        self.run
    }

    fn poll(&mut self, waker: &Waker) -> Poll<()> {
        let download = self.download.as_mut().expect("only `wait` takes it, and the step with it");
        download.poll(&self.stagings.gpu, waker)
    }

    fn wait(mut self: Box<Self>) -> Result<Finished> {
        let stagings = &self.stagings;
        let download = self.download.take().expect("only `wait` takes it, and the step with it");
        stagings.readbacks.fetch_add(1, Ordering::Relaxed);
        let (finished, staging) = download.read(&stagings.gpu, |bytes| stagings.results.finished(bytes))?;
        stagings.read.fetch_max(self.run + 1, Ordering::Relaxed);
        stagings.put_back(staging);
        finished
    }
}

impl Drop for PendingStep {
    fn drop(&mut self) {
        if let Some(staging) = self.download.take().and_then(Download::unread) {
            self.stagings.put_back(staging);
        }
    }
}
