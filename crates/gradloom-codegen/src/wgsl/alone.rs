//! Standalone kernels, for measurements.
//!
//! In: a problem and a schedule choice. Out: the same shaders as in programs, with separate operands.

use super::dispatch::{Bound, Dispatch};
use super::operands::Operands;
use super::operands::{Binding, Element, Operand};
use super::{attention, product};
use crate::limits::Limits;
use crate::schedule::tuning::{Choice, Problem};
use gradloom_core::ir::DType;
use gradloom_core::kernel::Layout;
use gradloom_core::plan::{ALIGNMENT, Region};

/// Kernel with separate operands, whose bindings are adjacent in the step's region.
#[derive(Clone, Debug)]
pub struct Alone {
    /// Memory that the shaders bind.
    pub operands: Operands,
    /// Shaders in execution order; empty if there is nothing to compute.
    pub dispatches: Vec<Dispatch>,
    /// Indices of bindings, with the words that these must contain. All other bindings, and the scratch
    /// memory, may contain any f32 numbers.
    pub words: Vec<(usize, Vec<u32>)>,
    /// Results of the kernel, all f32: bindings, and ranges of the scratch memory.
    pub results: Vec<Bound>,
}

/// Returns the kernel of a problem, scheduled by a choice.
///
/// # Panics
/// Panics if the choice does not suit the problem and the limits, or the problem has nothing to compute.
pub fn alone(problem: &Problem, choice: &Choice, limits: &Limits) -> Alone {
    match (problem, choice) {
        (Problem::Product(problem), Choice::Product(choice)) => product::alone(problem, choice, limits),
        (Problem::Attention(kernel, problem), Choice::Attention(choice)) => {
            attention::alone(*kernel, problem, choice, limits)
        }
        _ => panic!("{choice:?} is no choice for {problem}"),
    }
}

/// Operand or result of a standalone kernel.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) element: Element,
    pub(super) dtype: DType,
    pub(super) layout: Layout,
}

/// Returns the operands and results in separate bindings, in order.
pub(super) fn side_by_side(reads: Vec<Value>, writes: Vec<Value>) -> Operands {
    let (count, mut bindings, mut end) = (reads.len(), Vec::new(), 0);
    let place = |(binding, Value { element, dtype, layout }): (usize, Value)| {
        let start = u64::next_multiple_of(end, ALIGNMENT);
        end = start + u64::next_multiple_of((layout.end() as u64 * dtype.bytes() as u64).max(1), 16);
        // The bindings are writable, as in programs, which write to the region.
        bindings.push(Binding { region: Region::Step, range: start..end, writable: true, element });
        Operand { binding, base: 0, dtype, layout }
    };
    let mut reads: Vec<Operand> = reads.into_iter().chain(writes).enumerate().map(place).collect();
    let writes = reads.split_off(count);
    Operands { bindings, reads, writes }
}
