//! Enumeration and opening of adapters.

use super::WgpuOptions;
use super::gpu::{Gpu, Health};
use super::pipeline_cache::SavedPipelines;
use gradloom_codegen::pipeline::Precision;
use gradloom_codegen::wgsl;
use gradloom_core::error::{Error, ErrorKind, Result};
use std::sync::{Arc, OnceLock};
use wgpu::{
    Adapter, Backends, CooperativeScalarType, DeviceType, ExperimentalFeatures, Features, Instance,
    InstanceDescriptor, Limits,
};

/// Description of an adapter.
#[derive(Clone, Debug)]
pub struct AdapterReport {
    /// Model name.
    pub name: String,
    /// Graphics API: `Vulkan`, `Metal` or `Dx12`.
    pub backend: String,
    /// Name and version of the driver.
    pub driver: String,
    /// Kind of device: `discrete`, `integrated`, `virtual`, `software` or `other`.
    pub kind: &'static str,
    /// Limits and features for shaders. Cooperative matrices are used only with [`Precision::F16`].
    pub limits: wgsl::Limits,
    /// Maximum size of a buffer in bytes.
    pub buffer_bytes: u64,
    /// True if the adapter can measure the times of single kernels.
    pub timestamps: bool,
}

impl AdapterReport {
    fn new(adapter: &Adapter) -> Self {
        let info = adapter.get_info();
        Self {
            backend: format!("{:?}", info.backend),
            driver: [info.driver, info.driver_info].join(" ").trim().to_string(),
            kind: match info.device_type {
                DeviceType::DiscreteGpu => "discrete",
                DeviceType::IntegratedGpu => "integrated",
                DeviceType::VirtualGpu => "virtual",
                DeviceType::Cpu => "software",
                DeviceType::Other => "other",
            },
            limits: limits(adapter),
            buffer_bytes: adapter.limits().max_buffer_size,
            timestamps: adapter.features().contains(TIMESTAMPS),
            name: info.name,
        }
    }
}

/// Features for timestamps inside a compute pass.
const TIMESTAMPS: Features = Features::TIMESTAMP_QUERY.union(Features::TIMESTAMP_QUERY_INSIDE_PASSES);

/// Returns all adapters of this machine.
///
/// If a process has no display (`XDG_RUNTIME_DIR` is not set), a layer of Mesa's Vulkan drivers prints an
/// error to standard error, here and when a device is opened. The error does not affect computation. To
/// suppress it, set `NODEVICE_SELECT=1`, which disables the layer, before starting threads; gradloom itself
/// does not modify the environment.
pub fn adapters() -> Vec<AdapterReport> {
    sorted(instance()).iter().map(AdapterReport::new).collect()
}

/// Returns the wgpu instance of the process. It is never dropped: if drivers are unloaded and reloaded many
/// times, or unloaded while a thread that used them ends, they crash or are no longer found (NVIDIA 580 on
/// an H100).
fn instance() -> &'static Instance {
    static INSTANCE: OnceLock<Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        let backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
        Instance::new(InstanceDescriptor {
            backends,
            ..InstanceDescriptor::new_without_display_handle_from_env()
        })
    })
}

/// Returns the adapters, fastest kind first: discrete, integrated, virtual, other, software.
fn sorted(instance: &Instance) -> Vec<Adapter> {
    let mut all = pollster::block_on(instance.enumerate_adapters(Backends::all()));
    all.sort_by_key(|adapter| match adapter.get_info().device_type {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    });
    all
}

fn limits(adapter: &Adapter) -> wgsl::Limits {
    let (limits, info, features) = (adapter.limits(), adapter.get_info(), adapter.features());
    let one_size = info.subgroup_min_size == info.subgroup_max_size && features.contains(Features::SUBGROUP);
    wgsl::Limits {
        invocations: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x),
        workgroup_memory: limits.max_compute_workgroup_storage_size,
        storage_buffers: limits.max_storage_buffers_per_shader_stage as usize,
        // Limit bindings to the size that the shaders' 32-bit offsets can address.
        binding_bytes: limits.max_storage_buffer_binding_size.min(u32::MAX.into()),
        workgroups: limits.max_compute_workgroups_per_dimension,
        subgroup: one_size.then_some(info.subgroup_max_size),
        f16: features.contains(Features::SHADER_F16),
        bf16: false,
        cooperative: features.contains(Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
            && adapter.cooperative_matrix_properties().iter().any(|matrix| {
                (matrix.m_size, matrix.n_size, matrix.k_size) == (16, 16, 16)
                    && matrix.ab_type == CooperativeScalarType::F16
                    && matrix.cr_type == CooperativeScalarType::F32
            }),
        tf32: false,
        fragments: false,
        large_memory: None,
        warpgroups: false,
        branches: false,
        fours: false,
        library: None,
        software: info.device_type == DeviceType::Cpu,
        scalar: info.name.contains("SwiftShader"),
    }
}

/// Checks that an adapter supports a precision.
///
/// # Errors
/// Returns an error if [`Precision::F16`] is requested and the adapter lacks features for it, which the error
/// lists.
fn check(offered: wgsl::Limits, precision: Precision, name: &str) -> Result<()> {
    if precision != Precision::F16 {
        return Ok(());
    }
    let needed = [
        (offered.f16, "f16 in shaders"),
        (offered.subgroup.is_some(), "subgroups of one size"),
        (offered.cooperative, "cooperative matrices (16 x 16, f16 with sums in f32)"),
    ];
    let lacks: Vec<&str> = needed.into_iter().filter_map(|(has, what)| (!has).then_some(what)).collect();
    if lacks.is_empty() {
        return Ok(());
    }
    // Reject the precision, because rounding operands costs accuracy and gains no speed without cooperative
    // matrices.
    let message = format!("the GPU `{name}` cannot multiply in f16: it has no {}", lacks.join(", no "));
    Err(Error::new(ErrorKind::Device, message)
        .help("multiply in f32, or take another adapter; `adapters()` lists what each offers"))
}

/// Opens the best adapter that matches the options.
pub(super) fn open(options: &WgpuOptions) -> Result<Gpu> {
    let name = options.adapter.as_deref().unwrap_or_default();
    let wanted = name.to_lowercase();
    let all = sorted(instance());
    let fits = |adapter: &&Adapter| {
        let info = adapter.get_info();
        let named = !wanted.is_empty() && info.name.to_lowercase().contains(&wanted);
        named || wanted.is_empty() && (options.software || info.device_type != DeviceType::Cpu)
    };
    let Some(adapter) = all.iter().find(fits) else {
        let infos: Vec<_> = all.iter().map(Adapter::get_info).collect();
        let names: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
        let software = infos.iter().find(|info| info.device_type == DeviceType::Cpu);
        let message = match wanted.as_str() {
            "" => "there is no GPU that WebGPU can use".to_string(),
            _ => format!("there is no GPU whose name contains `{name}`"),
        };
        let error = Error::new(ErrorKind::Device, message);
        let error = match names.is_empty() {
            true => error.help("install a Vulkan driver (on Linux: the vendor's, or Mesa's)"),
            false => error.note(format!("there is: {}", names.join(", "))),
        };
        let error = match software {
            Some(info) => error.help(format!(
                "`Device::wgpu_named({:?})` takes the one that computes on the CPU: to try, not to be fast",
                info.name.split(' ').next().unwrap_or_default()
            )),
            None => error,
        };
        return Err(error.help("`Device::cpu()` is fast everywhere"));
    };
    let mut report = AdapterReport::new(adapter);
    check(report.limits, options.precision, &report.name)?;
    let mut limits = report.limits;
    if let Some(change) = options.overrides.limits {
        change(&mut limits);
    }
    report.buffer_bytes = report.buffer_bytes.min(options.overrides.buffer_bytes.unwrap_or(u64::MAX));
    let (matrices, experimental) = match limits.cooperative {
        false => (Features::empty(), ExperimentalFeatures::disabled()),
        // SAFETY: wgpu requires experimental features to be used as documented. Cooperative matrices are
        // used only in a size and with types that the adapter reports, by whole subgroups.
        true => (Features::EXPERIMENTAL_COOPERATIVE_MATRIX, unsafe { ExperimentalFeatures::enabled() }),
    };
    let common = TIMESTAMPS | Features::PIPELINE_CACHE | Features::SUBGROUP | Features::SHADER_F16;
    let features = adapter.features() & (common | matrices);
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("gradloom"),
        required_features: features,
        required_limits: Limits { ..adapter.limits() },
        experimental_features: experimental,
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        trace: wgpu::Trace::Off,
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| {
        Error::new(ErrorKind::Device, format!("the GPU `{}` cannot be opened: {error}", report.name))
    })?;
    let health = Arc::new(Health::new(options.watchdog));
    health.watch(&device);
    let folder = options.overrides.cache.clone().or_else(gradloom_device::user_cache::folder);
    let kept = folder.and_then(|folder| SavedPipelines::open(&device, &adapter.get_info(), &folder));
    Ok(Gpu::new(device, queue, report, limits, options.overrides.dispatch, kept, health))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> wgsl::Limits {
        wgsl::Limits { subgroup: Some(32), f16: true, cooperative: true, ..wgsl::Limits::portable() }
    }

    #[test]
    fn nothing_is_asked_of_an_adapter_that_multiplies_in_f32() {
        check(wgsl::Limits::portable(), Precision::F32, "x").unwrap();
        check(everything(), Precision::F16, "x").unwrap();
    }

    #[test]
    fn an_adapter_that_cannot_multiply_in_f16_is_told_what_it_lacks() {
        let text = |offered| check(offered, Precision::F16, "Some GPU").unwrap_err().to_string();
        let error = text(wgsl::Limits { cooperative: false, ..everything() });
        assert_eq!(
            error,
            "error: the GPU `Some GPU` cannot multiply in f16: it has no cooperative matrices (16 x 16, f16 \
             with sums in f32)\n  |\n  \
             = help: multiply in f32, or take another adapter; `adapters()` lists what each offers"
        );
        let error = text(wgsl::Limits::portable());
        let lacks = "it has no f16 in shaders, no subgroups of one size, no cooperative matrices";
        assert!(error.contains(lacks), "{error}");
    }
}
