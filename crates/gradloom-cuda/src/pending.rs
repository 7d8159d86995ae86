//! Submitted steps whose results have not been read.
//!
//! In: host memory that a step fills. Out: the results of the step.

use super::gpu::{Gpu, Mark};
use super::memory::HostBuffer;
use gradloom_core::error::Result;
use gradloom_device::backend::{Finished, Pending};
use gradloom_device::cancel::Stop;
use gradloom_device::queue::Stagings;
use std::sync::Arc;
use std::task::{Poll, Waker};

#[derive(Debug)]
pub(super) struct PendingStep {
    gpu: Arc<Gpu>,
    stagings: Arc<Stagings<HostBuffer>>,
    run: u64,
    /// Host memory for the results; `None` once they were read.
    staging: Option<HostBuffer>,
    end: Arc<Mark>,
    /// Wakers to be woken when the step ends.
    wakers: Vec<Waker>,
}

impl PendingStep {
    /// Creates a pending step whose results are written to `staging`.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        stagings: &Arc<Stagings<HostBuffer>>,
        run: u64,
        staging: HostBuffer,
        end: Arc<Mark>,
    ) -> Self {
        let (gpu, stagings) = (Arc::clone(gpu), Arc::clone(stagings));
        Self { gpu, stagings, run, staging: Some(staging), end, wakers: Vec::new() }
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
            self.gpu.poller.watch(&self.end, waker);
        }
        Poll::Pending
    }

    fn wait(mut self: Box<Self>) -> Result<Finished> {
        self.stagings.begin_read();
        self.end.wait(Stop::default())?;
        let staging = self.staging.take().expect("it is read once");
        let finished = self.stagings.results().finished(staging.bytes());
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
