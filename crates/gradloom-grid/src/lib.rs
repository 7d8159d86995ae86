//! A simulated GPU.
//!
//! In: kernels of the language that all GPUs share. Out: what they compute, or what they do that no GPU may
//! be asked to do ([`Machine`]); and a device of it ([`device`]). For tests: it is slow.

mod backend;
mod machine;
mod place;

use gradloom_codegen::pipeline::Target;
use gradloom_device::Device;
pub use machine::{Machine, bits, tensor};

/// Returns a simulated GPU for programs of this target, which is one without the vendor's library.
pub fn device(target: Target) -> Device {
    Device::new(backend::GridBackend::new(target))
}
