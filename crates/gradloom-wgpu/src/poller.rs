//! Polls the device for futures.
//!
//! In: submissions, and the mappings that become ready with them. Out: nothing; wgpu announces a mapping when
//! the device is polled, so a thread polls it, from the first future on, and announces the end of work to
//! waits that can be stopped. (A browser needs none: it announces by itself.) Always holds: each event is
//! announced, also when the device is lost.

use super::download::Arrival;
use super::gpu::{Gpu, Health, wait};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle, current};
use wgpu::{Device, SubmissionIndex};

/// A thread that waits for a device, once it is needed.
#[derive(Debug, Default)]
pub(super) struct Poller {
    /// The thread; none if the system starts no thread.
    thread: OnceLock<Option<(Sender<Request>, JoinHandle<()>)>>,
}

/// An event that comes with the end of a submission.
#[derive(Debug)]
pub(super) enum Event {
    /// The mapping of a buffer, which wgpu announces.
    Mapping,
    /// The end of the work.
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
            // The woken thread finds out why.
            (Err(_), _) => self.arrival.give_up(),
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        if let Some(Some((sender, thread))) = self.thread.take() {
            drop(sender);
            // The last owner of the device may be what this thread has just woken.
            if thread.thread().id() != current().id() {
                // It ends by itself, and has nothing to say.
                let _ = thread.join();
            }
        }
    }
}
