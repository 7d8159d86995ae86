//! A kernel for CUDA with its parameters.

use super::place::place;
use crate::library::LibraryProduct;
use gradloom_core::kernel::Access;
use gradloom_core::plan::{Plan, Region};
use std::ops::Range;

/// A kernel of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct CudaKernel {
    /// Description of what it computes, for people.
    pub label: String,
    /// Function or product that computes it.
    pub work: Work,
    /// A function's parameters, behind which the status follows; of a library's product the left and the
    /// right operand, the result, and scratch.
    pub parameters: Vec<Parameter>,
    /// Memory that it touches: kernels that touch the same bytes, one of them to write, keep their order.
    pub spans: Spans,
}

/// The work of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// By a function of ours.
    Function {
        /// Its name in the text.
        name: String,
        /// CUDA C.
        source: String,
        /// Blocks.
        groups: usize,
        /// Threads of a block.
        threads: u32,
        /// True if it loads something before it waits for the kernels before it.
        loads_early: bool,
    },
    /// By cuBLASLt.
    Product(LibraryProduct),
}

/// Target of a parameter, which is a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A byte of a region.
    Memory(Region, u64),
    /// A byte of the scratch.
    Workspace(u64),
    /// Numbers of the kernel's own.
    Table(Vec<u32>),
    /// No byte: of an operand without elements, which no kernel looks at.
    Nothing,
}

/// Memory of a step that a kernel touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// Memory that it reads.
    pub reads: Vec<Span>,
    /// Memory that it writes, and scratch, which it also reads.
    pub writes: Vec<Span>,
    /// True if it may report a fault in the step's status.
    pub traps: bool,
    /// True if it writes the verdict of the step.
    pub decides: bool,
    /// True if it looks at the step's verdict before it writes.
    pub gated: bool,
}

/// Bytes of the memory of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// Of a region.
    Memory(Region, Range<u64>),
    /// Of the scratch.
    Workspace(Range<u64>),
}

impl Span {
    /// Returns the bytes between the first and the last element of an access, if it has elements.
    pub(super) fn of(plan: &Plan, access: &Access) -> Option<Self> {
        let (region, offset) = place(plan, access);
        let range = offset + access.start()..offset + access.end();
        (!range.is_empty()).then_some(Self::Memory(region, range))
    }
}
