//! Lowering: what a target can run, and how its kernels split their work.
//!
//! In: a graph of `gradloom-core`. Out: launches for one target. Knows targets, but no device: nothing here allocates or runs.

pub mod cpu;
mod lower;
pub mod wgsl;
