//! Submitted steps whose results have not been read.
//!
//! In: a staging buffer that a submission fills. Out: the results of the step.

use super::download::Download;
use super::gpu::Gpu;
use gradloom_core::error::Result;
use gradloom_device::backend::{Finished, Pending};
use gradloom_device::queue::Stagings;
use std::sync::Arc;
use std::task::{Poll, Waker};
use wgpu::{Buffer, SubmissionIndex};

#[derive(Debug)]
pub(super) struct PendingStep {
    gpu: Arc<Gpu>,
    stagings: Arc<Stagings<Buffer>>,
    run: u64,
    /// Download of the results; `None` once a thread waits for it.
    download: Option<Download>,
}

impl PendingStep {
    /// Creates a pending step whose results are copied to `staging` by `submission`.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        stagings: &Arc<Stagings<Buffer>>,
        run: u64,
        staging: Buffer,
        submission: SubmissionIndex,
    ) -> Self {
        let (gpu, stagings) = (Arc::clone(gpu), Arc::clone(stagings));
        Self { gpu, stagings, run, download: Some(Download::new(staging, submission)) }
    }
}

impl Pending for PendingStep {
    fn run(&self) -> u64 {
        self.run
    }

    fn poll(&mut self, waker: &Waker) -> Poll<()> {
        let download = self.download.as_mut().expect("only `wait` takes it, and the step with it");
        download.poll(&self.gpu, waker)
    }

    fn wait(mut self: Box<Self>) -> Result<Finished> {
        let stagings = &self.stagings;
        let download = self.download.take().expect("only `wait` takes it, and the step with it");
        stagings.begin_read();
        let (finished, staging) = download.read(&self.gpu, |bytes| stagings.results().finished(bytes))?;
        stagings.end_read(self.run);
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
