//! The GPU that tests run on, chosen by the environment.

use crate::skip::skip;

/// Returns a part of the adapter's name, from `GRADLOOM_ADAPTER`; empty where any will do. `cuda` is an
/// NVIDIA GPU through CUDA.
pub fn name() -> String {
    std::env::var("GRADLOOM_ADAPTER").unwrap_or_default()
}

/// Returns whether the GPU is used through CUDA.
pub fn is_cuda() -> bool {
    name().starts_with("cuda")
}

/// Returns whether a test is skipped because there is no adapter, which is noted; `none`: WebGPU has none.
///
/// # Panics
/// When there is none though `GRADLOOM_NEEDS_ADAPTER` is set.
pub fn skipped(none: bool) -> bool {
    let none = none && !is_cuda();
    if none {
        let reason = "no WebGPU adapter (`apt-get install mesa-vulkan-drivers libvulkan1` brings one)";
        skip(reason, Some("GRADLOOM_NEEDS_ADAPTER"));
    }
    none
}

/// Returns whether a test of WebGPU alone is skipped, because tests run through CUDA or as [`skipped`] says.
///
/// # Panics
/// As [`skipped`], if they do not run through CUDA.
pub fn skipped_on_cuda(none: bool) -> bool {
    if is_cuda() {
        skip("a test of WebGPU alone, and GRADLOOM_ADAPTER is `cuda`", None);
    }
    is_cuda() || skipped(none)
}

/// Returns whether a test of CUDA alone is skipped, which is noted: `GRADLOOM_ADAPTER` is not `cuda`.
///
/// # Panics
/// When it is not though `GRADLOOM_NEEDS_CUDA` is set.
pub fn skipped_without_cuda() -> bool {
    if !is_cuda() {
        skip("a test of CUDA alone, and GRADLOOM_ADAPTER is not `cuda`", Some("GRADLOOM_NEEDS_CUDA"));
    }
    !is_cuda()
}
