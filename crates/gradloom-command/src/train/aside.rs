//! A thread beside the steps, which does one piece of work at a time.
//!
//! In: a piece of work. Out: its result, once somebody asks. Always holds: none is taken while another one is
//! done, so the memory that waits is that of one; a piece that was begun is ended before the thread is.

use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};

/// The thread, with work of type `W` and results of type `R`.
#[derive(Debug)]
pub(super) struct Aside<W, R> {
    /// `None` while the thread ends.
    work: Option<Sender<W>>,
    results: Receiver<R>,
    thread: Option<JoinHandle<()>>,
    is_busy: bool,
}

impl<W: Send + 'static, R: Send + 'static> Aside<W, R> {
    /// Starts a thread that works so.
    ///
    /// # Errors
    /// The system's, when there is no thread to be had.
    pub(super) fn start(f: impl FnMut(W) -> R + Send + 'static) -> io::Result<Self> {
        let (work, given) = channel();
        let (done, results) = channel();
        let run = move || _ = given.into_iter().map(f).try_for_each(|result| done.send(result));
        let thread = Builder::new().name("gradloom-aside".to_string()).spawn(run)?;
        Ok(Self { work: Some(work), results, thread: Some(thread), is_busy: false })
    }

    /// Returns true from the moment a piece of work is given until its result is taken.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Gives a piece of work.
    ///
    /// # Panics
    /// When the result of the one before was not taken.
    pub(super) fn give(&mut self, work: W) {
        assert!(!self.is_busy, "one piece at a time");
        self.is_busy = true;
        // A thread that panicked takes nothing; who asks for the result is told.
        let _ = self.work.as_ref().expect("the thread lives as long as this").send(work);
    }

    /// Takes the result if it is there.
    ///
    /// # Panics
    /// With the thread's panic.
    pub(super) fn taken(&mut self) -> Option<R> {
        match self.results.try_recv() {
            Err(TryRecvError::Empty) => None,
            result => Some(self.freed(result.ok())),
        }
    }

    /// Waits for the result; `None` if no work was given since the last one.
    ///
    /// # Panics
    /// As [`taken`](Self::taken).
    pub(super) fn wait(&mut self) -> Option<R> {
        self.is_busy.then(|| {
            let result = self.results.recv();
            self.freed(result.ok())
        })
    }

    /// Returns the result of a thread that is free again; there is none of one that panicked.
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
        // A panic was printed when it came.
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
            // It is held, so there is none, however often it is asked for.
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
