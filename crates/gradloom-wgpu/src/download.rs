//! Asynchronous copies from the device to the host.
//!
//! In: a staging buffer, and the submission that copies into it. Out: its bytes, once the copy is complete; a
//! thread can wait for it, or be woken. Invariant: a buffer that is returned can be reused, because it is
//! not mapped and has no pending mapping; a buffer that could not be mapped is dropped; wakers are woken even
//! if the device is lost.

use super::gpu::Gpu;
use super::poller::Event;
use gradloom_core::error::{Error, ErrorKind, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;
use wgpu::{Buffer, BufferAsyncError, MapMode, SubmissionIndex};

/// Time limit for the announcement of a mapping after the submission is done. Another thread may be about to
/// announce it, which takes negligible time.
const PATIENCE: Duration = Duration::from_secs(20);

/// A submitted copy into a staging buffer.
#[derive(Debug)]
pub(super) struct Download {
    staging: Buffer,
    submission: SubmissionIndex,
    /// State of the mapping, once it was requested.
    arrival: Option<Arc<Arrival>>,
}

/// State of a mapping or of other work, with the wakers to be woken when it is done.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    state: Mutex<DownloadState>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct DownloadState {
    result: Option<std::result::Result<(), BufferAsyncError>>,
    wakers: Vec<Waker>,
}

impl Arrival {
    fn lock(&self) -> MutexGuard<'_, DownloadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces the result; only the first call has an effect.
    pub(super) fn announce(&self, result: std::result::Result<(), BufferAsyncError>) {
        let mut state = self.lock();
        state.result.get_or_insert(result);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.arrived.notify_all();
        for waker in wakers {
            // A panic in one waker must not affect the others or the device.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
        }
    }

    /// Announces a failure, unless a result has already been announced.
    pub(super) fn give_up(&self) {
        self.announce(Err(BufferAsyncError));
    }

    /// Returns `Ready` if a result has been announced; otherwise registers the waker to be woken by the
    /// announcement.
    fn poll(&self, waker: &Waker) -> Poll<()> {
        let mut state = self.lock();
        if state.result.is_some() {
            return Poll::Ready(());
        }
        if !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    /// Waits at most `limit` for the announcement; returns `true` if it was made.
    pub(super) fn is_made_within(&self, limit: Duration) -> bool {
        let waited = self.arrived.wait_timeout_while(self.lock(), limit, |state| state.result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.result.is_some()
    }

    /// Waits for the announcement, which is expected within [`PATIENCE`].
    fn wait(&self) -> Result<()> {
        let waited = self.arrived.wait_timeout_while(self.lock(), PATIENCE, |state| state.result.is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.result {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(unreadable(&error.to_string())),
            None => Err(unreadable("they were not handed over")),
        }
    }
}

fn unreadable(why: &str) -> Error {
    Error::new(ErrorKind::Device, format!("results of the GPU cannot be read: {why}"))
}

impl Download {
    /// Creates a download for a submission that copies into `staging`.
    pub(super) fn new(staging: Buffer, submission: SubmissionIndex) -> Self {
        Self { staging, submission, arrival: None }
    }

    /// Returns the state of the mapping, requesting it on the first call.
    fn arrival(&mut self) -> Arc<Arrival> {
        let request = || {
            let arrival = Arc::new(Arrival::default());
            let announced = Arc::clone(&arrival);
            self.staging.slice(..).map_async(MapMode::Read, move |result| announced.announce(result));
            arrival
        };
        Arc::clone(self.arrival.get_or_insert_with(request))
    }

    /// Returns `Ready` if the copy is complete, so that [`Download::read`] does not block. Otherwise
    /// registers the waker to be woken when it completes.
    pub(super) fn poll(&mut self, gpu: &Gpu, waker: &Waker) -> Poll<()> {
        let asked = self.arrival.is_some();
        let arrival = self.arrival();
        if arrival.poll(waker).is_ready() {
            return Poll::Ready(());
        }
        if !asked {
            gpu.poller.watch(gpu, self.submission.clone(), arrival, Event::Mapping);
        }
        Poll::Pending
    }

    /// Waits for the bytes, passes them to `f`, and returns the buffer for reuse.
    ///
    /// # Errors
    /// Returns an error if the device is lost or had an error. The buffer is then dropped.
    pub(super) fn read<R>(mut self, gpu: &Gpu, f: impl FnOnce(&[u8]) -> R) -> Result<(R, Buffer)> {
        let arrival = self.arrival();
        gpu.wait(self.submission)?;
        arrival.wait().map_err(|error| gpu.explain(error))?;
        let slice = self.staging.slice(..);
        let value = {
            let bytes = slice.get_mapped_range().map_err(|error| unreadable(&error.to_string()))?;
            f(&bytes)
        };
        self.staging.unmap();
        gpu.check()?;
        Ok((value, self.staging))
    }

    /// Returns the buffer if no mapping was requested. It can be reused, because later submissions run after
    /// the copy.
    pub(super) fn unread(self) -> Option<Buffer> {
        self.arrival.is_none().then_some(self.staging)
    }
}
