//! CUDA C: kernels of the common language as text for NVIDIA's runtime compiler.
//!
//! In: [kernels](crate::simt::Kernel). Out: a function of C linkage for each. Its parameters are the kernel's
//! buffers in order, then the step's status. Floats are to be compiled as written: without contraction
//! (`--fmad=false`) and without fast approximations.

mod functions;
mod launch;
mod print;

pub use launch::{CudaKernel, Parameter, kernels};
pub use print::print;
