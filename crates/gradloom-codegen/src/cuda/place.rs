//! Placement of operands at addresses for CUDA.
//!
//! The address of an operand is that of its buffer or, if one kernel runs several parts, the lowest address
//! of the parts' buffers.

use super::launch::{Parameter, Span};
use crate::kernels::Cuts;
use crate::kernels::{MOST_POSITIONS, Placement};
use crate::limits::Limits;
use crate::narrow::{elements_in, narrow};
use crate::product::{is_in_fours, reads_vectors};
use crate::schedule::group;
use crate::simt::kernels::{View, Views};
use gradloom_core::ir::OpKind;
use gradloom_core::kernel::{Access, Kernel as LaunchKernel, Launch, Layout, Part, Phase, Schedule};
use gradloom_core::plan::{Plan, Region, Role as PlannedRole};

/// Maximum number of bytes from the start of the first buffer to the end of the last for which one address is
/// used: kernels use 32-bit indices.
const MOST_BYTES: u64 = u32::MAX as u64;

/// Minimum number of positions for which there are enough threads if each processes four.
const MANY: usize = 1 << 17;

/// Placement of operands at the addresses of a plan's buffers.
pub(crate) struct Addresses<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) limits: &'p Limits,
    pub(crate) cuts: &'p Cuts,
}

/// Operands and results of a unit.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    pub(super) reads: Vec<Operand>,
    pub(super) writes: Vec<Operand>,
    /// See [`Views::in_place`].
    in_place: bool,
}

/// Operand or result of a unit.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// Accessed elements, relative to the address.
    pub(super) access: Access,
    /// Address of the operand's buffer; the lowest address of the buffers if there are several parts.
    pub(super) address: Parameter,
    /// Ranges of bytes that kernels access.
    pub(super) spans: Vec<Span>,
    has_vectors: bool,
    pub(super) is_early: bool,
}

impl Operand {
    fn view(&self) -> View<'_> {
        View { is_early: self.is_early, ..View::of(&self.access, self.has_vectors) }
    }
}

impl Placement for Addresses<'_> {
    type Operands = Operands;

    const HAS_ADDRESSES: bool = true;

    fn limits(&self) -> &Limits {
        self.limits
    }

    fn alone(&self, launch: &Launch, _shared: bool) -> Operands {
        let plan = self.plan;
        let vectors = reads_vectors(&launch.kernel, &launch.schedule, &launch.reads);
        let of_loop = |access: &Access| match (&launch.kernel, &launch.schedule) {
            (LaunchKernel::Loop(body), Schedule::Whole) if body.rows * body.columns < MANY => false,
            (LaunchKernel::Loop(body), _) => is_in_fours(body, access),
            (LaunchKernel::Attention { epilogue, .. }, _) => is_in_fours(epilogue, access),
            _ => false,
        };
        let operand = |access: &Access, has_vectors: bool, is_early: bool| Operand {
            access: relative(access),
            address: address(plan, access),
            spans: Span::of(plan, access).into_iter().collect(),
            has_vectors: has_vectors || of_loop(access),
            is_early,
        };
        let read = |(i, access)| {
            let has_vectors = vectors.get(i).copied().unwrap_or(false);
            operand(access, has_vectors, is_early(launch, plan, access))
        };
        Operands {
            reads: launch.reads.iter().enumerate().map(read).collect(),
            writes: launch.writes.iter().map(|access| operand(access, false, false)).collect(),
            in_place: launch.reads.first().zip(launch.writes.first()).is_some_and(|(read, write)| {
                place(plan, read) == place(plan, write) && read.layout == write.layout
            }),
        }
    }

    /// Returns the parts that run together: each of their operands is in the same region and segment for all
    /// parts, within the range of 32-bit indices.
    fn batches(&self, parts: &[Part], launch: &Launch) -> Vec<Vec<usize>> {
        let plan = self.plan;
        let span = |access: &Access| {
            let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
            (buffer.region, buffer.offset, buffer.offset + buffer.bytes)
        };
        // For each part, the range of each operand; for the first part of a batch, the ranges that cover the
        // whole batch.
        let mut spans: Vec<Vec<(Region, u64, u64)>> =
            parts.iter().map(|part| accesses(launch, part).map(span).collect()).collect();
        // A scatter whose result does not alias its operand cannot join a batch, because it copies the
        // operand first.
        let may_join = |part: usize| {
            let Part { kernel, reads, writes, .. } = &parts[part];
            if !matches!(kernel, LaunchKernel::Op(OpKind::Scatter { .. })) {
                return true;
            }
            let [read, write] = [&launch.reads[reads.start], &launch.writes[writes.start]];
            place(plan, read) == place(plan, write) && read.layout == write.layout
        };
        group::batches(parts, launch, |first, part| {
            if !may_join(first) || !may_join(part) {
                return false;
            }
            let both = spans[first].iter().zip(&spans[part]);
            let wider: Option<Vec<_>> = both
                .map(|(&(region, start, end), &(other, from, to))| {
                    let (start, end) = (start.min(from), end.max(to));
                    let together = self.cuts.segment(region, start) == self.cuts.segment(region, from);
                    (region == other && together && end - start <= MOST_BYTES).then_some((region, start, end))
                })
                .collect();
            let joins = wider.is_some();
            if let Some(wider) = wider {
                spans[first] = wider;
            }
            joins
        })
    }

    fn together(&self, launch: &Launch, parts: &[&Part]) -> (Operands, Vec<Vec<u32>>) {
        let plan = self.plan;
        // Start indices are relative to the buffer with the lowest address among the parts.
        let first = |i: usize| {
            let offsets = parts.iter().filter_map(|part| Some(place(plan, accesses(launch, part).nth(i)?).1));
            offsets.min().unwrap_or(0)
        };
        let firsts: Vec<u64> = (0..accesses(launch, parts[0]).count()).map(first).collect();
        let starts = |part: &&Part| {
            let start = |(i, access): (usize, &Access)| {
                narrow(elements_in(place(plan, access).1 - firsts[i], access.dtype) + access.layout.offset)
            };
            accesses(launch, part).enumerate().map(start).collect()
        };
        let starts = parts.iter().map(starts).collect();
        let count = parts[0].reads.len();
        let vectors = match parts[0].kernel {
            LaunchKernel::Loop(_) => Vec::new(),
            _ => {
                let reads = &launch.reads[parts[0].reads.clone()];
                reads_vectors(&parts[0].kernel, &parts[0].schedule, reads)
            }
        };
        let operand = |(i, access): (usize, &Access)| Operand {
            access: access.clone(),
            address: match address(plan, access) {
                Parameter::Memory(region, _) => Parameter::Memory(region, firsts[i]),
                other => other,
            },
            spans: parts.iter().filter_map(|part| Span::of(plan, accesses(launch, part).nth(i)?)).collect(),
            has_vectors: i < count && vectors.get(i).copied().unwrap_or(false),
            is_early: false,
        };
        let mut reads: Vec<Operand> = accesses(launch, parts[0]).enumerate().map(operand).collect();
        let writes = reads.split_off(count);
        (Operands { reads, writes, in_place: false }, starts)
    }

    fn views<'o>(&self, operands: &'o Operands, gated: bool) -> Views<'o> {
        Views {
            reads: operands.reads.iter().map(Operand::view).collect(),
            writes: operands.writes.iter().map(Operand::view).collect(),
            gated,
            in_place: operands.in_place,
        }
    }
}

/// Returns the operands of a part, followed by its results.
fn accesses<'l>(launch: &'l Launch, part: &Part) -> impl Iterator<Item = &'l Access> + use<'l> {
    launch.reads[part.reads.clone()].iter().chain(&launch.writes[part.writes.clone()])
}

/// Returns `true` if no kernel of the step writes an operand before the launch is done. The store and
/// constants are not written in the first phase, and no launch has an input as its result; other values may
/// reuse the bytes of an input only after its last reader.
fn is_early(launch: &Launch, plan: &Plan, access: &Access) -> bool {
    let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
    let was_there =
        buffer.region != Region::Step || matches!(buffer.role, PlannedRole::Input | PlannedRole::Scalar);
    launch.phase == Phase::Compute && was_there
}

/// Multiple of the number of elements by which an address may differ from that of the buffer, so that vectors
/// stay aligned.
const ALIGNED: usize = 8;

/// Returns the number of elements between the start of the buffer of an access and the address to which the
/// indices of its elements are relative: 0, unless some of them would exceed 32 bits.
fn skipped(access: &Access) -> usize {
    let layout = &access.layout;
    if layout.end() <= MOST_POSITIONS { 0 } else { layout.offset / ALIGNED * ALIGNED }
}

/// Returns an access relative to its [`address`].
fn relative(access: &Access) -> Access {
    let offset = access.layout.offset - skipped(access);
    Access { layout: Layout { offset, ..access.layout.clone() }, ..access.clone() }
}

/// Returns the address to which the indices of an access are relative; `Nothing` if the access has no
/// elements.
fn address(plan: &Plan, access: &Access) -> Parameter {
    let (region, offset) = place(plan, access);
    let offset = offset + (skipped(access) * access.dtype.bytes()) as u64;
    if access.layout.shape.elements() == 0 { Parameter::Nothing } else { Parameter::Memory(region, offset) }
}

/// Returns the region and the offset of the buffer of an access.
pub(super) fn place(plan: &Plan, access: &Access) -> (Region, u64) {
    let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
    (buffer.region, buffer.offset)
}
