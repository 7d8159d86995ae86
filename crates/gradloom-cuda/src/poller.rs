//! Waits for the device on behalf of futures.
//!
//! In: points in the stream, and wakers. Out: the wakers are woken once the device has reached the points or
//! is lost. A thread that is started for the first future waits for the device.

use super::gpu::Mark;
use gradloom_device::cancel::Stop;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread::Builder;

/// A point, and the waker of the task that awaits it.
type Request = (Arc<Mark>, Waker);

/// A lazily started thread that waits for a device. It ends when the device is dropped.
#[derive(Debug, Default)]
pub(super) struct Poller {
    thread: Mutex<Option<Sender<Request>>>,
}

impl Poller {
    /// Arranges for `waker` to be woken once the device has reached a point.
    pub(super) fn watch(&self, mark: &Arc<Mark>, waker: &Waker) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            *thread = start();
        }
        let request = (Arc::clone(mark), waker.clone());
        let unsent = match &*thread {
            Some(sender) => sender.send(request).map_err(|refused| refused.0).err(),
            None => Some(request),
        };
        if let Some(request) = unsent {
            serve(request);
        }
    }
}

fn start() -> Option<Sender<Request>> {
    let (sender, requests): (_, Receiver<Request>) = channel();
    let serve_all = move || requests.iter().for_each(serve);
    Builder::new().name("gradloom CUDA".to_string()).spawn(serve_all).ok()?;
    Some(sender)
}

fn serve((mark, waker): Request) {
    // Ignore a loss, which the next poll of the woken task reports.
    let _ = mark.wait(Stop::default());
    // This may be the last reference to the device, which must be dropped before the task is woken.
    drop(mark);
    // A panic in the waker must not end this thread.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
}
