//! CUDA kernels of a plan, in execution order.
//!
//! In: a plan, and the positions at which its memory is cut. Out: the kernels of each launch, with the guards
//! between the phases of a step.

use super::launch::{CudaKernel, Parameter, Span, Spans, Work};
use super::place::{Addresses, Operand, Operands, place};
use super::print::{dynamic_memory, print};
use crate::collective::Collective;
use crate::kernels::{self, Cuts, Program, Unit};
use crate::library::LibraryProduct;
use crate::limits::Limits;
use crate::simt::{Kernel, Role};
use crate::step::Owner;
use gradloom_core::error::Result;
use gradloom_core::ir::{DType, Graph};
use gradloom_core::plan::{ALIGNMENT, Plan, Region};
use std::ops::Range;

/// Returns the kernels of a plan: first those that run only once, then those of a step in order, with the
/// guards between its phases. Launches that run on the host have none.
///
/// # Errors
/// Returns an error if an op has no kernel for GPUs, or a launch exceeds the range of 32-bit indices.
pub fn units(plan: &Plan, graph: &Graph, cuts: &Cuts) -> Result<Vec<CudaKernel>> {
    let addresses = Addresses { plan, limits: &Limits::cuda(), cuts };
    let units = kernels::units(Program { plan, graph }, &addresses)?;
    Ok(units.iter().flat_map(|unit| printed(unit, plan)).collect())
}

fn printed(unit: &Unit<Operands>, plan: &Plan) -> Vec<CudaKernel> {
    let first = match unit.owner {
        Owner::Launch(number) => plan.scratch[number],
        Owner::Hoisted(_) | Owner::Guards => 0,
    };
    let scratch = first + unit.scratch.start..first + unit.scratch.end;
    match &unit.work {
        kernels::Work::Kernels(kernels) => {
            kernels.iter().map(|kernel| function(kernel, unit, scratch.clone())).collect()
        }
        kernels::Work::Library(product) => vec![library(product, unit, scratch, plan)],
        kernels::Work::Collective(collective) => vec![connected(collective, unit, plan)],
    }
}

/// Prints a kernel as a function.
fn function(kernel: &Kernel, unit: &Unit<Operands>, scratch: Range<u64>) -> CudaKernel {
    let Operands { reads, writes, .. } = &unit.operands;
    let name = function_name(&kernel.label);
    let mut spans = Spans { traps: kernel.traps(), gated: kernel.is_gated(), ..Spans::default() };
    let mut parameters = Vec::new();
    for (i, buffer) in kernel.buffers.iter().enumerate() {
        let is_written = kernel.stores_to(i);
        let (parameter, touched) = match buffer.role {
            Role::Operand(read) => (reads[read].address.clone(), reads[read].spans.clone()),
            Role::Result(write) => (writes[write].address.clone(), writes[write].spans.clone()),
            Role::Workspace { start, .. } => {
                (Parameter::Workspace(scratch.start + start), vec![Span::Workspace(scratch.clone())])
            }
            Role::Table => (Parameter::Table(kernel.table.clone()), Vec::new()),
            // Skip the status, which is the last parameter of every function.
            Role::Status => {
                spans.awaits_traps |= is_written || !(kernel.traps() || kernel.is_gated());
                continue;
            }
        };
        parameters.push(parameter);
        if is_written { &mut spans.writes } else { &mut spans.reads }.extend(touched);
    }
    let is_early = |role: Role| matches!(role, Role::Operand(read) if reads[read].is_early);
    let (source, loads_early) = print(kernel, &name, unit.owner.number(), &is_early);
    CudaKernel {
        owner: unit.owner,
        label: kernel.label.clone(),
        parameters,
        spans,
        work: Work::Function {
            source,
            name,
            groups: kernel.groups,
            threads: kernel.workgroup,
            shared: dynamic_memory(kernel),
            loads_early,
        },
    }
}

/// Returns the parameter for the first element of an operand or a result.
fn first_element(plan: &Plan, Operand { access, .. }: &Operand) -> Parameter {
    let (region, offset) = place(plan, access);
    Parameter::Memory(region, offset + access.start())
}

/// Returns the kernel of a collective op. Operands that are next to each other in memory, as are their
/// results, are summed as one, because a library handles few large operands faster than many small ones.
fn connected(collective: &Collective, unit: &Unit<Operands>, plan: &Plan) -> CudaKernel {
    let Operands { reads, writes, .. } = &unit.operands;
    let spans = |operands: &[Operand]| operands.iter().flat_map(|operand| operand.spans.clone()).collect();
    let first = |operand: &Operand| match first_element(plan, operand) {
        Parameter::Memory(region, offset) => (region, offset),
        _ => unreachable!("the first element of an operand is in memory"),
    };
    let of_operand = collective.elements.iter().zip(&collective.dtypes);
    let part = |((read, write), (&elements, &dtype))| Part {
        read: first(read),
        write: first(write),
        elements,
        dtype,
    };
    let mut operands: Vec<Part> = reads.iter().zip(writes).zip(of_operand).map(part).collect();
    // The plan has operands of one type next to each other. Their order must not depend on addresses, which
    // may differ between ranks.
    operands.sort_by_key(|part| part.dtype.bytes());
    let mut parts: Vec<Part> = Vec::new();
    for part in operands {
        let joined = parts.last().filter(|_| collective.op.keeps_types()).and_then(|last| last.joined(&part));
        match joined {
            Some(joined) => *parts.last_mut().expect("it was joined") = joined,
            None => parts.push(part),
        }
    }
    let addresses = parts.iter().map(|part| part.read).chain(parts.iter().map(|part| part.write));
    CudaKernel {
        owner: unit.owner,
        label: collective.op.name().to_string(),
        parameters: addresses.map(|(region, offset)| Parameter::Memory(region, offset)).collect(),
        work: Work::Collective(Collective {
            op: collective.op,
            elements: parts.iter().map(|part| part.elements).collect(),
            dtypes: parts.iter().map(|part| part.dtype).collect(),
        }),
        spans: Spans { reads: spans(reads), writes: spans(writes), ..Spans::default() },
    }
}

/// Operand and result of a collective op.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    /// Place of the operand's first element.
    read: (Region, u64),
    /// Place of the result's first element.
    write: (Region, u64),
    elements: usize,
    dtype: DType,
}

impl Part {
    /// Returns the part that consists of this one, the padding after it, and `next`; `None` if they are not
    /// next to each other.
    fn joined(&self, next: &Part) -> Option<Part> {
        let size = self.dtype.bytes() as u64;
        let from_read = next.read.1.checked_sub(self.read.1)?;
        let from_write = next.write.1.checked_sub(self.write.1)?;
        let padding = from_read.checked_sub(self.elements as u64 * size)?;
        let is_next = (self.read.0, self.write.0, self.dtype) == (next.read.0, next.write.0, next.dtype)
            && from_read == from_write
            && padding < ALIGNMENT
            && from_read.is_multiple_of(size);
        let elements = usize::try_from(from_read / size).ok()?.checked_add(next.elements)?;
        is_next.then_some(Part { elements, ..*self })
    }
}

/// Returns the kernel of a library product.
fn library(product: &LibraryProduct, unit: &Unit<Operands>, scratch: Range<u64>, plan: &Plan) -> CudaKernel {
    let Operands { reads, writes, .. } = &unit.operands;
    let first = |operand: &Operand| first_element(plan, operand);
    // The span is the whole buffer, because the library may read zeros after an operand and write after the
    // result.
    let buffer = |Operand { access, .. }: &Operand| {
        let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
        Span::Memory(buffer.region, buffer.offset..buffer.offset + buffer.bytes)
    };
    let spans = Spans {
        reads: reads.iter().map(buffer).collect(),
        writes: writes.iter().map(buffer).chain([Span::Workspace(scratch.clone())]).collect(),
        ..Spans::default()
    };
    CudaKernel {
        owner: unit.owner,
        label: "dot".to_string(),
        parameters: reads[..2]
            .iter()
            .chain(writes)
            .map(first)
            .chain([Parameter::Workspace(scratch.start)])
            .chain(reads[2..].iter().map(first))
            .collect(),
        work: Work::Product(*product),
        spans,
    }
}

/// Returns the name of a function, which is derived from its label so that profilers show it. Equal kernels
/// have equal texts.
fn function_name(label: &str) -> String {
    let words = label.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = String::from("k");
    for word in words {
        if name.len() + word.len() > 60 {
            break;
        }
        name.push('_');
        name.push_str(word);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::Part;
    use gradloom_core::ir::DType;
    use gradloom_core::plan::Region;

    fn part(read: u64, write: u64, elements: usize) -> Part {
        let at = |offset| (Region::Step, offset);
        Part { read: at(read), write: at(write), elements, dtype: DType::F32 }
    }

    #[test]
    fn operands_are_joined_over_padding_alone() {
        let first = part(256, 1024, 100);
        assert_eq!(first.joined(&part(768, 1536, 3)), Some(part(256, 1024, 131)));
        // In the order of memory, with the results, of one type, and without another value between them.
        assert_eq!(first.joined(&part(0, 768, 3)), None);
        assert_eq!(first.joined(&part(768, 1792, 3)), None);
        assert_eq!(first.joined(&part(1024, 1792, 3)), None);
        assert_eq!(first.joined(&Part { dtype: DType::BF16, ..part(768, 1536, 3) }), None);
    }
}
