//! GPUs through WebGPU: Vulkan, Metal and Direct3D 12.
//!
//! In: plans lowered to WGSL (`gradloom-codegen`). Out: steps, each one compute pass in one submission, or
//! several where the device is idle or users' ops on the host stand between them. Always holds: nothing waits
//! for the device but an explicit read, an op on the host, and a step that has four before it; whether a step
//! commits is decided on the device; what goes wrong there reaches the caller as an error.

mod adapter;
mod backend;
mod device;
mod download;
mod gpu;
mod host_launch;
mod load;
mod memory;
mod options;
mod pending;
mod pipeline_cache;
mod pipelines;
mod poller;
mod program;
mod single;
#[doc(hidden)]
pub mod testing;
mod timestamps;
mod tune;

pub use adapter::{AdapterReport, adapters};
pub use device::WgpuDevice;
pub use options::WgpuOptions;
pub use tune::Tuning;
