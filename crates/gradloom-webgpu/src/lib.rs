//! WebGPU as a browser offers it: programs are described to a page's script, which runs them.
//!
//! In: plans lowered to WGSL. Out: calls of a [`WebHost`]: buffers, kernels, copies, submissions. Always
//! holds: nothing here waits, because a page must not. Results of a step are there once the host has them
//! ([`WebHost::results`]); the script awaits that before it asks.

mod backend;
mod host;
mod memory;
mod program;

use gradloom_codegen::pipeline::Limits;
use gradloom_device::Device;
pub use host::{WebCopy, WebHost, WebKernel, WebRange};
pub use memory::WebMemory;
use std::sync::Arc;

/// The GPU of a page, as a script offers it: with what limits, and with how many bytes a buffer has at most.
pub fn device(host: Arc<dyn WebHost>, limits: Limits, buffer_bytes: u64) -> Device {
    Device::new(backend::WebBackend::new(host, limits, buffer_bytes))
}
