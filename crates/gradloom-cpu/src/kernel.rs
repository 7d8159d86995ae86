//! The interface between CPU kernels and the program that runs them.
//!
//! In: a launch, turned into a [`Prepared`] kernel when the program is loaded. Out: a kernel that needs only
//! the base addresses of the buffers ([`Call`]), so that a step allocates nothing and decides nothing. Always
//! holds: every element of a contiguous write is written, unless the run returns a [`Trap`].

use super::Pool;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A launch, prepared: loop nests and function variants are chosen; only base addresses are missing.
pub trait Prepared: Send + Sync {
    /// Computes the writes from the reads.
    ///
    /// # Errors
    /// A [`Trap`] when the operands' values forbid a result; the writes are then unspecified.
    fn run(&self, call: &Call<'_>) -> Result<(), Trap>;

    /// Returns the tasks that the kernel consists of, where they may run beside those of other kernels. A
    /// kernel that can trap has none.
    fn tasks(&self) -> Option<&dyn Tasks> {
        None
    }
}

/// Number of phases of [`Tasks`].
pub(super) const PHASES: usize = 2;

/// A kernel in pieces: all tasks of phase 0, in any order and at the same time, then all of phase 1. How many
/// there are depends on the launch alone.
pub trait Tasks: Send + Sync {
    /// Returns the number of tasks of a phase; may be 0.
    fn count(&self, phase: usize) -> usize;

    /// Returns the rough cost of a task of a phase, in nanoseconds on one core: small tasks are run several
    /// at a time.
    fn cost(&self, phase: usize) -> usize;

    /// Runs a task.
    ///
    /// # Safety
    /// The addresses are those of the launch; each task runs once, after all tasks of the phases before have
    /// ended.
    unsafe fn run_task(&self, call: &Call<'_>, phase: usize, index: usize);
}

/// Runs all tasks of a kernel.
///
/// # Safety
/// The addresses are those of the launch.
pub(super) unsafe fn run_tasks(tasks: &dyn Tasks, call: &Call<'_>) {
    for phase in 0..PHASES {
        // SAFETY: each task runs once, and a run of the pool ends when all of its tasks have.
        call.pool.run(tasks.count(phase), &|index| unsafe { tasks.run_task(call, phase, index) });
    }
}

/// Addresses for one run of a [`Prepared`] kernel.
///
/// The addresses are those of the buffers; the kernel adds the offsets of the launch's layouts.
pub struct Call<'a> {
    /// Threads to run on.
    pub pool: &'a Pool,
    /// Buffer of each read, aligned to its elements, with at least `layout.end()` of them.
    pub reads: &'a [*const u8],
    /// Buffer of each write, likewise. Overlaps a read's window only where the launch says that it may.
    pub writes: &'a [*mut u8],
    /// `launch.workspace` bytes, aligned like every buffer.
    pub scratch: *mut u8,
}

// SAFETY: a call only carries addresses. Code that dereferences one (in an `unsafe` block of a kernel) shows
// that the tasks of the run touch disjoint elements of the writes.
unsafe impl Sync for Call<'_> {}

impl Call<'_> {
    /// Returns the address of element `offset` of a read's buffer.
    ///
    /// The pointer is computed without a bounds check; dereferencing it is up to the kernel.
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

/// Reason why a kernel has no result: an index out of range, an integer division by zero, a user's op that
/// failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// A description of the trap, with the offending number and its position.
    pub message: String,
}

impl Trap {
    /// Creates a trap with this message.
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

/// The least position at which the tasks of a run met a fault, so that the message does not depend on which
/// thread came first.
#[derive(Debug)]
pub struct FirstFault(AtomicUsize);

impl Default for FirstFault {
    fn default() -> Self {
        Self::new()
    }
}

impl FirstFault {
    /// Creates a record without faults.
    pub fn new() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }

    /// Notes a fault at a row-major position.
    pub fn record(&self, position: usize) {
        self.0.fetch_min(position, Ordering::Relaxed);
    }

    /// Returns the least position that was noted, once the run has ended.
    pub fn get(&self) -> Option<usize> {
        let position = self.0.load(Ordering::Relaxed);
        (position != usize::MAX).then_some(position)
    }
}
