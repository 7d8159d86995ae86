//! Devices for tests, and functions that alter them. Not part of the library's public interface.

use crate::error::Result;
use gradloom_runtime::Device;

pub use gradloom_runtime::testing::{lose, standalone_without_sharing};
#[cfg(feature = "wgpu")]
pub use gradloom_wgpu::testing::{WgpuOverrides, overriding, wgpu_limited, wgpu_overriding};

/// Returns the GPU for tests, selected by a part of its name. `cuda` selects the first NVIDIA GPU through
/// CUDA, and `cuda-uncaptured` the same GPU without CUDA graphs.
///
/// # Errors
/// Returns the same errors as [`WgpuDevice::wgpu`](crate::WgpuDevice::wgpu) and
/// [`CudaDevice::cuda`](crate::CudaDevice::cuda).
pub fn gpu(name: &str) -> Result<Device> {
    use crate::{CudaDevice as _, WgpuDevice as _};
    match name {
        "cuda" => Device::cuda(),
        #[cfg(feature = "cuda")]
        "cuda-uncaptured" => Device::cuda_with(&crate::CudaOptions::default().uncaptured()),
        _ => Device::wgpu_named(name),
    }
}
