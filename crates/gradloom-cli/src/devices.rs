//! `gradloom devices`.

use crate::failure::Result;
#[cfg(feature = "wgpu")]
use crate::format::bytes;
use crate::format::count;
use crate::output::print_line;
use gradloom::Device;

/// Lists the devices of this machine and of this build.
pub(crate) fn run() -> Result<()> {
    let cpu = Device::cpu();
    print_line!("{:<6} {}, {}", cpu.name(), cpu.description(), count(cpu.threads(), "thread"))?;
    print_line!("{:<6} compiles and plans, and runs nothing", Device::null().name())?;
    gpus()?;
    let features = instruction_sets();
    print_line!(
        "\nSIMD   {}",
        if features.is_empty() { "none that is used".to_string() } else { features.join(", ") }
    )
}

/// The adapters, with what they offer.
#[cfg(feature = "wgpu")]
fn gpus() -> Result<()> {
    for gpu in gradloom::adapters() {
        let limits = &gpu.limits;
        print_line!("{:<6} {}, {} GPU, {} ({})", "wgpu", gpu.name, gpu.kind, gpu.backend, gpu.driver)?;
        print_line!(
            "       buffers of {}, bindings of {}, {} a kernel; workgroups of {} invocations with {}",
            bytes(gpu.buffer_bytes),
            bytes(limits.binding_bytes as u64),
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

#[cfg(not(feature = "wgpu"))]
fn gpus() -> Result<()> {
    print_line!("\nthis build has no GPUs; install it with `--features wgpu`")
}

/// Instruction sets that this processor has and that kernels may choose among.
fn instruction_sets() -> Vec<&'static str> {
    let mut found = Vec::new();
    macro_rules! look {
        ($detect:ident: $($name:tt)*) => { $(if std::arch::$detect!($name) { found.push($name); })* };
    }
    #[cfg(target_arch = "x86_64")]
    look!(is_x86_feature_detected: "sse4.2" "avx" "avx2" "fma" "avx512f" "avx512bw" "avx512vl");
    #[cfg(target_arch = "aarch64")]
    look!(is_aarch64_feature_detected: "neon" "fp16" "dotprod");
    found
}
