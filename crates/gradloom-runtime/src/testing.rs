//! What tests change in devices and programs: lower limits, defects, loss. Not part of the library's
//! interface.

use crate::device::Device;
use crate::program::Program;
#[cfg(feature = "wgpu")]
use crate::wgpu::{WgpuBackend, WgpuOptions};
#[cfg(feature = "wgpu")]
use gradloom_codegen::wgsl::{Dispatch, Limits};
use gradloom_core::error::Result;
#[cfg(feature = "wgpu")]
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::Graph;
use gradloom_core::plan::Plan;
use gradloom_core::reference::Leaves;

/// Changes of an adapter.
#[cfg(feature = "wgpu")]
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

/// The adapter of this name (any, if it is empty), with less than it offers; with [`Fusion::Off`] a kernel
/// for each op.
///
/// # Errors
/// As [`Device::wgpu`].
#[cfg(feature = "wgpu")]
pub fn wgpu_limited(name: &str, limit: fn(&mut Limits), fusion: Fusion) -> Result<Device> {
    wgpu_overriding(name, WgpuOverrides { limits: Some(limit), ..WgpuOverrides::default() }, fusion)
}

/// Like [`wgpu_limited`], with whatever a test wants to be otherwise.
///
/// # Errors
/// As [`Device::wgpu`].
#[cfg(feature = "wgpu")]
pub fn wgpu_overriding(name: &str, overrides: WgpuOverrides, fusion: Fusion) -> Result<Device> {
    let options = overriding(WgpuOptions::default().adapter(name).software(), overrides);
    Ok(Device::with(WgpuBackend::new(&options)?.with_fusion(fusion)))
}

/// Options with overrides.
#[cfg(feature = "wgpu")]
pub fn overriding(mut options: WgpuOptions, overrides: WgpuOverrides) -> WgpuOptions {
    options.overrides = overrides;
    options
}

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
