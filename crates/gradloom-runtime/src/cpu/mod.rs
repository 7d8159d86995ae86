//! The CPU backend: kernels over strided windows of buffers, and the threads that run them.
//!
//! In: a [`Launch`](gradloom_core::kernel::Launch), then, for every run, base addresses of its buffers. Out: its writes, filled, or a [`Trap`].
//! Always holds: work is split by shape alone, so the bits of a result do not depend on the number of threads; no kernel uses
//! fused multiply-add where another instruction set would not, so elementwise results do not depend on the instruction set either.

mod kernel;
mod pool;

pub use kernel::{Call, FirstFault, Prepared, Trap};
pub use pool::Pool;
