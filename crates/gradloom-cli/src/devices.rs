//! `gradloom devices`.

use crate::failure::Result;
use crate::format::count;
use crate::output::print_line;
use gradloom::Device;

/// Lists the devices of this machine and of this build.
pub(crate) fn run() -> Result<()> {
    let cpu = Device::cpu();
    print_line!("{:<6} {}, {}", cpu.name(), cpu.description(), count(cpu.threads(), "thread"))?;
    print_line!("{:<6} compiles and plans, and runs nothing", Device::null().name())?;
    let features = instruction_sets();
    print_line!(
        "\nSIMD   {}",
        if features.is_empty() { "none that is used".to_string() } else { features.join(", ") }
    )
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
