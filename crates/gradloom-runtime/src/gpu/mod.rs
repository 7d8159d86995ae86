//! Code that the backends for GPUs share: the two of WebGPU, native and in a browser, and CUDA's.
//!
//! In: a plan and memory. Out: the bytes that each kernel binds, the ops that the host runs in between, and
//! the meaning of what a step leaves. Nothing here talks to a device.

#[cfg(any(feature = "wgpu", feature = "web"))]
mod bindings;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod host_launch;
mod regions;
mod results;
mod status;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod window;

#[cfg(feature = "wgpu")]
pub(crate) use bindings::BoundBytes;
#[cfg(any(feature = "wgpu", feature = "web"))]
pub(crate) use bindings::{Tables, bound_bytes};
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub(crate) use host_launch::{HostLaunch, Span as HostSpan, host_launches};
pub(crate) use regions::{Regions, cuts};
pub(crate) use results::Results;
pub(crate) use status::{STATUS_BYTES, STEP_BYTES};
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub(crate) use window::check_window;
