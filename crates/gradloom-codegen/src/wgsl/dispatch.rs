//! Launches on WebGPU: shaders and their bindings.

use crate::kernels::Cuts;
use crate::limits::Limits;
use gradloom_core::ir::Graph;
use gradloom_core::plan::Plan;
use std::ops::Range;

/// Shader, with its bindings and grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Human-readable description of the computation.
    pub label: String,
    /// WGSL source, with the entry point `main`.
    pub source: String,
    /// Contents of `@group(0) @binding(i)`.
    pub bindings: Vec<Bound>,
    /// Number of workgroups along x, y and z.
    pub workgroups: [u32; 3],
    /// Total number of loop iterations of the first invocation.
    pub turns: u64,
}

/// Contents of a shader's binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Binding with this index in the launch's [`Operands`](super::Operands).
    Operand(usize),
    /// Range of bytes of the binding with this index, which exceeds the adapter's size limit.
    Piece(usize, Range<u64>),
    /// Bytes of the scratch memory, read and written.
    Workspace(Range<u64>),
    /// Constants of the launch.
    Table(Vec<u32>),
    /// Status of the step and of the steps before it, which consists of
    /// [`STATUS_WORDS`](crate::step::STATUS_WORDS) words.
    Status {
        /// True if the shader may write the status.
        writable: bool,
    },
}

/// Context in which the shaders of a program are generated.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Plan of all launches.
    pub plan: &'a Plan,
    /// Graph of the plan, for error messages.
    pub graph: &'a Graph,
    /// Limits of the adapter.
    pub limits: &'a Limits,
    /// Positions at which memory is cut into buffers.
    pub cuts: &'a Cuts,
}
