//! The CPU backend: kernels over strided windows of buffers, and the threads that run them.
//!
//! In: a [`Launch`](gradloom_core::kernel::Launch), then, for every run, base addresses of its buffers. Out:
//! its writes, filled, or a [`Trap`]. Invariant: work is divided by shape alone, so the bits of a result
//! do not depend on the number of threads. Elementwise kernels and reductions round after every operation, so
//! their bits do not depend on the instruction set either; those of products and attention do.

mod attention;
mod collective;
mod custom;
mod device;
mod dot;
mod elementwise;
// No number is truncated silently: conversions of indices, sizes and addresses are checked, and each
// exception gives its reason.
mod flow;
#[cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
mod fused;
mod group;
mod index;
mod kernel;
mod matrix;
mod movement;
#[cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#[cfg(any(target_arch = "x86_64", target_arch = "wasm32"))]
mod native;
mod prepare;
mod program;
mod random;
mod reduce;
mod rows;
mod simd;
mod strided_reader;
#[cfg(test)]
mod testing;

pub use device::{CpuDevice, Loops, always_waking, check_environment, compiled_loops};
use gradloom_device::host::{InstructionSet, Machine, Pool, fill_constant, math, work};
use gradloom_device::multiversion;
pub use kernel::{Call, FirstFault, Prepared, Tasks, Trap};
pub use prepare::prepare;

/// Returns a description of how products in bf16 are computed on this machine, such as `bf16 by AVX512_BF16`.
pub fn bf16_products() -> &'static str {
    InstructionSet::detect().bf16_products()
}

/// Returns a description of the machine that this process runs on.
pub fn describe() -> Machine {
    Machine::detect()
}
