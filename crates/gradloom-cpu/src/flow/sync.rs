//! The primitives of the scheduler. The test `tests/scheduler.rs` replaces them to try every order of their
//! operations.

use gradloom_device::host::spin_until;
pub(super) use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
pub(super) use std::sync::{Condvar, Mutex};

/// Waits a short time for `done` without sleeping; returns `true` once it holds.
pub(super) fn spin(done: impl Fn() -> bool) -> bool {
    spin_until(done)
}
