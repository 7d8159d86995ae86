//! Changes that tests make to devices and programs: lower limits, defects, loss. Not part of the library's
//! interface.

use crate::program::Program;
use gradloom_core::error::Result;
use gradloom_core::ir::Graph;
use gradloom_core::plan::Plan;
use gradloom_core::reference::Leaves;
use gradloom_device::Device;

/// Takes the device away, as a crash of its driver does. Nothing happens on devices that cannot get lost.
pub fn lose(device: &Device) {
    device.backend().lose();
}

/// Like [`Program::standalone`], with bytes of its own for every value of a step ([`Plan::without_sharing`]).
///
/// # Errors
/// As [`Program::standalone`].
pub fn standalone_without_sharing(graph: Graph, device: &Device, leaves: &Leaves<'_>) -> Result<Program> {
    Program::replanned(graph, device, leaves, &Plan::without_sharing)
}
