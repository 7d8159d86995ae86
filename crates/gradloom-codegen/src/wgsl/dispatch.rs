//! Launches on WebGPU: shaders, and what they bind.

use super::operands::Operands;
use crate::kernels::Cuts;
use crate::limits::Limits;
use gradloom_core::ir::Graph;
use gradloom_core::plan::Plan;
use std::ops::Range;

/// One shader and how it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Description of what it computes, for people.
    pub label: String,
    /// WGSL with the entry point `main`.
    pub source: String,
    /// Contents of `@group(0) @binding(i)`.
    pub bindings: Vec<Bound>,
    /// Workgroups along x, y and z.
    pub workgroups: [u32; 3],
    /// Turns of all loops in an invocation.
    pub turns: u64,
}

/// Contents of a shader's binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The binding of this index in the launch's [`Operands`].
    Operand(usize),
    /// Bytes of such a binding, which has more than the adapter allows.
    Piece(usize, Range<u64>),
    /// Bytes of the scratch; read and written.
    Workspace(Range<u64>),
    /// Numbers of the launch's own.
    Table(Vec<u32>),
    /// The status, of the step and of those before: [`STATUS_WORDS`](crate::step::STATUS_WORDS) words.
    Status {
        /// True if the shader may write it.
        writable: bool,
    },
}

/// A launch as shaders, which run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaders {
    /// Memory that they bind.
    pub operands: Operands,
    /// In order; none if there is nothing to compute.
    pub dispatches: Vec<Dispatch>,
}

/// Context that the shaders of a program are made for.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The plan of all launches.
    pub plan: &'a Plan,
    /// Its graph, for messages.
    pub graph: &'a Graph,
    /// Limits of the adapter.
    pub limits: &'a Limits,
    /// Places where memory is cut into buffers.
    pub cuts: &'a Cuts,
}
