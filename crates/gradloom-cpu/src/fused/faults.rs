//! Collects the indices out of range that the tasks of a run find.
//!
//! In: faults from any thread, in any order. Out: the trap for the first one, in the order of nodes and
//! positions.

use crate::Trap;
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
    /// Creates a record without faults.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Notes that the element of a node at a row-major position is `value`, outside `0..extent`; `shape` is
    /// that of the indices.
    pub(super) fn record(&self, node: usize, position: usize, value: i32, extent: usize, shape: &[usize]) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_some_and(|first| (first.node, first.position) <= (node, position)) {
            return;
        }
        let mut at = vec![0; shape.len()];
        let mut rest = position;
        for (index, extent) in at.iter_mut().zip(shape).rev() {
            *index = rest % extent;
            rest /= extent;
        }
        let message = format!(
            "index {value} at position {at:?} of the indices is out of range: there are {extent} rows \
             (0..{extent})"
        );
        *first = Some(Fault { node, position, message });
    }

    /// Returns the outcome of the run.
    ///
    /// # Errors
    /// For the first fault.
    pub(crate) fn result(self) -> Result<(), Trap> {
        match self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(fault) => Err(Trap::new(fault.message)),
            None => Ok(()),
        }
    }
}
