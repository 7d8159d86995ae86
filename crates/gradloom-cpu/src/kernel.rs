//! The interface between CPU kernels and the program that runs them.
//!
//! In: a launch, converted to a [`Prepared`] kernel when the program is loaded. Out: a kernel that requires
//! only the base addresses of the buffers ([`Call`]), so that a step neither allocates nor makes decisions.
//! Invariant: every element of a contiguous write is written, unless the run returns a [`Trap`].

use super::Pool;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A prepared launch: loop nests and function variants have been chosen, and only base addresses are missing.
pub trait Prepared: Send + Sync {
    /// Computes the writes from the reads.
    ///
    /// # Errors
    /// Returns a [`Trap`] if there is no result for the operands' values; the contents of the writes are then
    /// unspecified.
    fn run(&self, call: &Call<'_>) -> Result<(), Trap>;

    /// Returns the kernel's tasks, which may run concurrently with those of other kernels; `None` if the
    /// kernel itself runs them, because their number may depend on the operands' values.
    fn tasks(&self) -> Option<&dyn Tasks> {
        None
    }
}

impl<T: Tasks> Prepared for T {
    fn run(&self, call: &Call<'_>) -> Result<(), Trap> {
        for phase in 0..self.phases() {
            let forget = ForgetOnPanic { tasks: self, call, phase };
            // SAFETY: the addresses are those of the launch; each task runs once, and a run of the pool ends
            // when all its tasks have ended.
            call.pool.run(self.count(phase), &|index| unsafe { self.run_task(call, phase, index) });
            drop(forget);
            self.outcome(call, phase)?;
        }
        Ok(())
    }

    fn tasks(&self) -> Option<&dyn Tasks> {
        Some(self)
    }
}

/// A kernel divided into tasks. Those of a phase run in any order and concurrently, after all tasks of the
/// phase before it, and only if that did not trap. The number of tasks depends on the launch alone.
pub trait Tasks: Send + Sync {
    /// Returns the number of phases; at least 1.
    fn phases(&self) -> usize {
        1
    }

    /// Returns the number of tasks of a phase, which may be 0.
    fn count(&self, phase: usize) -> usize;

    /// Returns the approximate cost of a task of a phase, in nanoseconds on one core. A group of kernels
    /// joins small tasks.
    fn cost(&self, phase: usize) -> usize {
        let _ = phase;
        GRAIN_COST
    }

    /// Runs a task of a phase.
    ///
    /// # Safety
    /// `call` must meet the requirements documented on [`Call`] for the launch that this kernel was prepared
    /// from. Per call, each task must run at most once, and only after all tasks of earlier phases have
    /// ended.
    unsafe fn run_task(&self, call: &Call<'_>, phase: usize, index: usize);

    /// Returns the outcome of a phase whose tasks have ended, and forgets it.
    ///
    /// # Errors
    /// Returns a [`Trap`] if there is no result for the operands' values. It does not depend on the order in
    /// which tasks ran.
    fn outcome(&self, call: &Call<'_>, phase: usize) -> Result<(), Trap> {
        let _ = (call, phase);
        Ok(())
    }
}

/// Forgets the outcome of a phase if a task panics, so that the next run does not find it.
pub(super) struct ForgetOnPanic<'a> {
    pub(super) tasks: &'a dyn Tasks,
    pub(super) call: &'a Call<'a>,
    pub(super) phase: usize,
}

impl Drop for ForgetOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.tasks.outcome(self.call, self.phase);
        }
    }
}

/// Approximate cost of a task of [`GRAIN`](super::work::GRAIN) elements that are copied, in nanoseconds on
/// one core.
const GRAIN_COST: usize = 10_000;

/// Addresses for one run of a [`Prepared`] kernel.
///
/// The addresses are the starts of the buffers; the kernel adds the offsets of the launch's layouts.
pub struct Call<'a> {
    /// Thread pool to run on.
    pub pool: &'a Pool,
    /// Buffers of the reads, each aligned for its elements and with at least `layout.end()` of them.
    pub reads: &'a [*const u8],
    /// Buffers of the writes, with the same alignment and size. A write overlaps a read's window only if the
    /// launch allows it.
    pub writes: &'a [*mut u8],
    /// `launch.workspace` bytes, aligned like every buffer.
    pub scratch: *mut u8,
}

// SAFETY: a call only contains addresses. Kernel code that dereferences one does so in an `unsafe` block,
// which must justify that the tasks of a run access disjoint elements of the writes.
unsafe impl Sync for Call<'_> {}

impl Call<'_> {
    /// Returns the address of element `offset` of a read's buffer.
    ///
    /// The address is computed without a bounds check; the kernel is responsible for dereferencing it safely.
    #[inline]
    pub fn read<T>(&self, read: usize, offset: usize) -> *const T {
        self.reads[read].cast::<T>().wrapping_add(offset)
    }

    /// Returns the address of element `offset` of a write's buffer.
    #[inline]
    pub fn write<T>(&self, write: usize, offset: usize) -> *mut T {
        self.writes[write].cast::<T>().wrapping_add(offset)
    }

    /// Returns the address of byte `offset` of the workspace.
    #[inline]
    pub fn scratch(&self, offset: usize) -> *mut u8 {
        self.scratch.wrapping_add(offset)
    }
}

/// Reason why a kernel has no result, such as an index out of range, an integer division by zero or an error
/// of a user-defined op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Description of the trap, which includes the offending number and its position.
    pub message: String,
}

impl Trap {
    /// Creates a trap with the given message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Trap {}

/// The smallest position at which the tasks of a run found a fault, so that the message does not depend on
/// which thread came first.
#[derive(Debug)]
pub struct FirstFault(AtomicUsize);

impl Default for FirstFault {
    fn default() -> Self {
        Self::new()
    }
}

impl FirstFault {
    /// Creates an empty record.
    pub fn new() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }

    /// Records a fault at a row-major position.
    pub fn record(&self, position: usize) {
        self.0.fetch_min(position, Ordering::Relaxed);
    }

    /// Returns the smallest recorded position, after the run has ended, and forgets it.
    pub fn take(&self) -> Option<usize> {
        let position = self.0.swap(usize::MAX, Ordering::Relaxed);
        (position != usize::MAX).then_some(position)
    }
}
