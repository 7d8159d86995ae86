//! Devices: their memory, their programs, and the work done on their host.
//!
//! In: plans of `gradloom-codegen`. Out: the interface between programs and devices ([`backend`]),
//! implemented by the crate of each backend, and the code that backends share: memory, elements, the results
//! of queued steps ([`queue`]), host threads and initial values ([`host`]). The only backend in this crate is
//! the null one, which runs nothing.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they write"))]

pub mod backend;
pub mod cancel;
pub mod communicator;
pub mod content;
mod device;
mod device_tensor;
pub mod elements;
mod faults;
pub mod feed;
#[cfg(all(feature = "guarded", unix, not(miri)))]
pub mod guarded;
pub mod host;
pub mod memory;
mod null;
pub mod outcome;
pub mod outputs;
pub mod queue;
pub mod regular_file;
pub mod spans;
pub mod user_cache;

pub use device::Device;
pub use device_tensor::DeviceTensor;
pub use faults::{Fault, Faults};
