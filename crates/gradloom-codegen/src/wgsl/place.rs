//! Placement of operands in bindings of shaders.

use super::dispatch::Context;
use super::operands::{Operand, Operands, Shared, span};
use super::product::{vectorise, vectorise_rows};
use super::{Element, pieces};
use crate::kernels::Placement;
use crate::limits::Limits;
use crate::narrow::{elements_in, narrow};
use crate::schedule::group::{self, Form};
use crate::simt::kernels::Views;
use crate::simt::{Kernel, Role};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::OpKind;
use gradloom_core::kernel::{Access, Kernel as LaunchKernel, Launch, Part};
use gradloom_core::plan::Region;
use std::ops::Range;

impl Placement for Context<'_> {
    type Operands = Operands;

    const HAS_ADDRESSES: bool = false;

    fn limits(&self) -> &Limits {
        self.limits
    }

    fn in_pieces(&self, launch: &Launch) -> Option<Launch> {
        pieces::in_pieces(launch, self.limits)
    }

    fn alone(&self, launch: &Launch, shared: bool) -> Operands {
        let shared = if shared { Shared::Segment } else { Shared::Nothing };
        let mut operands = Operands::new(launch, self, shared);
        if let LaunchKernel::Dot { axes, .. } | LaunchKernel::Op(OpKind::Dot(axes)) = &launch.kernel {
            vectorise(&mut operands, axes, self.limits);
        } else {
            vectorise_rows(&mut operands, launch);
        }
        operands
    }

    /// Returns the parts that run together: each of their operands is in the same segment for all parts, and
    /// bindings do not exceed the size limit.
    fn batches(&self, parts: &[Part], launch: &Launch) -> Vec<Vec<usize>> {
        let mut covers: Vec<Covers> = parts.iter().map(|part| Covers::new(part, launch, self)).collect();
        group::batches(parts, launch, |first, part| {
            let joined = covers[first].joined(&covers[part], self);
            let joins = joined.is_some();
            if let Some(ranges) = joined {
                covers[first].ranges = ranges;
            }
            joins
        })
    }

    fn together(&self, launch: &Launch, parts: &[&Part]) -> (Operands, Vec<Vec<u32>>) {
        let pick = |all: &[Access], range: fn(&Part) -> Range<usize>| -> Vec<Access> {
            parts.iter().flat_map(|part| all[range(part)].to_vec()).collect()
        };
        let all = Launch {
            reads: pick(&launch.reads, |part| part.reads.clone()),
            writes: pick(&launch.writes, |part| part.writes.clone()),
            ..launch.clone()
        };
        let shared = match parts {
            [_] => Shared::Nothing,
            [first, ..] if is_product(first) => Shared::SameOperand,
            _ => Shared::Segment,
        };
        let mut operands = Operands::new(&all, self, shared);
        let (reads, writes) = (parts[0].reads.len(), parts[0].writes.len());
        if let LaunchKernel::Op(OpKind::Dot(axes)) = &parts[0].kernel {
            vectorise(&mut operands, axes, self.limits);
        }
        let start =
            |operand: &Operand| narrow(elements_in(operand.base, operand.dtype) + operand.layout.offset);
        let starts = |i: usize| {
            let own =
                operands.reads[i * reads..][..reads].iter().chain(&operands.writes[i * writes..][..writes]);
            own.map(start).collect()
        };
        let starts = (0..parts.len()).map(starts).collect();
        // Return the operands of the first part. Their base is 0, because the table contains the start
        // indices.
        operands.reads.truncate(reads);
        operands.writes.truncate(writes);
        operands.reads.iter_mut().chain(&mut operands.writes).for_each(|operand| operand.base = 0);
        (operands, starts)
    }

    fn views<'o>(&self, operands: &'o Operands, gated: bool) -> Views<'o> {
        operands.views(gated)
    }

    fn check(&self, operands: &Operands, kernels: &[Kernel], launch: &Launch) -> Result<()> {
        let Limits { storage_buffers, binding_bytes, .. } = *self.limits;
        // Smaller elements that are written must be in a single piece: they are stored with atomic operations
        // on their word, and a function for that would need a pointer to one of several bindings.
        let smaller = operands
            .bindings
            .iter()
            .find(|binding| binding.element == Element::Atomic && binding.pieces(self.limits) > 1);
        let most = kernels.iter().map(|kernel| operands.count(kernel, self.limits)).max().unwrap_or(0);
        let message = match smaller {
            Some(large) => format!(
                "a kernel writes elements of less than 32 bits into {} bytes, the adapter allows bindings of {binding_bytes}",
                large.bytes()
            ),
            None if most > storage_buffers => format!(
                "a kernel needs {most} storage buffers of at most {binding_bytes} bytes, the adapter allows \
                 {storage_buffers}"
            ),
            None => return Ok(()),
        };
        Err(Error::new(ErrorKind::Plan, message)
            .note(format!("in `{}`", launch.kernel.title()))
            .help("make the batch, the context or the vocabulary smaller, or use another device"))
    }
}

impl Operands {
    /// Returns the number of storage buffers that a kernel on these operands binds.
    pub(super) fn count(&self, kernel: &Kernel, limits: &Limits) -> usize {
        let mut bindings = vec![false; self.bindings.len()];
        let mut others = usize::from(kernel.is_gated() || kernel.traps());
        for buffer in kernel.used_buffers() {
            let operand = match kernel.buffers[buffer].role {
                Role::Operand(read) => &self.reads[read],
                Role::Result(write) => &self.writes[write],
                Role::Workspace { .. } | Role::Table | Role::Status => {
                    others += 1;
                    continue;
                }
            };
            if let Some(bound) = bindings.get_mut(operand.binding) {
                *bound = true;
            }
        }
        let bound = self.bindings.iter().zip(bindings).filter(|(_, bound)| *bound);
        others + bound.map(|(binding, _)| binding.pieces(limits)).sum::<usize>()
    }
}

fn is_product(part: &Part) -> bool {
    Form::of_part(part) == Some(Form::Product)
}

/// Memory covered by the operands and results of parts that run together.
struct Covers {
    /// True if each operand has a separate binding; otherwise those of a segment share one.
    apart: bool,
    /// Region and segment of each operand, the same for all parts.
    places: Vec<(Region, usize)>,
    /// For each operand, the range of bytes that covers it in all parts.
    ranges: Vec<Range<u64>>,
}

impl Covers {
    fn new(part: &Part, launch: &Launch, context: &Context<'_>) -> Self {
        let accesses = launch.reads[part.reads.clone()].iter().chain(&launch.writes[part.writes.clone()]);
        let mut covers = Self { apart: is_product(part), places: Vec::new(), ranges: Vec::new() };
        for access in accesses {
            let (region, range) = span(access, context);
            covers.places.push((region, context.cuts.segment(region, range.start)));
            covers.ranges.push(range);
        }
        covers
    }

    /// Returns the ranges that cover the operands of both, if the parts can share bindings: each operand is
    /// in the same segment, bindings do not exceed the size limit, and no operand of a product overlaps its
    /// results.
    fn joined(&self, other: &Self, context: &Context<'_>) -> Option<Vec<Range<u64>>> {
        let mut ranges = self.ranges.clone();
        for (range, other) in ranges.iter_mut().zip(&other.ranges) {
            *range = range.start.min(other.start)..range.end.max(other.end);
        }
        for (i, range) in ranges.iter().enumerate() {
            let mut bound = range.clone();
            for (j, other) in ranges.iter().enumerate() {
                if i == j || self.places[i] != self.places[j] {
                    continue;
                }
                if !self.apart {
                    bound = bound.start.min(other.start)..bound.end.max(other.end);
                } else if j + 1 == ranges.len() && range.start < other.end && other.start < range.end {
                    return None;
                }
            }
            if bound.end - bound.start > context.limits.binding_bytes {
                return None;
            }
        }
        (self.places == other.places).then_some(ranges)
    }
}
