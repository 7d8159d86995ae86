//! CUDA kernels and their parameters.

use super::place::place;
use crate::collective::Collective;
use crate::library::LibraryProduct;
use crate::step::Owner;
use gradloom_core::kernel::Access;
use gradloom_core::plan::{Plan, Region};
use std::ops::Range;

/// Kernel of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct CudaKernel {
    /// Part of the program to which the kernel belongs.
    pub owner: Owner,
    /// Human-readable description of the computation.
    pub label: String,
    /// Function or library product that the kernel runs.
    pub work: Work,
    /// Parameters of a function, excluding the status, which follows them. For a library product, they are
    /// the left operand, the right operand, the result, the scratch memory, and the bias, if it has one. For
    /// a collective op, they are the operands, then the results.
    pub parameters: Vec<Parameter>,
    /// Memory that the kernel accesses. Kernels are ordered if they access the same bytes and at least one
    /// writes them.
    pub spans: Spans,
}

/// Computation of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Generated function.
    Function {
        /// Name of the function in the text.
        name: String,
        /// CUDA C source.
        source: String,
        /// Number of blocks.
        groups: usize,
        /// Number of threads per block.
        threads: u32,
        /// Size of dynamic shared memory, in bytes.
        shared: u32,
        /// True if the function loads operands before it waits for the preceding kernels.
        loads_early: bool,
    },
    /// Product by cuBLASLt.
    Product(LibraryProduct),
    /// Collective op by NCCL.
    Collective(Collective),
}

/// Address that is passed as a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// Region, and an offset in bytes in it.
    Memory(Region, u64),
    /// Offset in bytes in the scratch memory.
    Workspace(u64),
    /// Constants of the kernel.
    Table(Vec<u32>),
    /// Address of an operand without elements, which no kernel accesses.
    Nothing,
}

/// Memory of a step that a kernel accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// Memory that the kernel reads.
    pub reads: Vec<Span>,
    /// Memory that the kernel writes, and scratch memory, which it may also read.
    pub writes: Vec<Span>,
    /// True if the kernel may report a fault in the step's status.
    pub traps: bool,
    /// True if the kernel must follow all kernels before it that may report a fault, because it writes the
    /// step's verdict or reads whether the step has trapped.
    pub awaits_traps: bool,
    /// True if the kernel writes only after it has read the step's verdict.
    pub gated: bool,
}

/// Range of bytes in the memory of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// Range of a region.
    Memory(Region, Range<u64>),
    /// Range of the scratch memory.
    Workspace(Range<u64>),
}

impl Span {
    /// Returns the bytes from the first to the last element of an access; `None` if the access has no
    /// elements.
    pub(super) fn of(plan: &Plan, access: &Access) -> Option<Self> {
        let (region, offset) = place(plan, access);
        let range = offset + access.start()..offset + access.end();
        (!range.is_empty()).then_some(Self::Memory(region, range))
    }
}
