//! The gradloom compiler without a device: IR, tracing, gradients, optimizers, passes and plan.

extern crate self as gradloom;

pub mod collections;
pub mod error;
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
pub mod plan;
pub mod reference;
pub mod trace;
pub mod verify;
