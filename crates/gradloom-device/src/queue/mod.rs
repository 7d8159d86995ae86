//! Code shared by the GPU backends: WebGPU, native and in a browser, and CUDA.
//!
//! In: a plan and memory. Out: the bytes that each kernel binds, the ops that the host runs in between, and
//! the decoded results of a step. This module makes no calls to a device.
mod bindings;
mod host_launch;
mod regions;
mod results;
mod stagings;
mod status;
mod window;
pub use bindings::BoundBytes;
pub use bindings::{Tables, bound_bytes, table};
pub use host_launch::{HostLaunch, Span as HostSpan, host_launches};
pub use regions::{Regions, cuts};
pub use results::Results;
pub use stagings::Stagings;
pub use status::{STATUS_BYTES, STEP_BYTES};
pub use window::check_window;
