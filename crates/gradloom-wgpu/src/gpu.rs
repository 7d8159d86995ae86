//! An open device and its health.

use super::adapter::AdapterReport;
use super::download::Arrival;
use super::pipeline_cache::SavedPipelines;
use super::pipelines::Pipelines;
use super::poller::{Event, Poller};
use gradloom_codegen::pipeline::Limits;
use gradloom_codegen::wgsl::Dispatch;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::plan::ALIGNMENT;
use gradloom_device::cancel::Stop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, Device, ErrorFilter, MapMode, PollError,
    PollType, Queue, SubmissionIndex,
};

/// An open device with the resources that its programs share.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(super) device: Device,
    pub(super) queue: Queue,
    pub(super) report: AdapterReport,
    pub(super) limits: Limits,
    pub(super) health: Arc<Health>,
    pub(super) pipelines: Pipelines,
    pub(super) poller: Poller,
    canary: Canary,
    /// Modification of shaders for tests; see [`super::WgpuOverrides`].
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
        let (pipelines, poller, canary) = (Pipelines::new(kept), Poller::default(), Canary::new(&device));
        Self { device, queue, report, limits, health, pipelines, poller, canary, dispatch }
    }

    /// Checks that the device had no errors.
    ///
    /// # Errors
    /// Returns an error if an error was recorded; later results cannot be relied on.
    pub(super) fn check(&self) -> Result<()> {
        if self.health.kind() == Some(ErrorKind::Device) {
            self.look_for_loss();
        }
        self.health.check()
    }

    /// Returns the device's recorded error if there is one, for example because it was lost, and `error`
    /// otherwise. `error` must come from an operation that succeeds on a healthy device.
    pub(super) fn explain(&self, error: Error) -> Error {
        self.look_for_loss();
        self.check().err().unwrap_or(error)
    }

    /// Records a loss that was not announced yet. A lost device rejects work before the announcement reaches
    /// this thread.
    fn look_for_loss(&self) {
        if self.canary.is_refused(&self.device) {
            self.health.fail(ErrorKind::Lost, "the GPU was lost".to_string());
        }
    }

    /// Calls a function and returns its value, or the validation or internal error that it causes.
    pub(super) fn validated<R>(&self, f: impl FnOnce() -> R) -> std::result::Result<R, wgpu::Error> {
        validated(&self.device, f)
    }

    /// Returns the maximum size of a buffer in bytes, a multiple of the plan's alignment. Larger memory is
    /// split into several buffers.
    pub(super) fn segment(&self) -> u64 {
        (self.report.buffer_bytes / ALIGNMENT * ALIGNMENT).max(ALIGNMENT)
    }

    /// Creates a zeroed buffer; returns `None` if there is not enough memory.
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

    /// Submits the encoded commands.
    ///
    /// # Errors
    /// Returns an error if the device is lost or had an error.
    pub(super) fn submit(&self, encoder: CommandEncoder) -> Result<SubmissionIndex> {
        let submission = self.queue.submit([encoder.finish()]);
        self.look_for_loss();
        self.check()?;
        Ok(submission)
    }

    /// Waits for all work up to a submission.
    ///
    /// # Errors
    /// Returns an error if the device is lost, had an error, or exceeds the watchdog's limit.
    pub(super) fn wait(&self, submission: SubmissionIndex) -> Result<()> {
        let stopped = |error| Error::new(ErrorKind::Device, format!("the GPU does not answer: {error}"));
        wait(&self.device, &self.health, submission).map_err(|error| self.explain(stopped(error)))?;
        self.check()
    }

    /// Like [`Gpu::wait`], but can be stopped.
    ///
    /// # Errors
    /// Returns an error if [`Gpu::wait`] would, or if the wait is stopped.
    pub(super) fn wait_unless(&self, submission: SubmissionIndex, stop: Stop<'_>) -> Result<()> {
        if stop.is_possible() {
            let arrival = Arc::new(Arrival::default());
            self.poller.watch(self, submission.clone(), Arc::clone(&arrival), Event::Work);
            stop.check()?;
            while !arrival.is_made_within(LOOK) {
                stop.check()?;
            }
        }
        self.wait(submission)
    }
}

/// A buffer that detects the loss of a device. A lost device accepts submissions without an error, but
/// immediately rejects mapping a buffer, so the check neither waits nor polls the device.
#[derive(Debug)]
struct Canary(Mutex<Mapping>);

/// A buffer with a requested mapping.
#[derive(Debug)]
struct Mapping {
    buffer: Buffer,
    /// `true` once the buffer is mapped, `false` once the mapping was rejected; unset while it is pending.
    is_mapped: Arc<OnceLock<bool>>,
}

impl Mapping {
    fn new(device: &Device) -> Self {
        Self::of(device.create_buffer(&BufferDescriptor {
            label: Some("canary"),
            size: 4,
            usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        }))
    }

    /// Requests the mapping of a buffer that is not mapped and has no pending mapping.
    fn of(buffer: Buffer) -> Self {
        let is_mapped = Arc::new(OnceLock::new());
        let told = Arc::clone(&is_mapped);
        buffer.map_async(MapMode::Read, .., move |result| {
            // Setting the result cannot fail, because the callback runs only once.
            let _ = told.set(result.is_ok());
        });
        Self { buffer, is_mapped }
    }
}

impl Canary {
    fn new(device: &Device) -> Self {
        Self(Mutex::new(Mapping::new(device)))
    }

    /// Returns `true` if the device rejects mapping a buffer.
    fn is_refused(&self, device: &Device) -> bool {
        let mut mapping = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *mapping = match mapping.is_mapped.get() {
            Some(false) => return true,
            Some(true) => {
                mapping.buffer.unmap();
                Mapping::of(mapping.buffer.clone())
            }
            // The mapping is pending, so a new buffer is used; another thread may be polling the device.
            None => Mapping::new(device),
        };
        mapping.is_mapped.get() == Some(&false)
    }
}

/// Calls a function and returns its value, or the validation or internal error that it causes.
pub(super) fn validated<R>(device: &Device, f: impl FnOnce() -> R) -> std::result::Result<R, wgpu::Error> {
    let scopes = [ErrorFilter::Internal, ErrorFilter::Validation].map(|f| device.push_error_scope(f));
    let value = f();
    let mut failure = None;
    for scope in scopes.into_iter().rev() {
        failure = failure.or(pollster::block_on(scope.pop()));
    }
    failure.map_or(Ok(value), Err)
}

/// Polls a device, so that wgpu runs the callbacks that are due.
///
/// # Errors
/// Returns an error if the wait ended early, because the device was lost, timed out, or does not have the
/// submission.
pub(super) fn poll(device: &Device, health: &Health, how: PollType) -> std::result::Result<(), PollError> {
    // Catch the panic of wgpu if a device is lost during a wait. wgpu announces the loss before it panics.
    catch_unwind(AssertUnwindSafe(|| device.poll(how).map(|_| ()))).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        health.fail(ErrorKind::Lost, format!("the GPU was lost while it was waited for: {said}"));
        Err(PollError::Timeout)
    })
}

/// Interval at which a stoppable wait checks whether it is stopped.
const LOOK: Duration = Duration::from_millis(2);

/// Waits for a device to complete all work up to a submission.
///
/// The only timeout of a wait is the watchdog's, after which the device counts as lost, because wgpu 30
/// panics if a wait times out while the work of another thread ends.
///
/// # Errors
/// Returns an error if [`poll`] would, or if the watchdog's limit is exceeded.
pub(super) fn wait(
    device: &Device,
    health: &Health,
    submission: SubmissionIndex,
) -> std::result::Result<(), PollError> {
    let how = PollType::Wait { submission_index: Some(submission), timeout: health.watchdog };
    let ended = poll(device, health, how);
    if let (Err(PollError::Timeout), Some(limit)) = (&ended, health.watchdog) {
        health.fail(ErrorKind::Lost, format!("the GPU hangs: a step was not done within {limit:?}"));
    }
    ended
}

/// Errors of a device that are reported asynchronously.
#[derive(Debug, Default)]
pub(crate) struct Health {
    trouble: Mutex<Option<(ErrorKind, String)>>,
    /// Maximum time for a step, after which the device counts as lost.
    watchdog: Option<Duration>,
}

impl Health {
    pub(super) fn new(watchdog: Option<Duration>) -> Self {
        Self { watchdog, ..Self::default() }
    }

    /// Records the device's errors from now on.
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

    /// Records an error, unless one is already recorded; a loss replaces any other error.
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
