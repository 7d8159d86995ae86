//! A simulated GPU for tests.
//!
//! In: kernels of the common GPU language. Out: their results, or an error if they do something invalid on a
//! GPU ([`Machine`]); and a device that runs programs on the simulation ([`device`]). The simulation is slow.

mod backend;
mod machine;
mod place;

use gradloom_codegen::pipeline::Target;
use gradloom_device::Device;
pub use machine::{Machine, bits, tensor};

/// Creates a simulated GPU for programs of this target, which must not use the vendor's library.
pub fn device(target: Target) -> Device {
    Device::new(backend::GridBackend::new(target))
}
