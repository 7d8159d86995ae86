//! The device-independent part of the gradloom compiler: IR, tracing, gradients, optimizers, passes and
//! planning.

extern crate self as gradloom;

pub mod collections;
pub mod decimal;
pub mod error;
pub(crate) mod float;
pub mod fuse;
pub mod grad;
pub mod ir;
#[doc(hidden)]
pub mod json;
pub mod kernel;
pub mod nn;
pub mod optim;
pub mod passes;
pub mod philox;
// Truncating casts are denied here because indices, sizes and addresses must not be cut off silently. Each
// exception states its reason.
#[cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
pub mod plan;
pub mod reference;
pub mod trace;
pub mod verify;
