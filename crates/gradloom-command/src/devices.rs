//! `gradloom devices`: lists the devices of this machine and of this build.

use crate::failure::Result;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
use crate::format::bytes;
use crate::format::count;
use crate::output::print_line;
use gradloom::CpuDevice as _;
use gradloom::Device;

/// Arguments of `gradloom devices`.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Print one JSON array.
    #[arg(long)]
    json: bool,
}

/// Lists the devices of this machine and of this build.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cpu = Device::cpu();
    if arguments.json {
        let mut all = vec![serde_json::json!({
            "device": cpu.name(),
            "name": cpu.description(),
            "threads": cpu.threads(),
            "bf16": gradloom::cpu::bf16_products(),
            "simd": instruction_sets(),
        })];
        all.extend(cuda_as_json());
        all.extend(gpus_as_json());
        return print_line!("{}", serde_json::Value::from(all));
    }
    print_line!("{:<6} {}, {}", cpu.name(), cpu.description(), count(cpu.threads(), "thread"))?;
    print_line!("       {}", gradloom::cpu::bf16_products())?;
    print_line!("{:<6} compiles and plans, and runs nothing", Device::null().name())?;
    cuda()?;
    gpus()?;
    let features = instruction_sets();
    print_line!(
        "\nSIMD   {}",
        if features.is_empty() { "none that is used".to_string() } else { features.join(", ") }
    )
}

/// Prints the NVIDIA GPUs, or the reason why CUDA cannot use them.
#[cfg(feature = "cuda")]
fn cuda() -> Result<()> {
    match gradloom::cuda_devices() {
        Ok(all) if all.is_empty() => print_line!("{:<6} {NO_CUDA}", "cuda"),
        Ok(all) => {
            for gpu in all {
                let ((major, minor), (driver, of)) = (gpu.capability, gpu.driver);
                print_line!("{:<6} {}: {}, driver of CUDA {driver}.{of}", "cuda", gpu.index, gpu.name)?;
                let memory = bytes(gpu.memory_bytes as u64);
                let processors = count(gpu.multiprocessors as usize, "multiprocessor");
                print_line!("       {memory}, {processors}, compute capability {major}.{minor}")?;
                for group in gpu.links.chunk_by(|a, b| a.1 == b.1) {
                    let others: Vec<String> = group.iter().map(|(other, _)| other.to_string()).collect();
                    print_line!("       {} to GPU {}", group[0].1, others.join(", "))?;
                }
            }
            Ok(())
        }
        Err(error) => {
            print_line!("{:<6} cannot be used: {}", "cuda", error.message())?;
            error.remedies().try_for_each(|help| print_line!("       {help}"))
        }
    }
}

#[cfg(feature = "cuda")]
fn cuda_as_json() -> Vec<serde_json::Value> {
    let all = match gradloom::cuda_devices() {
        Ok(all) if all.is_empty() => return vec![serde_json::json!({ "device": "cuda", "error": NO_CUDA })],
        Ok(all) => all,
        Err(error) => return vec![serde_json::json!({ "device": "cuda", "error": error.message() })],
    };
    let gpu = |gpu: gradloom::CudaReport| {
        serde_json::json!({
            "device": "cuda",
            "index": gpu.index,
            "name": gpu.name,
            "compute_capability": format!("{}.{}", gpu.capability.0, gpu.capability.1),
            "driver": format!("{}.{}", gpu.driver.0, gpu.driver.1),
            "memory_bytes": gpu.memory_bytes,
            "multiprocessors": gpu.multiprocessors,
            "links": gpu.links.iter().map(|(other, link)| (other.to_string(), link.to_string())).collect::<std::collections::BTreeMap<_, _>>(),
        })
    };
    all.into_iter().map(gpu).collect()
}

/// Text for CUDA without a GPU.
#[cfg(feature = "cuda")]
const NO_CUDA: &str = "none: no driver of NVIDIA's is installed, or it has no GPU";

#[cfg(not(feature = "cuda"))]
fn cuda() -> Result<()> {
    print_line!("{:<6} not in this build: install it with cargo's feature `cuda`", "cuda")
}

#[cfg(not(feature = "cuda"))]
fn cuda_as_json() -> Vec<serde_json::Value> {
    Vec::new()
}

/// Text for WebGPU without a GPU.
#[cfg(feature = "wgpu")]
const NO_GPU: &str = "none: no driver of Vulkan, Metal or Direct3D 12 offers a GPU";

/// Prints the adapters and their features.
#[cfg(feature = "wgpu")]
fn gpus() -> Result<()> {
    let all = gradloom::adapters();
    if all.is_empty() {
        return print_line!("{:<6} {NO_GPU}", "wgpu");
    }
    for gpu in all {
        let limits = &gpu.limits;
        print_line!("{:<6} {}, {} GPU, {} ({})", "wgpu", gpu.name, gpu.kind, gpu.backend, gpu.driver)?;
        print_line!(
            "       buffers of {}, bindings of {}, {} a kernel; workgroups of {} invocations with {}",
            bytes(gpu.buffer_bytes),
            bytes(limits.binding_bytes),
            limits.storage_buffers,
            limits.invocations,
            bytes(limits.workgroup_memory.into())
        )?;
        let has = [
            ("f16", limits.f16),
            ("subgroups", limits.subgroup.is_some()),
            ("cooperative matrices", limits.cooperative),
            ("timestamps", gpu.timestamps),
        ];
        let has: Vec<&str> = has.into_iter().filter_map(|(name, has)| has.then_some(name)).collect();
        print_line!(
            "       offers: {}",
            if has.is_empty() { "no optional features".to_string() } else { has.join(", ") }
        )?;
    }
    Ok(())
}

#[cfg(feature = "wgpu")]
fn gpus_as_json() -> Vec<serde_json::Value> {
    let all = gradloom::adapters();
    if all.is_empty() {
        return vec![serde_json::json!({ "device": "wgpu", "error": NO_GPU })];
    }
    let gpus = all.into_iter();
    gpus.map(|gpu| {
        serde_json::json!({
            "device": "wgpu",
            "name": gpu.name,
            "kind": gpu.kind,
            "backend": gpu.backend,
            "driver": gpu.driver,
            "buffer_bytes": gpu.buffer_bytes,
            "f16": gpu.limits.f16,
            "subgroups": gpu.limits.subgroup.is_some(),
            "cooperative_matrices": gpu.limits.cooperative,
            "timestamps": gpu.timestamps,
        })
    })
    .collect()
}

#[cfg(not(feature = "wgpu"))]
fn gpus_as_json() -> Vec<serde_json::Value> {
    Vec::new()
}

#[cfg(not(feature = "wgpu"))]
fn gpus() -> Result<()> {
    print_line!("{:<6} not in this build: install it with cargo's feature `wgpu`", "wgpu")
}

/// Returns the instruction sets of this processor for which there are kernels.
fn instruction_sets() -> Vec<&'static str> {
    let mut found = Vec::new();
    macro_rules! look {
        ($detect:ident: $($name:tt)*) => { $(if std::arch::$detect!($name) { found.push($name); })* };
    }
    #[cfg(target_arch = "x86_64")]
    look!(is_x86_feature_detected: "sse4.2" "avx" "avx2" "fma" "avx512f" "avx512bw" "avx512vl"
            "avx512bf16");
    #[cfg(target_arch = "aarch64")]
    look!(is_aarch64_feature_detected: "neon" "fp16" "dotprod");
    found
}
