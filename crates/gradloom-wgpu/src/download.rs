//! A copy on its way from the device to the host.
//!
//! In: a staging buffer, and the submission that copies into it. Out: its bytes, once they are there, to who
//! waits or is woken. Always holds: a buffer that is given back can be used again, as it is neither mapped
//! nor about to be; one whose mapping failed is given up; the waker is woken, also when the device is
//! lost.

use super::gpu::Gpu;
use super::poller::Event;
use gradloom_core::error::{Error, ErrorKind, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;
use wgpu::{Buffer, BufferAsyncError, MapMode, SubmissionIndex};

/// Longest time that a mapping may take after the work before it was done. Another thread may be about to
/// announce the mapping, which takes negligible time.
const PATIENCE: Duration = Duration::from_secs(20);

/// A copy into a staging buffer, which was submitted.
#[derive(Debug)]
pub(super) struct Download {
    staging: Buffer,
    submission: SubmissionIndex,
    /// The mapping, once it was requested.
    arrival: Option<Arc<Arrival>>,
}

/// State of a mapping, or of other work, and the wakers that wait for it.
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

    /// Announces the result, once.
    pub(super) fn announce(&self, result: std::result::Result<(), BufferAsyncError>) {
        let mut state = self.lock();
        state.result.get_or_insert(result);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.arrived.notify_all();
        for waker in wakers {
            // One that panics is its owner's trouble: the others, and the device, are not to suffer.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
        }
    }

    /// Says that there will be no mapping, unless there was one.
    pub(super) fn give_up(&self) {
        self.announce(Err(BufferAsyncError));
    }

    /// Returns `Ready` if the announcement was made; otherwise `waker` is woken when it is.
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

    /// Waits at most `limit` for the announcement; returns whether it was made.
    pub(super) fn is_made_within(&self, limit: Duration) -> bool {
        let waited = self.arrived.wait_timeout_while(self.lock(), limit, |state| state.result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.result.is_some()
    }

    /// Waits for the announcement, which is due.
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
    /// Creates a download of the bytes that a submission copies into a staging buffer.
    pub(super) fn new(staging: Buffer, submission: SubmissionIndex) -> Self {
        Self { staging, submission, arrival: None }
    }

    /// Asks for the mapping, unless that was done.
    fn arrival(&mut self) -> Arc<Arrival> {
        let request = || {
            let arrival = Arc::new(Arrival::default());
            let announced = Arc::clone(&arrival);
            self.staging.slice(..).map_async(MapMode::Read, move |result| announced.announce(result));
            arrival
        };
        Arc::clone(self.arrival.get_or_insert_with(request))
    }

    /// Returns `Ready` if [`Download::read`] would not wait; otherwise `waker` is woken when that is so.
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

    /// Waits for the bytes and shows them to `f`; gives the buffer back, which is free again.
    ///
    /// # Errors
    /// When the device is lost or ill. The buffer is gone then.
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

    /// Returns the buffer, if its bytes were not asked for: it can be used again, as what is submitted
    /// later is done later.
    pub(super) fn unread(self) -> Option<Buffer> {
        self.arrival.is_none().then_some(self.staging)
    }
}
