//! The state of a rank that its collectives and its control threads share.
//!
//! In: progress of the collectives, and verdicts. Out: the first verdict, for all who ask or wait.
//! Invariants: the first verdict stays; from then on the data sockets are shut down, so no collective blocks.

use crate::verdict::Verdict;
use crate::wire::Progress;
use gradloom_core::error::Result;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shared state of one rank.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) rank: usize,
    hosts: Vec<String>,
    entered: AtomicU64,
    step: AtomicU64,
    moved: AtomicU64,
    waiting: AtomicBool,
    leaving: AtomicBool,
    outcome: Mutex<Outcome>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Outcome {
    verdict: Option<Verdict>,
    /// Number of collectives after which rank 0 left.
    first_left: Option<u64>,
    sockets: Vec<TcpStream>,
}

/// Locks a mutex. A thread that panicked left nothing half-written in those of this crate.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(crate) fn new(rank: usize, hosts: Vec<String>) -> Self {
        Self {
            rank,
            hosts,
            entered: AtomicU64::new(0),
            step: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            waiting: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            outcome: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Returns the number of ranks.
    pub(crate) fn size(&self) -> usize {
        self.hosts.len()
    }

    /// Returns a rank's name in messages.
    pub(crate) fn name(&self, rank: usize) -> String {
        format!("rank {rank} ({})", self.hosts[rank])
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            entered: self.entered.load(SeqCst),
            step: self.step.load(SeqCst),
            moved: self.moved.load(SeqCst),
            waiting: self.waiting.load(SeqCst),
        }
    }

    pub(crate) fn note_step(&self, step: u64) {
        self.step.store(step, SeqCst);
    }

    /// Notes that a piece of data has arrived.
    pub(crate) fn note_piece(&self) {
        self.moved.fetch_add(1, SeqCst);
    }

    /// Begins a collective and returns its number, from 1.
    pub(crate) fn enter(&self) -> Result<u64> {
        self.check()?;
        let number = self.entered.fetch_add(1, SeqCst) + 1;
        self.waiting.store(true, SeqCst);
        self.judge_first_left();
        self.check().inspect_err(|_| self.exit())?;
        Ok(number)
    }

    /// Ends a collective.
    pub(crate) fn exit(&self) {
        self.waiting.store(false, SeqCst);
    }

    /// Gives a data socket, to be shut down by a verdict.
    pub(crate) fn guard_socket(&self, socket: TcpStream) {
        let mut outcome = lock(&self.outcome);
        if outcome.verdict.is_some() {
            _ = socket.shutdown(Shutdown::Both);
        }
        outcome.sockets.push(socket);
    }

    /// Fails the world with `verdict`, and returns `true`, unless there already is one.
    pub(crate) fn fail(&self, verdict: Verdict) -> bool {
        let mut outcome = lock(&self.outcome);
        if outcome.verdict.is_some() {
            return false;
        }
        outcome.verdict = Some(verdict);
        for socket in outcome.sockets.drain(..) {
            _ = socket.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
        true
    }

    pub(crate) fn check(&self) -> Result<()> {
        lock(&self.outcome).verdict.as_ref().map_or(Ok(()), |verdict| Err(verdict.error()))
    }

    /// Waits for a verdict, for a bounded time.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<Verdict> {
        let deadline = Instant::now() + timeout;
        let mut outcome = lock(&self.outcome);
        while outcome.verdict.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            outcome = self.changed.wait_timeout(outcome, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        outcome.verdict.clone()
    }

    /// Notes that rank 0 left after so many collectives.
    pub(crate) fn note_first_left(&self, entered: u64) {
        lock(&self.outcome).first_left = Some(entered);
        self.judge_first_left();
    }

    /// Fails the world if this rank waits for rank 0, which has left.
    fn judge_first_left(&self) {
        let progress = self.progress();
        let left = lock(&self.outcome).first_left;
        if progress.waiting && left.is_some_and(|last| progress.entered > last) {
            self.fail(Verdict::left(&self.name(0), progress.entered));
        }
    }

    /// Notes that this rank leaves, so that the end of its connections is no failure.
    ///
    /// Returns `true` for the first call.
    pub(crate) fn leave(&self) -> bool {
        !self.leaving.swap(true, SeqCst)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(SeqCst)
    }
}
