//! Printing of kernels as CUDA C, for NVIDIA's runtime compiler.
//!
//! In: [kernels](crate::simt::Kernel). Out: a function with C linkage for each. Its parameters are the
//! kernel's buffers in order, then the step's status. Floating-point code must be compiled as written:
//! without contraction (`--fmad=false`) and without fast approximations.

pub mod exchange;
mod functions;
mod launch;
#[cfg(feature = "nvrtc")]
pub mod nvrtc;
mod place;
mod print;
mod replay;
mod target;
mod units;
mod warpgroups;

pub use crate::collective::Collective;
pub use crate::library::{
    EXTENT_ALIGNMENT, LARGE_PRODUCT, LibraryMatrix, LibraryProduct, ROOM_BEHIND, ROW_ALIGNMENT, Room,
    may_use_library,
};
pub(crate) use crate::library::{least_product, takes_lines_behind};
pub use launch::{CudaKernel, Parameter, Span, Spans, Work};
pub(crate) use place::Addresses;
pub use print::print;
pub use replay::{Cut, Member, REUSE_DISTANCE, Replay, ReplayNode, Shape};
pub(crate) use target::Cuda;
pub use units::units;
