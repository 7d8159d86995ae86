//! Adapters that offer less than they have, or are otherwise wrong.

use crate::WgpuOptions;
use crate::backend::WgpuBackend;
use gradloom_codegen::pipeline::Limits;
use gradloom_codegen::wgsl::Dispatch;
use gradloom_core::error::Result;
use gradloom_core::fuse::Fusion;
use gradloom_device::Device;

/// Changes of an adapter.
#[derive(Clone, Debug, Default)]
pub struct WgpuOverrides {
    /// Changes what shaders are made for, within what the adapter offers.
    pub limits: Option<fn(&mut Limits)>,
    /// Bytes of a buffer, at most.
    pub buffer_bytes: Option<u64>,
    /// Changes shaders, as a defect of the compiler or the driver would.
    pub dispatch: Option<fn(&mut Dispatch)>,
    /// The folder for compiled pipelines, instead of the user's cache folder.
    pub cache: Option<std::path::PathBuf>,
}

/// Returns the adapter of this name (any, if it is empty), with less than it offers; with [`Fusion::Off`] a
/// kernel for each op.
///
/// # Errors
/// As [`WgpuDevice::wgpu`](crate::WgpuDevice::wgpu).
pub fn wgpu_limited(name: &str, limit: fn(&mut Limits), fusion: Fusion) -> Result<Device> {
    wgpu_overriding(name, WgpuOverrides { limits: Some(limit), ..WgpuOverrides::default() }, fusion)
}

/// Like [`wgpu_limited`], with whatever a test wants to be otherwise.
///
/// # Errors
/// As [`WgpuDevice::wgpu`](crate::WgpuDevice::wgpu).
pub fn wgpu_overriding(name: &str, overrides: WgpuOverrides, fusion: Fusion) -> Result<Device> {
    let options = overriding(WgpuOptions::default().adapter(name).software(), overrides);
    Ok(Device::new(WgpuBackend::new(&options)?.with_fusion(fusion)))
}

/// Returns the options with overrides.
pub fn overriding(mut options: WgpuOptions, overrides: WgpuOverrides) -> WgpuOptions {
    options.overrides = overrides;
    options
}
