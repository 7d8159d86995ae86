//! Backend for NVIDIA GPUs through CUDA.
//!
//! In: plans lowered to CUDA C (`gradloom-codegen`). Out: steps, each a single launch of one graph of
//! kernels, or of several if the host runs custom ops in between. Invariant: the host waits for the device
//! only in explicit reads, for ops on the host, and for a step that has four unfinished ones before it; the
//! device decides whether a step commits; a replay does not modify the graph, whose edges are the plan's
//! dependencies; failures reach the caller as errors.

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
mod library;
mod load;
mod memory;
mod nccl;
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
pub use driver::GpuLink;
pub use options::CudaOptions;
