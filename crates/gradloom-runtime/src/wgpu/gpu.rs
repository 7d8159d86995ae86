//! An open device and its health.

use super::adapter::AdapterReport;
use super::pipeline_cache::SavedPipelines;
use super::pipelines::Pipelines;
use super::poller::Poller;
use crate::cancel::Stop;
use gradloom_codegen::wgsl::{Dispatch, Limits};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::plan::ALIGNMENT;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, Device, ErrorFilter, PollError, PollType, Queue,
    SubmissionIndex,
};

/// A device with what programs on it share.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(super) device: Device,
    pub(super) queue: Queue,
    pub(super) report: AdapterReport,
    pub(super) limits: Limits,
    pub(super) health: Arc<Health>,
    pub(super) pipelines: Pipelines,
    pub(super) poller: Poller,
    /// See [`super::WgpuOverrides`].
    pub(super) dispatch: Option<fn(&mut Dispatch)>,
}

impl Gpu {
    pub(super) fn new(
        device: Device,
        queue: Queue,
        report: AdapterReport,
        limits: Limits,
        dispatch: Option<fn(&mut Dispatch)>,
        kept: Option<SavedPipelines>,
        health: Arc<Health>,
    ) -> Self {
        let (pipelines, poller) = (Pipelines::new(kept), Poller::default());
        Self { device, queue, report, limits, health, pipelines, poller, dispatch }
    }

    /// # Errors
    /// What went wrong so far: nothing that was computed since can be relied on.
    pub(super) fn check(&self) -> Result<()> {
        if self.health.kind() == Some(ErrorKind::Device) {
            self.look_for_loss();
        }
        self.health.check()
    }

    /// What went wrong when something failed that a device in good health does: it may have been lost.
    pub(super) fn explain(&self, error: Error) -> Error {
        self.look_for_loss();
        self.check().err().unwrap_or(error)
    }

    /// Notes a loss that was not announced yet: a device refuses work before the announcement reaches this
    /// thread.
    fn look_for_loss(&self) {
        let nothing = self.queue.submit([]);
        if self.refuses(nothing) {
            self.health.fail(ErrorKind::Lost, "the GPU was lost".to_string());
        }
    }

    /// Whether a submission was not taken. Does not wait.
    fn refuses(&self, submission: SubmissionIndex) -> bool {
        let look = PollType::Wait { submission_index: Some(submission), timeout: Some(Duration::ZERO) };
        matches!(poll(&self.device, &self.health, look), Err(PollError::WrongSubmissionIndex(..)))
    }

    /// Calls a function, and returns the error of the validation or the driver.
    pub(super) fn validated<R>(&self, f: impl FnOnce() -> R) -> std::result::Result<R, wgpu::Error> {
        validated(&self.device, f)
    }

    /// Bytes of the buffers into which larger memory is cut.
    pub(super) fn segment(&self) -> usize {
        let bytes = usize::try_from(self.report.buffer_bytes).unwrap_or(usize::MAX);
        (bytes / ALIGNMENT * ALIGNMENT).max(ALIGNMENT)
    }

    /// A zeroed buffer, or `None` if there is not that much memory.
    pub(super) fn buffer(&self, label: &str, bytes: usize, usage: BufferUsages) -> Option<Buffer> {
        let size = (bytes as u64).max(4).next_multiple_of(4);
        if size > self.report.buffer_bytes {
            return None;
        }
        let scope = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let descriptor = BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&descriptor);
        pollster::block_on(scope.pop()).is_none().then_some(buffer)
    }

    /// Submits what was encoded.
    ///
    /// # Errors
    /// When the device is lost, or was found ill.
    pub(super) fn submit(&self, encoder: CommandEncoder) -> Result<SubmissionIndex> {
        let submission = self.queue.submit([encoder.finish()]);
        // A lost device takes no work and reports no error: only its numbers of submissions stand still.
        if self.refuses(submission.clone()) {
            return Err(self.explain(Error::new(ErrorKind::Device, "the GPU refused a submission")));
        }
        self.check()?;
        Ok(submission)
    }

    /// Waits for everything that was submitted up to an index.
    ///
    /// # Errors
    /// When the device is lost, was found ill, or is not done within the watchdog's time.
    pub(super) fn wait(&self, submission: SubmissionIndex) -> Result<()> {
        self.wait_unless(submission, Stop::default())
    }

    /// Like [`Gpu::wait`], unless the wait is stopped.
    ///
    /// # Errors
    /// As [`Gpu::wait`], and when it is stopped.
    pub(super) fn wait_unless(&self, submission: SubmissionIndex, stop: Stop<'_>) -> Result<()> {
        let stopped = |error| Error::new(ErrorKind::Device, format!("the GPU does not answer: {error}"));
        let waited = wait(&self.device, &self.health, submission, stop)?;
        waited.map_err(|error| self.explain(stopped(error)))?;
        self.check()
    }
}

/// See [`Gpu::validated`].
pub(super) fn validated<R>(device: &Device, f: impl FnOnce() -> R) -> std::result::Result<R, wgpu::Error> {
    let scopes = [ErrorFilter::Internal, ErrorFilter::Validation].map(|f| device.push_error_scope(f));
    let value = f();
    let mut failure = None;
    for scope in scopes.into_iter().rev() {
        failure = failure.or(pollster::block_on(scope.pop()));
    }
    failure.map_or(Ok(value), Err)
}

/// Lets a device announce what has happened.
///
/// # Errors
/// When it did not get as far as it was waited for: it was lost, or never had the submission.
pub(super) fn poll(device: &Device, health: &Health, how: PollType) -> std::result::Result<(), PollError> {
    // wgpu panics when a device is lost during a wait, after it has announced the loss.
    catch_unwind(AssertUnwindSafe(|| device.poll(how).map(|_| ()))).unwrap_or_else(|_| {
        health.fail(ErrorKind::Lost, "the GPU was lost while it was waited for".to_string());
        Err(PollError::Timeout)
    })
}

/// How long a wait that can be stopped lasts before it looks whether it is.
const LOOK: Duration = Duration::from_millis(2);

/// Waits for a device to do what was submitted up to an index.
///
/// # Errors
/// When the wait is stopped; inside, as [`poll`], and when the watchdog's time is over.
pub(super) fn wait(
    device: &Device,
    health: &Health,
    submission: SubmissionIndex,
    stop: Stop<'_>,
) -> Result<std::result::Result<(), PollError>> {
    let began = Instant::now();
    loop {
        stop.check()?;
        let left = health.watchdog.map(|limit| limit.saturating_sub(began.elapsed()));
        let timeout = if stop.is_possible() { Some(left.map_or(LOOK, |left| left.min(LOOK))) } else { left };
        let how = PollType::Wait { submission_index: Some(submission.clone()), timeout };
        match poll(device, health, how) {
            Err(PollError::Timeout) if health.kind() != Some(ErrorKind::Lost) && timeout.is_some() => {}
            ended => return Ok(ended),
        }
        if let Some(limit) = health.watchdog.filter(|limit| began.elapsed() >= *limit) {
            health.fail(ErrorKind::Lost, format!("the GPU hangs: a step was not done within {limit:?}"));
            return Ok(Err(PollError::Timeout));
        }
    }
}

/// Errors of a device that arrive outside of the calls that cause them.
#[derive(Debug, Default)]
pub(crate) struct Health {
    trouble: Mutex<Option<(ErrorKind, String)>>,
    /// How long a step may take before the device counts as lost.
    watchdog: Option<Duration>,
}

impl Health {
    pub(super) fn new(watchdog: Option<Duration>) -> Self {
        Self { watchdog, ..Self::default() }
    }

    /// Notes the device's errors from here on.
    pub(super) fn watch(self: &Arc<Self>, device: &Device) {
        let health = Arc::clone(self);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            health.fail(ErrorKind::Device, format!("the GPU refused a command: {error}"));
        }));
        let health = Arc::clone(self);
        device.set_device_lost_callback(move |reason, message| {
            health.fail(ErrorKind::Lost, format!("the GPU was lost ({reason:?}): {message}"));
        });
    }

    /// Notes the first trouble.
    pub(super) fn fail(&self, kind: ErrorKind, message: String) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_none() || kind == ErrorKind::Lost {
            *trouble = Some((kind, message));
        }
    }

    fn kind(&self) -> Option<ErrorKind> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(kind, _)| *kind)
    }

    fn check(&self) -> Result<()> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match &*trouble {
            None => Ok(()),
            Some((kind, message)) => Err(Error::new(*kind, message.clone()).help(
                "compile the model again on a new device, and restore the parameters from the last \
                 checkpoint",
            )),
        }
    }
}
