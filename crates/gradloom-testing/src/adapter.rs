//! The GPU that tests run on, chosen by the environment.

/// Part of the adapter's name, from `GRADLOOM_ADAPTER`; empty where any will do. `cuda` is an NVIDIA GPU
/// through CUDA.
pub fn name() -> String {
    std::env::var("GRADLOOM_ADAPTER").unwrap_or_default()
}

/// Whether the GPU is used through CUDA.
pub fn is_cuda() -> bool {
    name().starts_with("cuda")
}

/// Whether a test is skipped because there is no adapter; prints a note then. `none`: WebGPU has none.
///
/// # Panics
/// When there is none though `GRADLOOM_NEEDS_ADAPTER` is set.
pub fn skipped(none: bool) -> bool {
    let none = none && !is_cuda();
    if none {
        assert!(std::env::var_os("GRADLOOM_NEEDS_ADAPTER").is_none(), "there is no WebGPU adapter");
        println!("skipped: no WebGPU adapter (`apt-get install mesa-vulkan-drivers libvulkan1` brings one)");
    }
    none
}
