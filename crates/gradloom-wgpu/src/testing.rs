//! Devices with restricted limits or injected defects, for tests.

use crate::WgpuOptions;
use crate::backend::WgpuBackend;
use gradloom_codegen::pipeline::Limits;
use gradloom_codegen::wgsl::Dispatch;
use gradloom_core::error::Result;
use gradloom_core::fuse::Fusion;
use gradloom_device::Device;

/// Modifications of an adapter.
#[derive(Clone, Debug, Default)]
pub struct WgpuOverrides {
    /// Function that modifies the limits for which shaders are generated, within those of the adapter.
    pub limits: Option<fn(&mut Limits)>,
    /// Maximum size of a buffer in bytes.
    pub buffer_bytes: Option<u64>,
    /// Function that modifies shaders, to simulate a defect of the compiler or the driver.
    pub dispatch: Option<fn(&mut Dispatch)>,
    /// Cache folder for compiled pipelines, instead of the user's cache folder.
    pub cache: Option<std::path::PathBuf>,
}

/// Opens the adapter of this name (any, if it is empty) with limits modified by `limit`. With
/// [`Fusion::Off`], there is one kernel per op.
///
/// # Errors
/// Same as [`WgpuDevice::wgpu`](crate::WgpuDevice::wgpu).
pub fn wgpu_limited(name: &str, limit: fn(&mut Limits), fusion: Fusion) -> Result<Device> {
    wgpu_overriding(name, WgpuOverrides { limits: Some(limit), ..WgpuOverrides::default() }, fusion)
}

/// Like [`wgpu_limited`], with arbitrary overrides.
///
/// # Errors
/// Same as [`WgpuDevice::wgpu`](crate::WgpuDevice::wgpu).
pub fn wgpu_overriding(name: &str, overrides: WgpuOverrides, fusion: Fusion) -> Result<Device> {
    let options = overriding(WgpuOptions::default().adapter(name).software(), overrides);
    Ok(Device::new(WgpuBackend::new(&options)?.with_fusion(fusion)))
}

/// Returns the options with the given overrides.
pub fn overriding(mut options: WgpuOptions, overrides: WgpuOverrides) -> WgpuOptions {
    options.overrides = overrides;
    options
}
