//! NVIDIA GPUs through CUDA.
//!
//! In: plans lowered to CUDA C (`gradloom-codegen`). Out: steps, each one graph of kernels that is launched
//! once, or several with users' ops on the host between them. Always holds: nothing waits for the device but
//! an explicit read, an op on the host, and a step that has four before it; whether a step commits is decided
//! on the device; a replay changes nothing in the graph, whose edges are the plan's dependencies; what goes
//! wrong reaches the caller as an error.

mod algorithms;
mod backend;
mod clock;
mod cublas;
mod device;
mod devices;
mod driver;
mod exchange;
#[cfg(test)]
mod fake;
mod gpu;
mod graph;
mod kept;
mod kernels;
mod load;
mod memory;
mod nvidia;
mod nvtx;
mod options;
mod pending;
mod poller;
mod profile;
mod program;
#[cfg(test)]
mod tests;

pub use device::CudaDevice;
pub use devices::{CudaReport, cuda_devices};
pub use options::CudaOptions;
