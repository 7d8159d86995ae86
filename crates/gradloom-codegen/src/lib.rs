//! Lowering: what a target can run, and how its kernels split their work.
//!
//! In: a graph of `gradloom-core`. Out: launches for one target. Knows targets, but no device: nothing here
//! allocates or runs.

// No number is cut off silently: what indexes, sizes and addresses are made of is converted with checks, and
// each exception gives its reason.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod cpu;
pub mod cuda;
pub mod kernels;
mod library;
mod limits;
mod lower;
mod narrow;
pub mod pipeline;
pub mod product;
pub mod schedule;
pub mod simt;
pub mod step;
pub mod wgsl;
