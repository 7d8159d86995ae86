//! Selection of devices among the backends in a build.

use gradloom_cpu::CpuDevice;
use gradloom_runtime::Device;

use crate::error::Result;

#[cfg(feature = "cuda")]
pub use gradloom_cuda::CudaDevice;
#[cfg(feature = "wgpu")]
pub use gradloom_wgpu::WgpuDevice;
#[cfg(not(feature = "cuda"))]
pub use without_cuda::CudaDevice;
#[cfg(not(feature = "wgpu"))]
pub use without_wgpu::WgpuDevice;

/// Constructor of the best available [`Device`].
pub trait AutoDevice: Sized {
    /// Returns the best device of this machine that the build supports: an NVIDIA GPU through CUDA, otherwise
    /// another GPU that is not emulated in software, otherwise the CPU.
    ///
    /// # Errors
    /// Never returns an error at present, because the CPU is always available.
    fn auto() -> Result<Self>;
}

impl AutoDevice for Device {
    fn auto() -> Result<Self> {
        Ok(Self::cuda().or_else(|_| Self::wgpu()).unwrap_or_else(|_| Self::cpu()))
    }
}

#[cfg(not(all(feature = "cuda", feature = "wgpu")))]
fn missing<T>(has_no: &str, feature: &str) -> Result<T> {
    let message = format!("this build of gradloom has no {has_no}: its feature `{feature}` is off");
    Err(crate::Error::new(crate::ErrorKind::Device, message).help(format!(
        "depend on it with `features = [\"{feature}\"]`, or use `Device::cpu()`; `Device::auto()` takes what \
         there is"
    )))
}

#[cfg(not(feature = "wgpu"))]
mod without_wgpu {
    use super::{Device, Result, missing};

    /// Constructors of [`Device`] for GPUs through WebGPU, which this build does not support.
    pub trait WgpuDevice: Sized {
        /// Returns an error, because this build does not support GPUs.
        ///
        /// # Errors
        /// Always returns an error, which names the missing feature.
        fn wgpu() -> Result<Self> {
            missing("GPUs", "wgpu")
        }

        /// Returns an error, as [`WgpuDevice::wgpu`] does.
        ///
        /// # Errors
        /// Returns the same errors as [`WgpuDevice::wgpu`].
        fn wgpu_named(_: &str) -> Result<Self> {
            Self::wgpu()
        }
    }

    impl WgpuDevice for Device {}
}

#[cfg(not(feature = "cuda"))]
mod without_cuda {
    use super::{Device, Result, missing};

    /// Constructors of [`Device`] for NVIDIA GPUs, which this build does not support.
    pub trait CudaDevice: Sized {
        /// Returns an error, because this build does not support CUDA.
        ///
        /// # Errors
        /// Always returns an error, which names the missing feature.
        fn cuda() -> Result<Self> {
            missing("CUDA", "cuda")
        }
    }

    impl CudaDevice for Device {}
}
