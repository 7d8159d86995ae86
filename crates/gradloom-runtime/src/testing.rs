//! What tests change in devices and programs: lower limits, defects, loss. Not part of the library's
//! interface.

use crate::device::Device;
use crate::program::Program;
use gradloom_core::error::Result;
use gradloom_core::ir::Graph;
use gradloom_core::plan::Plan;
use gradloom_core::reference::Leaves;

#[cfg(feature = "wgpu")]
mod adapter;
#[cfg(feature = "wgpu")]
pub use adapter::{WgpuOverrides, overriding, wgpu_limited, wgpu_overriding};

/// The GPU that tests run on, by a part of its name; `cuda` is the first NVIDIA GPU through CUDA,
/// `cuda-uncaptured` the same without graphs.
///
/// # Errors
/// As [`Device::wgpu`] and [`Device::cuda`].
pub fn gpu(name: &str) -> Result<Device> {
    match name {
        "cuda" => Device::cuda(),
        #[cfg(feature = "cuda")]
        "cuda-uncaptured" => Device::cuda_with(&crate::CudaOptions::default().uncaptured()),
        _ => Device::wgpu_named(name),
    }
}

/// Takes the device away, as a crash of its driver does. Nothing happens on devices that cannot get lost.
pub fn lose(device: &Device) {
    device.backend.lose();
}

/// Like [`Program::standalone`], with bytes of its own for every value of a step ([`Plan::without_sharing`]).
///
/// # Errors
/// As [`Program::standalone`].
pub fn standalone_without_sharing(graph: Graph, device: &Device, leaves: &Leaves<'_>) -> Result<Program> {
    Program::replanned(graph, device, leaves, &Plan::without_sharing)
}
