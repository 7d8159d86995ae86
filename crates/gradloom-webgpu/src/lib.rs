//! Backend for WebGPU in a browser. Programs are described to the script of a web page, which runs them.
//!
//! In: plans lowered to WGSL. Out: calls of a [`WebHost`] that create buffers, kernels and copies, and submit
//! steps. Invariant: nothing here blocks, because a web page must not. The script waits for the results of
//! a step ([`WebHost::results`]) before the program reads them.

mod backend;
mod host;
mod memory;
mod program;

use gradloom_codegen::pipeline::Limits;
use gradloom_device::Device;
pub use host::{WebCopy, WebHost, WebKernel, WebRange};
pub use memory::WebMemory;
use std::sync::Arc;

/// Creates the device of a web page; `buffer_bytes` is the maximum size of a buffer in bytes.
pub fn device(host: Arc<dyn WebHost>, limits: Limits, buffer_bytes: u64) -> Device {
    Device::new(backend::WebBackend::new(host, limits, buffer_bytes))
}
