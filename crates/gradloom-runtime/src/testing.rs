//! Functions with which tests alter devices and programs. Not part of the library's public interface.

use crate::program::Program;
use gradloom_core::error::Result;
use gradloom_core::ir::Graph;
use gradloom_core::plan::Plan;
use gradloom_core::reference::Leaves;
use gradloom_device::Device;

/// Simulates the loss of the device, as by a driver crash. Has no effect on devices that cannot be lost.
pub fn lose(device: &Device) {
    device.backend().lose();
}

/// Like [`Program::standalone`], but with separate bytes for every value of a step
/// ([`Plan::without_sharing`]).
///
/// # Errors
/// Returns the same errors as [`Program::standalone`].
pub fn standalone_without_sharing(graph: Graph, device: &Device, leaves: &Leaves<'_>) -> Result<Program> {
    Program::replanned(graph, device, leaves, &Plan::without_sharing)
}
