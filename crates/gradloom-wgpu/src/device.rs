//! GPUs through WebGPU as devices.

use crate::backend::WgpuBackend;
use crate::{Tuning, WgpuOptions};
use gradloom_core::error::Result;
use gradloom_device::Device;

/// Constructors of [`Device`] for GPUs through WebGPU.
pub trait WgpuDevice: Sized {
    /// The best GPU of this machine that WebGPU can use: through Vulkan, Metal or Direct3D 12. Adapters that
    /// compute on the CPU are not taken; see [`WgpuDevice::wgpu_named`].
    ///
    /// If the driver allows it, compiled kernels are kept in `gradloom/pipelines` in the user's cache
    /// folder, which can be deleted at any time.
    ///
    /// WGSL lets a driver compute as if there were neither NaN nor infinity. Functions, comparisons and
    /// reductions tell them by their bits, and `x - x` and `x * 0.0` do; but a driver may still make a number
    /// of longer formulas whose terms cancel, as `x + 1.0 - x` of an infinite x.
    ///
    /// # Errors
    /// When there is none, or it cannot be opened.
    fn wgpu() -> Result<Self> {
        Self::wgpu_with(&WgpuOptions::default())
    }

    /// The best GPU whose name contains `name`, in any case; one that computes on the CPU too (`llvmpipe`,
    /// `SwiftShader`).
    ///
    /// # Errors
    /// As [`WgpuDevice::wgpu`].
    fn wgpu_named(name: &str) -> Result<Self> {
        Self::wgpu_with(&WgpuOptions::default().adapter(name).software())
    }

    /// A GPU with options: which one, in which type it multiplies, and whether products are measured.
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
    /// As [`WgpuDevice::wgpu`]; when the adapter lacks what an option needs, naming it.
    fn wgpu_with(options: &WgpuOptions) -> Result<Self>;

    /// Returns the results of measuring products and attention so far; `None` of a device that does not
    /// measure: see [`WgpuOptions::tuned`].
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
