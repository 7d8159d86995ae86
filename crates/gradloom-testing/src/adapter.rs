//! Selects the GPU for tests from the environment.

use crate::skip::skip;

/// Returns `GRADLOOM_ADAPTER`, a part of the adapter's name; empty if any adapter is acceptable. `cuda`
/// selects an NVIDIA GPU through CUDA.
pub fn name() -> String {
    std::env::var("GRADLOOM_ADAPTER").unwrap_or_default()
}

/// Returns `true` if the GPU is used through CUDA.
pub fn is_cuda() -> bool {
    name().starts_with("cuda")
}

/// Returns `true` if a test is skipped because no adapter exists, and if so records the skip. `none` is true
/// if WebGPU has no adapter.
///
/// # Panics
/// Panics if no adapter exists but `GRADLOOM_NEEDS_ADAPTER` is set.
pub fn skipped(none: bool) -> bool {
    let none = none && !is_cuda();
    if none {
        let reason = "no WebGPU adapter (`apt-get install mesa-vulkan-drivers libvulkan1` brings one)";
        skip(reason, Some("GRADLOOM_NEEDS_ADAPTER"));
    }
    none
}

/// Returns `true` if a WebGPU-only test is skipped, because tests use CUDA or for the reason in [`skipped`].
///
/// # Panics
/// Panics under the same conditions as [`skipped`], if tests do not use CUDA.
pub fn skipped_on_cuda(none: bool) -> bool {
    if is_cuda() {
        skip("a test of WebGPU alone, and GRADLOOM_ADAPTER is `cuda`", None);
    }
    is_cuda() || skipped(none)
}

/// Returns `true` if a CUDA-only test is skipped because `GRADLOOM_ADAPTER` is not `cuda`, and if so records
/// the skip.
///
/// # Panics
/// Panics if `GRADLOOM_ADAPTER` is not `cuda` but `GRADLOOM_NEEDS_CUDA` is set.
pub fn skipped_without_cuda() -> bool {
    if !is_cuda() {
        skip("a test of CUDA alone, and GRADLOOM_ADAPTER is not `cuda`", Some("GRADLOOM_NEEDS_CUDA"));
    }
    !is_cuda()
}
