//! Submitted steps whose results have not been read.
//!
//! In: host memory that a step fills. Out: the results of the step.

use super::gpu::{Gpu, Mark};
use super::memory::HostBuffer;
use gradloom_core::error::Result;
use gradloom_device::backend::{Finished, Pending};
use gradloom_device::cancel::Stop;
use gradloom_device::queue::Results;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Host memory for the results of a program's steps.
#[derive(Debug)]
pub(super) struct Stagings {
    gpu: Arc<Gpu>,
    results: Results,
    free: Mutex<Vec<HostBuffer>>,
    readbacks: AtomicUsize,
}

impl Stagings {
    pub(super) fn new(gpu: &Arc<Gpu>, results: Results) -> Self {
        Self { gpu: Arc::clone(gpu), results, free: Mutex::default(), readbacks: AtomicUsize::new(0) }
    }

    pub(super) fn results(&self) -> &Results {
        &self.results
    }

    /// Returns memory for the results of a step. It may still be in use by an earlier step whose results are
    /// not needed, because steps run in order.
    pub(super) fn take(&self) -> Result<HostBuffer> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(|| HostBuffer::new(&self.gpu, self.results.bytes(), "results"), Ok)
    }

    fn put_back(&self, staging: HostBuffer) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(staging);
    }

    pub(super) fn readbacks(&self) -> usize {
        self.readbacks.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct PendingStep {
    stagings: Arc<Stagings>,
    run: u64,
    /// Host memory for the results; `None` once they were read.
    staging: Option<HostBuffer>,
    end: Arc<Mark>,
    /// Wakers to be woken when the step ends.
    wakers: Vec<Waker>,
}

impl PendingStep {
    /// Creates a pending step whose results are written to `staging`.
    pub(super) fn new(stagings: &Arc<Stagings>, run: u64, staging: HostBuffer, end: Arc<Mark>) -> Self {
        Self { stagings: Arc::clone(stagings), run, staging: Some(staging), end, wakers: Vec::new() }
    }
}

impl Pending for PendingStep {
    fn run(&self) -> u64 {
        self.run
    }

    fn poll(&mut self, waker: &Waker) -> Poll<()> {
        if self.end.is_over() {
            return Poll::Ready(());
        }
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
            self.stagings.gpu.poller.watch(&self.end, waker);
        }
        Poll::Pending
    }

    fn wait(mut self: Box<Self>) -> Result<Finished> {
        self.stagings.readbacks.fetch_add(1, Ordering::Relaxed);
        self.end.wait(Stop::default())?;
        let staging = self.staging.take().expect("it is read once");
        let finished = self.stagings.results.finished(staging.bytes());
        self.stagings.put_back(staging);
        finished
    }
}

impl Drop for PendingStep {
    fn drop(&mut self) {
        if let Some(staging) = self.staging.take() {
            self.stagings.put_back(staging);
        }
    }
}
