//! Failures of steps that have not been reported yet.
//!
//! In: the failures reported with the result of a step, in any order: its own failure, and those of earlier
//! steps that were not read. Out: errors, in the order of the steps. Invariant: other steps report each error
//! at most once; a step reports its own error whenever it is read, after which no other step reports it.

use super::step::Done;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_device::backend::Failure;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Adds a note with the number of earlier failures that the error also represents.
pub(super) fn with_others(error: Error, others: u32) -> Error {
    if others == 0 {
        return error;
    }
    let steps = if others == 1 { "step" } else { "steps" };
    error.note(format!("{others} {steps} before this one failed, too, and are not told of one by one"))
}

#[derive(Debug, Default)]
pub(crate) struct Failures {
    state: Mutex<FailureState>,
}

#[derive(Debug, Default)]
struct FailureState {
    /// Unreported failures, with the index of the run.
    untold: Vec<(u64, Error)>,
    /// Pairs of a run and the index of its step among the attempted ones; one pair per change of the
    /// numbering.
    steps: Vec<(u64, u64)>,
}

impl FailureState {
    /// Returns the index of a run's step among the attempted ones.
    fn step(&self, run: u64) -> u64 {
        let since = self.steps.iter().rev().find(|(first, _)| *first <= run);
        since.map_or(run, |(first, step)| step + (run - first))
    }

    fn insert(&mut self, run: u64, mut error: Error) {
        // Add the number of the step to a trap's error, which may be read from another step. A non-finite
        // error already contains it.
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

    /// Records the step number of a run. Must be called in the order of runs.
    pub(super) fn number(&self, run: u64, step: u64) {
        let mut state = self.lock();
        if state.steps.is_empty() || state.step(run) != step {
            state.steps.push((run, step));
        }
    }

    pub(super) fn add(&self, run: u64, error: Error) {
        self.lock().insert(run, error);
    }

    /// Records the failures that a device remembered, as read from the run `own`. Returns the number of
    /// failures before that run of which the device kept only the count.
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

    /// Drops the errors of a run, because the caller has received them from its step.
    pub(super) fn forget(&self, run: u64) {
        self.lock().untold.retain(|(known, _)| *known != run);
    }

    /// Returns the first error of an earlier run, if there is one.
    pub(super) fn tell_before(&self, run: u64) -> Result<()> {
        let mut state = self.lock();
        match state.untold.first() {
            Some((first, _)) if *first < run => Err(state.untold.remove(0).1),
            _ => Ok(()),
        }
    }

    /// Returns the first error, if there is one.
    pub(super) fn tell(&self) -> Result<()> {
        self.tell_before(u64::MAX)
    }
}
