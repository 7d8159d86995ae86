//! Code that both WebGPU backends share: the native one through `wgpu`, and the browser's.
//!
//! In: a plan and memory. Out: kernels in order, the bytes that each binds, and the meaning of what a step
//! leaves. Nothing here talks to a device.

mod bindings;
mod regions;
mod results;
mod status;

#[cfg(feature = "wgpu")]
pub(crate) use bindings::BoundBytes;
pub(crate) use bindings::{Tables, bound_bytes};
pub(crate) use regions::{Regions, cuts};
pub(crate) use results::Results;
#[cfg(feature = "wgpu")]
pub(crate) use results::gather;
pub(crate) use status::{STATUS_BYTES, STEP_BYTES};
