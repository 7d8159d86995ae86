//! Lowering of graphs to kernels and launches for one target.
//!
//! In: a graph of `gradloom-core`. Out: launches. This crate describes devices, but never accesses one: it
//! allocates no device memory and runs no kernel.

// Indices, sizes and addresses are never truncated silently: conversions are checked, and each exception
// states its reason.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod collective;
pub mod cpu;
pub mod cuda;
pub mod edges;
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
