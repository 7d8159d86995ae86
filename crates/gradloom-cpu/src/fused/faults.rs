//! Collects the elements on which the checks of a run fail.
//!
//! In: faults from any thread, in any order. Out: the trap for the first one, ordered by node and position.

use crate::Trap;
use gradloom_codegen::cpu::loops::{Check, Condition};
use gradloom_device::outcome::{divided_by_zero, index_out_of_range};
use std::sync::{Mutex, PoisonError};

/// The first fault of a run so far.
#[derive(Debug)]
pub(crate) struct Faults(Mutex<Option<Fault>>);

#[derive(Debug)]
struct Fault {
    node: usize,
    position: usize,
    message: String,
}

impl Faults {
    /// Creates an empty record.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Records that a check failed on an element, given its row-major position and its bits.
    pub(super) fn record(&self, check: &Check, position: usize, bits: u32) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_some_and(|first| (first.node, first.position) <= (check.node, position)) {
            return;
        }
        let message = match &check.condition {
            Condition::Divisor => divided_by_zero(position),
            Condition::Index { extent, shape } => {
                index_out_of_range(bits.cast_signed(), shape, position, *extent)
            }
        };
        *first = Some(Fault { node: check.node, position, message });
    }

    /// Returns the outcome of the run, and forgets it.
    ///
    /// # Errors
    /// Returns a trap for the first fault.
    pub(crate) fn take(&self) -> Result<(), Trap> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(fault) => Err(Trap::new(fault.message)),
            None => Ok(()),
        }
    }
}
