//! Constructors of devices for GPUs through WebGPU.

use crate::backend::WgpuBackend;
use crate::{Tuning, WgpuOptions};
use gradloom_core::error::Result;
use gradloom_device::Device;

/// Extension trait that adds constructors for GPUs through WebGPU to [`Device`].
pub trait WgpuDevice: Sized {
    /// Opens the best GPU of this machine that WebGPU can use, through Vulkan, Metal or Direct3D 12. Software
    /// adapters are excluded; see [`WgpuDevice::wgpu_named`].
    ///
    /// If the driver supports it, compiled kernels are cached in `gradloom/pipelines` in the user's cache
    /// folder, which can be deleted at any time.
    ///
    /// WGSL permits drivers to assume that there are no NaNs or infinities. Functions, comparisons and
    /// reductions detect them by their bits, and `x - x` and `x * 0.0` propagate them. A driver may still
    /// compute a finite number for longer formulas whose terms cancel, such as `x + 1.0 - x` with an infinite
    /// x.
    ///
    /// # Errors
    /// Returns an error if there is no such GPU, or it cannot be opened.
    fn wgpu() -> Result<Self> {
        Self::wgpu_with(&WgpuOptions::default())
    }

    /// Opens the best GPU whose name contains `name`, ignoring case. Software adapters such as `llvmpipe` and
    /// `SwiftShader` are included.
    ///
    /// # Errors
    /// Same as [`WgpuDevice::wgpu`].
    fn wgpu_named(name: &str) -> Result<Self> {
        Self::wgpu_with(&WgpuOptions::default().adapter(name).software())
    }

    /// Opens a GPU with the given options.
    ///
    /// ```no_run
    /// use gradloom_codegen::pipeline::Precision;
    /// use gradloom_device::Device;
    /// use gradloom_wgpu::{WgpuDevice, WgpuOptions};
    ///
    /// let device = Device::wgpu_with(&WgpuOptions::default().precision(Precision::F16))?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if [`WgpuDevice::wgpu`] would, or if the adapter lacks a feature that an option
    /// requires; the error names the feature.
    fn wgpu_with(options: &WgpuOptions) -> Result<Self>;

    /// Returns the results of measuring products and attention so far; `None` if the device measures nothing,
    /// which is the default (see [`WgpuOptions::tuned`]).
    fn tuning(&self) -> Option<Tuning>;
}

impl WgpuDevice for Device {
    fn wgpu_with(options: &WgpuOptions) -> Result<Self> {
        Ok(Self::new(WgpuBackend::new(options)?))
    }

    fn tuning(&self) -> Option<Tuning> {
        self.backend_of::<WgpuBackend>()?.tuning()
    }
}
