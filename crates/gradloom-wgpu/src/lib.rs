//! Backend for GPUs through WebGPU: Vulkan, Metal and Direct3D 12.
//!
//! In: plans lowered to WGSL (`gradloom-codegen`). Out: steps, each usually one compute pass in one
//! submission; there are several submissions if the device is idle or the host runs custom ops in between.
//! Invariant: the host waits for the device only in explicit reads, for ops on the host, and for a step
//! that has four unfinished ones before it; the device decides whether a step commits; failures reach the
//! caller as errors.

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
