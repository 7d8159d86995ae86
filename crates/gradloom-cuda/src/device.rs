//! Constructors of devices for NVIDIA GPUs.

use crate::CudaOptions;
use crate::backend::CudaBackend;
use gradloom_core::error::Result;
use gradloom_device::Device;

/// Extension trait that adds constructors for NVIDIA GPUs to [`Device`].
pub trait CudaDevice: Sized {
    /// Opens the first NVIDIA GPU of this machine through CUDA. The driver and NVIDIA's runtime compiler,
    /// NVRTC, are loaded at run time; building requires nothing of CUDA.
    ///
    /// Compiled kernels are cached in `gradloom/cubins` in the user's cache folder, which can be deleted at
    /// any time.
    ///
    /// # Errors
    /// Returns an error if there is no such GPU, or it cannot be opened.
    fn cuda() -> Result<Self> {
        Self::cuda_with(&CudaOptions::default())
    }

    /// Opens an NVIDIA GPU with the given options.
    ///
    /// ```no_run
    /// use gradloom_cuda::{CudaDevice, CudaOptions};
    /// use gradloom_device::Device;
    ///
    /// let second = Device::cuda_with(&CudaOptions::default().index(1))?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`CudaDevice::cuda`].
    fn cuda_with(options: &CudaOptions) -> Result<Self>;
}

impl CudaDevice for Device {
    fn cuda_with(options: &CudaOptions) -> Result<Self> {
        Ok(Self::new(CudaBackend::new(options)?))
    }
}
