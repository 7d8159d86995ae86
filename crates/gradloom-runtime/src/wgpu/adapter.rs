//! Which adapters there are, what they offer, and opening one.

use super::gpu::{Gpu, Health};
use super::kept::KeptPipelines;
use gradloom_codegen::wgsl;
use gradloom_core::error::{Error, ErrorKind, Result};
use std::sync::Arc;
use wgpu::{Adapter, Backends, DeviceType, Features, Instance, InstanceDescriptor, Limits};

/// An adapter and what it offers.
#[derive(Clone, Debug)]
pub struct AdapterReport {
    /// The model.
    pub name: String,
    /// `Vulkan`, `Metal` or `Dx12`.
    pub backend: String,
    /// Name and version of the driver.
    pub driver: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `other`.
    pub kind: &'static str,
    /// What shaders are made for.
    pub limits: wgsl::Limits,
    /// Bytes of a buffer, at most.
    pub buffer_bytes: u64,
    /// Whether the time of single kernels can be measured.
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

/// Timestamps inside of a compute pass.
const TIMESTAMPS: Features = Features::TIMESTAMP_QUERY.union(Features::TIMESTAMP_QUERY_INSIDE_PASSES);

/// All adapters of this machine.
pub fn adapters() -> Vec<AdapterReport> {
    sorted(&instance()).iter().map(AdapterReport::new).collect()
}

fn instance() -> Instance {
    let backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
    Instance::new(InstanceDescriptor {
        backends,
        ..InstanceDescriptor::new_without_display_handle_from_env()
    })
}

/// The adapters, the best first: discrete before integrated before software.
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
    let limits = adapter.limits();
    wgsl::Limits {
        invocations: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x),
        workgroup_memory: limits.max_compute_workgroup_storage_size,
        storage_buffers: limits.max_storage_buffers_per_shader_stage as usize,
        // Shaders count bytes and elements in 32 bits.
        binding_bytes: limits.max_storage_buffer_binding_size.min(u32::MAX.into()) as usize,
        workgroups: limits.max_compute_workgroups_per_dimension,
        subgroup: None,
        f16: false,
        cooperative: false,
        software: adapter.get_info().device_type == DeviceType::Cpu,
    }
}

/// What an adapter is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// Part of the adapter's name, in any case; the best one if empty.
    pub(crate) name: String,
    /// Whether an adapter that computes on the CPU will do though it was not named.
    pub(crate) software: bool,
    /// What is not as the adapter has it.
    pub(crate) overrides: WgpuOverrides,
}

/// What tests have otherwise than the adapter at hand: less of everything, and defects.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct WgpuOverrides {
    /// Changes what shaders are made for, within what the adapter offers.
    pub limits: Option<fn(&mut wgsl::Limits)>,
    /// Bytes of a buffer, at most.
    pub buffer_bytes: Option<u64>,
    /// Changes shaders, as a defect of the compiler or the driver would.
    pub dispatch: Option<fn(&mut wgsl::Dispatch)>,
    /// Where pipelines are kept, instead of in the user's cache.
    pub cache: Option<std::path::PathBuf>,
}

/// Opens the best adapter that fits.
pub(super) fn open(request: &Request) -> Result<Gpu> {
    let instance = instance();
    let wanted = request.name.to_lowercase();
    let all = sorted(&instance);
    let fits = |adapter: &&Adapter| {
        let info = adapter.get_info();
        let named = !wanted.is_empty() && info.name.to_lowercase().contains(&wanted);
        named || wanted.is_empty() && (request.software || info.device_type != DeviceType::Cpu)
    };
    let Some(adapter) = all.iter().find(fits) else {
        let names: Vec<String> = all.iter().map(|adapter| adapter.get_info().name).collect();
        let message = match wanted.as_str() {
            "" => "there is no GPU that WebGPU can use".to_string(),
            _ => format!("there is no GPU whose name contains `{}`", request.name),
        };
        let error = Error::new(ErrorKind::Device, message);
        return Err(match names.is_empty() {
            true => error
                .help("install a Vulkan driver (on Linux: the vendor's, or Mesa's), or use `--device cpu`"),
            false => error
                .note(format!("there is: {}", names.join(", ")))
                .help("name one of these, or use `--device cpu`"),
        });
    };
    let mut report = AdapterReport::new(adapter);
    let mut limits = report.limits;
    if let Some(change) = request.overrides.limits {
        change(&mut limits);
    }
    report.buffer_bytes = report.buffer_bytes.min(request.overrides.buffer_bytes.unwrap_or(u64::MAX));
    let features = adapter.features() & (TIMESTAMPS | Features::PIPELINE_CACHE);
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("gradloom"),
        required_features: features,
        required_limits: Limits { ..adapter.limits() },
        experimental_features: wgpu::ExperimentalFeatures::disabled(),
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        trace: wgpu::Trace::Off,
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| {
        Error::new(ErrorKind::Device, format!("the GPU `{}` cannot be opened: {error}", report.name))
    })?;
    let health = Arc::new(Health::default());
    health.watch(&device);
    let folder = request.overrides.cache.clone().or_else(crate::user_cache::folder);
    let kept = folder.and_then(|folder| KeptPipelines::open(&device, &adapter.get_info(), &folder));
    Ok(Gpu::new(device, queue, report, limits, request.overrides.dispatch, kept, health))
}
