//! NVIDIA GPUs as devices.

use crate::CudaOptions;
use crate::backend::CudaBackend;
use gradloom_core::error::Result;
use gradloom_device::Device;

/// Constructors of [`Device`] for NVIDIA GPUs.
pub trait CudaDevice: Sized {
    /// The first NVIDIA GPU of this machine, through CUDA. Its driver and NVIDIA's compiler, NVRTC, are
    /// looked for now; nothing of CUDA is needed to build.
    ///
    /// Compiled kernels are kept in `gradloom/cubins` in the user's cache folder, which can be deleted at any
    /// time.
    ///
    /// # Errors
    /// When there is none, or it cannot be opened.
    fn cuda() -> Result<Self> {
        Self::cuda_with(&CudaOptions::default())
    }

    /// An NVIDIA GPU with options: which one, what it computes in, how its steps run.
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
    /// As [`CudaDevice::cuda`].
    fn cuda_with(options: &CudaOptions) -> Result<Self>;
}

impl CudaDevice for Device {
    fn cuda_with(options: &CudaOptions) -> Result<Self> {
        Ok(Self::new(CudaBackend::new(options)?))
    }
}
