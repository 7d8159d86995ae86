//! A thread that works in parallel with the steps, one job at a time.
//!
//! In: a job. Out: its result, when it is taken. Invariant: no job is accepted before the previous result
//! is taken, so at most one waits in memory; a job that was started is finished before the thread ends.

use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};

/// A thread for jobs of type `W` with results of type `R`.
#[derive(Debug)]
pub(super) struct Aside<W, R> {
    /// `None` while the thread is ending.
    work: Option<Sender<W>>,
    results: Receiver<R>,
    thread: Option<JoinHandle<()>>,
    is_busy: bool,
}

impl<W: Send + 'static, R: Send + 'static> Aside<W, R> {
    /// Starts a thread that runs `f` on each job.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread.
    pub(super) fn start(f: impl FnMut(W) -> R + Send + 'static) -> io::Result<Self> {
        let (work, given) = channel();
        let (done, results) = channel();
        let run = move || _ = given.into_iter().map(f).try_for_each(|result| done.send(result));
        let thread = Builder::new().name("gradloom-aside".to_string()).spawn(run)?;
        Ok(Self { work: Some(work), results, thread: Some(thread), is_busy: false })
    }

    /// Returns `true` from the moment when a job is sent until its result is taken.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Sends a job to the thread.
    ///
    /// # Panics
    /// Panics if the previous result was not taken.
    pub(super) fn give(&mut self, work: W) {
        assert!(!self.is_busy, "one piece at a time");
        self.is_busy = true;
        // Ignore a thread that panicked: its panic is raised when the result is taken.
        let _ = self.work.as_ref().expect("the thread lives as long as this").send(work);
    }

    /// Takes the result if the job is finished.
    ///
    /// # Panics
    /// Panics with the thread's panic, if it panicked.
    pub(super) fn taken(&mut self) -> Option<R> {
        match self.results.try_recv() {
            Err(TryRecvError::Empty) => None,
            result => Some(self.freed(result.ok())),
        }
    }

    /// Waits for the result; `None` if no job was sent since the last result.
    ///
    /// # Panics
    /// Panics with the thread's panic, as [`taken`](Self::taken) does.
    pub(super) fn wait(&mut self) -> Option<R> {
        self.is_busy.then(|| {
            let result = self.results.recv();
            self.freed(result.ok())
        })
    }

    /// Returns the result of a finished job, or resumes the panic of the thread.
    fn freed(&mut self, result: Option<R>) -> R {
        self.is_busy = false;
        result.unwrap_or_else(|| match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => resume_unwind(panic),
            _ => unreachable!("the thread ends after its work, or by a panic"),
        })
    }
}

impl<W, R> Drop for Aside<W, R> {
    fn drop(&mut self) {
        self.work = None;
        // Ignore a panic of the thread, which was already printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn work_goes_on_beside_and_results_come_when_they_are_there() {
        let (go, held) = channel();
        let mut aside = Aside::start(move |n: u32| {
            held.recv().unwrap();
            n + 1
        })
        .unwrap();
        assert_eq!((aside.is_busy(), aside.taken(), aside.wait()), (false, None, None));
        for n in [1, 5] {
            aside.give(n);
            // The job is blocked, so it has no result however often it is queried.
            assert!((0..1000).all(|_| aside.taken().is_none()) && aside.is_busy());
            go.send(()).unwrap();
            assert_eq!(aside.wait(), Some(n + 1));
            assert!(!aside.is_busy());
        }
    }

    #[test]
    fn what_was_begun_is_ended() {
        let ended = Arc::new(AtomicU32::new(0));
        let (go, held) = channel::<()>();
        let counter = Arc::clone(&ended);
        let mut aside = Aside::start(move |()| {
            let _ = held.recv();
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        aside.give(());
        drop(go);
        drop(aside);
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    }

    #[test]
    #[should_panic(expected = "of the thread")]
    fn a_panic_comes_back() {
        let mut aside = Aside::start(|()| -> u32 { panic!("of the thread") }).unwrap();
        aside.give(());
        aside.wait();
    }

    #[test]
    #[should_panic(expected = "one piece at a time")]
    fn no_work_queues_up() {
        let mut aside = Aside::start(|()| ()).unwrap();
        aside.give(());
        aside.give(());
    }
}
