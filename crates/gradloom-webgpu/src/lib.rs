//! WebGPU as a browser offers it: programs are described to a page's script, which runs them.
//!
//! In: plans lowered to WGSL. Out: calls of a [`WebHost`]: buffers, kernels, copies, submissions. Always
//! holds: nothing here waits, because a page must not. Results of a step are there once the host has them
//! ([`WebHost::results`]); the script awaits that before it asks.

mod backend;
mod host;
mod memory;
mod program;

pub(crate) use backend::WebBackend;
pub use host::{WebCopy, WebHost, WebKernel, WebRange};
pub(crate) use memory::WebMemory;
