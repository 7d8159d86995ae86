//! The meaning of the IR in float64: slow, obvious, and the measure of every backend.
//!
//! In: a graph and the values of its leaves. Out: outputs, updated states and guards. Integers wrap to 32 bits as on a device.

mod tensor;

pub use tensor::{HostData, HostTensor};
