//! The control plane, which finds out who failed.
//!
//! In: the control connections of a rank. Out: heartbeats, and one verdict that all ranks share. Invariants:
//! rank 0 alone decides about the others, and the others about rank 0; every wait is bounded.

mod hub;
mod line;
mod spoke;
mod stall;
mod state;
mod watch;

use crate::membership::WorldOptions;
use crate::rendezvous::Lines;
use crate::verdict::Verdict;
use hub::Hub;
use spoke::Spoke;
use stall::Stall;
pub(crate) use state::{State, lock};
use std::fmt::Debug;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use watch::Patience;

/// The part of a rank in the control plane: rank 0's or that of the others.
trait Plane: Debug + Send + Sync {
    /// Sends a heartbeat.
    fn beat(&self);
    /// Does what is due once in each tick: a heartbeat, and on rank 0 a look at the others.
    fn tick(&self);
    /// Makes a verdict the world's, or proposes it to rank 0.
    fn report(&self, verdict: Verdict);
    /// Says that this rank leaves in order.
    fn goodbye(&self);
}

/// The control plane of one rank.
#[derive(Debug)]
pub(crate) struct Control {
    state: Arc<State>,
    plane: Arc<dyn Plane>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Ends the thread of heartbeats when it is dropped.
    ticker: Mutex<Option<Sender<()>>>,
    verdict_timeout: Duration,
}

impl Control {
    /// Starts the threads of the control plane.
    pub(crate) fn start(state: Arc<State>, lines: Lines, options: &WorldOptions) -> io::Result<Self> {
        let patience = Patience { tick: options.tick(), limit: options.heartbeat_timeout };
        let (plane, mut threads): (Arc<dyn Plane>, _) = match lines {
            Lines::Hub(sockets) => {
                let stall = Stall::new(patience.tick, options.stall_timeout);
                let (hub, threads) = Hub::start(&state, sockets, patience, stall)?;
                (hub, threads)
            }
            Lines::Spoke(socket) => {
                let (spoke, threads) = Spoke::start(&state, socket, patience)?;
                (spoke, threads)
            }
        };
        let (ticker, ticks) = mpsc::channel::<()>();
        let beating = plane.clone();
        threads.push(thread::Builder::new().name("world heartbeat".to_string()).spawn(move || {
            while ticks.recv_timeout(patience.tick) == Err(RecvTimeoutError::Timeout) {
                beating.tick();
            }
        })?);
        let (threads, ticker) = (Mutex::new(threads), Mutex::new(Some(ticker)));
        Ok(Self { state, plane, threads, ticker, verdict_timeout: options.verdict_timeout })
    }

    /// Waits for the reason why a data connection broke. If rank 0 knows none in time, the reason is `guess`.
    pub(crate) fn explain(&self, guess: Verdict) -> Verdict {
        self.plane.beat();
        self.state.wait(self.verdict_timeout).unwrap_or_else(|| self.report(guess))
    }

    /// Makes `verdict` the world's unless there is an earlier one, and returns the world's.
    pub(crate) fn report(&self, verdict: Verdict) -> Verdict {
        self.plane.report(verdict.clone());
        // Rank 0 answers with the world's verdict, which may be another one.
        self.state.wait(self.verdict_timeout).unwrap_or_else(|| {
            self.state.fail(verdict.clone());
            verdict
        })
    }

    /// Ends this rank's part in order. Later calls do nothing.
    pub(crate) fn leave(&self) {
        if !self.state.leave() {
            return;
        }
        drop(lock(&self.ticker).take());
        self.plane.goodbye();
        let message = format!("{} has left the world", self.state.name(self.state.rank));
        self.state.fail(Verdict::new(message, "leave the world after the last collective"));
        for thread in lock(&self.threads).drain(..) {
            _ = thread.join();
        }
    }
}
