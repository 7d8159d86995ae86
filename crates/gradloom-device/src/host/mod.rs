//! Host-side parts: threads, instruction sets, initial values, constants and custom ops.

mod constants;
mod custom_op;
mod initial;
mod machine;
pub mod math;
mod multiversion;
mod pool;
pub mod random;
mod roofline;
pub mod work;

pub use constants::fill_constant;
pub use custom_op::run_on_host;
pub use initial::{InitialKey, fill_initial};
pub use machine::{InstructionSet, Machine, last_level_cache, memory};
pub use pool::{Pool, current_worker, spin_until};
pub use roofline::Roofline;
