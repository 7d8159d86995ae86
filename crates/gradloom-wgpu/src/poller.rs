//! Polls the device for futures and stoppable waits.
//!
//! In: submissions, with the events to announce when they are done. Out: announcements. wgpu runs the
//! callbacks of mappings only while the device is polled, so a thread, started for the first request, polls
//! it; the thread itself announces the end of work. (A browser runs the callbacks without polling.)
//! Invariant: each event is announced, even if the device is lost.

use super::download::Arrival;
use super::gpu::{Gpu, Health, wait};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle, current};
use wgpu::{Device, SubmissionIndex};

/// A lazily started thread that waits for a device.
#[derive(Debug, Default)]
pub(super) struct Poller {
    /// The thread and its requests; contains `None` if the system could not start the thread.
    thread: OnceLock<Option<(Sender<Request>, JoinHandle<()>)>>,
}

/// An event at the end of a submission.
#[derive(Debug)]
pub(super) enum Event {
    /// The mapping of a buffer, announced by wgpu's callback.
    Mapping,
    /// The end of the work, announced by the thread.
    Work,
}

#[derive(Debug)]
struct Request {
    submission: SubmissionIndex,
    arrival: Arc<Arrival>,
    event: Event,
}

impl Poller {
    /// Requests the announcement of an event when a submission is done.
    pub(super) fn watch(&self, gpu: &Gpu, submission: SubmissionIndex, arrival: Arc<Arrival>, event: Event) {
        let thread = self.thread.get_or_init(|| start(gpu.device.clone(), Arc::clone(&gpu.health)));
        let request = Request { submission, arrival, event };
        let unsent = match thread {
            Some((sender, _)) => sender.send(request).map_err(|refused| refused.0).err(),
            None => Some(request),
        };
        if let Some(request) = unsent {
            request.serve(&gpu.device, &gpu.health);
        }
    }
}

fn start(device: Device, health: Arc<Health>) -> Option<(Sender<Request>, JoinHandle<()>)> {
    let (sender, requests): (_, Receiver<Request>) = channel();
    let serve = move || requests.iter().for_each(|request| request.serve(&device, &health));
    let thread = Builder::new().name("gradloom GPU".to_string()).spawn(serve).ok()?;
    Some((sender, thread))
}

impl Request {
    fn serve(self, device: &Device, health: &Health) {
        match (wait(device, health, self.submission), self.event) {
            (Ok(()), Event::Mapping) => {}
            (Ok(()), Event::Work) => self.arrival.announce(Ok(())),
            // Announce a failure, whose reason the woken thread determines.
            (Err(_), _) => self.arrival.give_up(),
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        if let Some(Some((sender, thread))) = self.thread.take() {
            drop(sender);
            // Do not join the polling thread from itself. It is this thread if a task that it woke held the
            // last reference to the device.
            if thread.thread().id() != current().id() {
                // The thread ends, because the channel is closed. Its result is irrelevant.
                let _ = thread.join();
            }
        }
    }
}
