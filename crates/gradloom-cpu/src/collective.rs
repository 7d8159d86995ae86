//! Collective ops: calls of the device's communicator.
//!
//! In: contiguous operands. Out: the results that the communicator writes. Invariant: the launches of a
//! program run in the order of its plan, which is the same on all ranks.

use super::kernel::{Call, Prepared, Tasks, Trap};
use gradloom_core::error::Result;
use gradloom_core::ir::CollectiveOp;
use gradloom_core::kernel::{Access, Launch};
use gradloom_device::communicator::Communicator;
use std::sync::{Arc, Mutex, PoisonError};

/// Returns a kernel for a `Collective` launch of f32 elements.
///
/// # Panics
/// Panics if lowering left an operand that is not contiguous.
pub(super) fn prepare(
    launch: &Launch,
    op: CollectiveOp,
    communicator: Arc<dyn Communicator>,
) -> Box<dyn Prepared> {
    let window = |access: &Access| {
        assert!(access.layout.is_contiguous(), "lowering must copy {}; please report this", access.buffer);
        (access.layout.offset, access.layout.shape.elements())
    };
    Box::new(Collective {
        op,
        communicator,
        reads: launch.reads.iter().map(window).collect(),
        writes: launch.writes.iter().map(window).collect(),
        failure: Mutex::new(None),
    })
}

struct Collective {
    op: CollectiveOp,
    communicator: Arc<dyn Communicator>,
    /// Offset and number of elements of each operand.
    reads: Vec<(usize, usize)>,
    /// Offset and number of elements of each result.
    writes: Vec<(usize, usize)>,
    /// Message of the error of the run in progress.
    failure: Mutex<Option<String>>,
}

impl Collective {
    /// # Safety
    /// The same as of [`Tasks::run_task`].
    unsafe fn run(&self, call: &Call<'_>) -> Result<()> {
        let (reads, writes) = (self.reads.iter().enumerate(), self.writes.iter().enumerate());
        if self.op.keeps_types() {
            for ((i, &(from, elements)), &(to, _)) in reads.zip(&self.writes) {
                let (from, to) = (call.read::<f32>(i, from), call.write::<f32>(i, to));
                // SAFETY: both have that many elements; a result may be its operand.
                unsafe { std::ptr::copy(from, to, elements) };
            }
            return self.communicator.all_reduce(&mut unsafe { results(call, writes) });
        }
        let operands: Vec<&[f32]> = reads
            // SAFETY: the launch's windows lie in the call's buffers, which are aligned and initialized.
            .map(|(i, &(at, n))| unsafe { std::slice::from_raw_parts(call.read::<f32>(i, at), n) })
            .collect();
        let mut results = unsafe { results(call, writes) };
        match self.op {
            CollectiveOp::ReduceScatter => self.communicator.reduce_scatter(&operands, &mut results),
            _ => self.communicator.all_gather(&operands, &mut results),
        }
    }
}

/// Returns the results of a call.
///
/// # Safety
/// The same as of [`Tasks::run_task`]. The results may be used only during the call, and no operand that
/// shares memory with one may be read meanwhile.
unsafe fn results<'r, 'w>(
    call: &Call<'_>,
    writes: impl Iterator<Item = (usize, &'w (usize, usize))>,
) -> Vec<&'r mut [f32]> {
    // SAFETY: the launch's windows lie in the call's buffers, which are aligned and initialized. The plan
    // gives each result memory of its own, apart from operands that it may replace.
    writes
        .map(|(i, &(at, n))| unsafe { std::slice::from_raw_parts_mut(call.write::<f32>(i, at), n) })
        .collect()
}

impl Tasks for Collective {
    fn count(&self, _: usize) -> usize {
        1
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, _: usize) {
        // SAFETY: guaranteed by the caller.
        let done = unsafe { self.run(call) };
        let message = done.err().map(|error| error.message().to_string());
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }

    fn outcome(&self, _: &Call<'_>, _: usize) -> Result<(), Trap> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), |message| Err(Trap::new(message)))
    }
}
