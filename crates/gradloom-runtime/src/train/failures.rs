//! Failures of steps that were not reported yet.
//!
//! In: what the results of steps say, in any order: of the step itself, and of unread ones before
//! it. Out: errors, the first one first. Always holds: other steps give each once; a step itself gives its
//! own whenever it is read, and what was read there first is not given again.

use super::step::Done;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_device::backend::Failure;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns an error that stands for others, too.
pub(super) fn with_others(error: Error, others: u32) -> Error {
    if others == 0 {
        return error;
    }
    let steps = if others == 1 { "step" } else { "steps" };
    error.note(format!("{others} {steps} before this one failed, too, and are not told of one by one"))
}

/// The failures of a training program.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    state: Mutex<FailureState>,
}

#[derive(Debug, Default)]
struct FailureState {
    /// Failures that were not reported yet, by the number of the run.
    untold: Vec<(u64, Error)>,
    /// Runs from which on the number of attempted steps was set, with that number: an entry for each call
    /// that set it.
    steps: Vec<(u64, u64)>,
}

impl FailureState {
    /// Returns the number among the attempted steps of a run.
    fn step(&self, run: u64) -> u64 {
        let since = self.steps.iter().rev().find(|(first, _)| *first <= run);
        since.map_or(run, |(first, step)| step + (run - first))
    }

    fn insert(&mut self, run: u64, mut error: Error) {
        // An error of a value that is not finite has the step's number already. The error of a trap may be
        // read from another step.
        if error.kind() == ErrorKind::Trap {
            error = error.note(format!("in step {}, which changed no parameter", self.step(run)));
        }
        let at = self.untold.partition_point(|(known, _)| *known <= run);
        self.untold.insert(at, (run, error));
    }
}

impl Failures {
    fn lock(&self) -> MutexGuard<'_, FailureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the number of a run among the attempted steps. Runs come in order.
    pub(super) fn number(&self, run: u64, step: u64) {
        let mut state = self.lock();
        if state.steps.is_empty() || state.step(run) != step {
            state.steps.push((run, step));
        }
    }

    /// Notes an error of a run.
    pub(super) fn add(&self, run: u64, error: Error) {
        self.lock().insert(run, error);
    }

    /// Notes what a device remembered, as it was read from a run; gives the number of failures before that
    /// run that it knows nothing else of.
    pub(super) fn extend(&self, own: u64, failures: Vec<Failure>) -> u32 {
        let mut state = self.lock();
        let mut before_own = 0;
        for Failure { run, outcome, others } in failures {
            let done = Done::new(state.step(run), outcome, Vec::new());
            let Some(mut error) = done.map_or_else(Some, |done| done.error) else { continue };
            error = with_others(error, others);
            if run == own {
                before_own = others;
            }
            state.insert(run, error);
        }
        before_own
    }

    /// Forgets a run's errors: the caller has them from the step.
    pub(super) fn forget(&self, run: u64) {
        self.lock().untold.retain(|(known, _)| *known != run);
    }

    /// Gives the first error of a run before this one, if there is any.
    pub(super) fn tell_before(&self, run: u64) -> Result<()> {
        let mut state = self.lock();
        match state.untold.first() {
            Some((first, _)) if *first < run => Err(state.untold.remove(0).1),
            _ => Ok(()),
        }
    }

    /// Gives the first error, if there is any.
    pub(super) fn tell(&self) -> Result<()> {
        self.tell_before(u64::MAX)
    }
}
