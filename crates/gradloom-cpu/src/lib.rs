//! The CPU backend: kernels over strided windows of buffers, and the threads that run them.
//!
//! In: a [`Launch`](gradloom_core::kernel::Launch), then, for every run, base addresses of its buffers. Out:
//! its writes, filled, or a [`Trap`]. Always holds: work is split by shape alone, so the bits of a result do
//! not depend on the number of threads. Elementwise kernels and reductions round after every operation, so
//! their bits do not depend on the instruction set either; those of products and attention do.

mod attention;
mod custom;
mod device;
mod dot;
mod elementwise;
mod fill;
// No number is cut off silently: what indexes, sizes and addresses are made of is converted with checks, and
// each exception gives its reason.
#[cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
mod fused;
mod group;
mod index;
mod initial;
mod kernel;
mod math;
mod matrix;
mod movement;
mod multiversion;
#[cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#[cfg(any(target_arch = "x86_64", all(target_arch = "wasm32", feature = "web-cpu")))]
mod native;
mod pool;
mod prepare;
mod program;
mod random;
mod reduce;
mod roofline;
mod rows;
mod simd;
mod strided_reader;
#[cfg(test)]
mod testing;
mod work;

pub use device::{InstructionSet, Loops, Machine};
pub use fill::fill_constant;
pub use initial::{InitialKey, fill_initial};
pub use kernel::{Call, FirstFault, Prepared, Tasks, Trap};
pub use pool::Pool;
pub use prepare::{prepare, prepare_with};
pub(crate) use program::CpuBackend;
pub use roofline::Roofline;

/// The machine that this runs on.
pub fn describe() -> Machine {
    Machine::detect()
}
