//! Layout of a step's results in a staging buffer, and their decoding.
//!
//! In: a staging buffer with the status, outputs and guards, copied one after the other at the end of a step.
//! Out: their elements, the outcome of the step, and the earlier steps that failed.

use super::regions::Regions;
use super::status::{FailureLog, STATUS_BYTES};
use crate::backend::{Failure, Finished};
use crate::elements::{Elements, output};
use crate::memory::{Memory, counted};
use crate::outcome::{
    Outcome, block_out_of_range, coordinates, divided_by_zero, index_out_of_range, key_length_out_of_range,
    out_of_i32, trap,
};
use gradloom_codegen::step::{self, Status, Verdict};
use gradloom_core::error::{Error, Result};
use gradloom_core::ir::{AttentionSpec, Graph, OpKind};
use gradloom_core::kernel::{Access, Body, Kernel, Launch, NodeKind};
use gradloom_core::plan::Plan;
use std::ops::Range;
use std::sync::Arc;

/// Layout of the results in the staging buffers of a program.
#[derive(Debug)]
pub struct Results {
    graph: Arc<Graph>,
    plan: Arc<Plan>,
    /// Outputs, then guards: the access, the byte range of its buffer to copy, and the offset in the staging
    /// buffer.
    copies: Vec<(Access, Range<usize>, usize)>,
    bytes: usize,
    failures: FailureLog,
}

/// A copy from device memory into the staging buffer.
pub struct ResultCopy<'a> {
    pub memory: &'a Memory,
    pub start: usize,
    pub bytes: usize,
    /// Offset of the bytes in the staging buffer.
    pub to: usize,
}

impl Results {
    /// Creates the layout of a program's results; `status` is the device memory of its status.
    pub fn new(graph: &Arc<Graph>, plan: &Arc<Plan>, status: &Arc<Memory>) -> Self {
        let mut bytes = STATUS_BYTES;
        let mut copies = Vec::new();
        for (_, access) in plan.outputs.iter().chain(&plan.guards) {
            let start = counted(access.start() / 4 * 4);
            let end = counted(access.end().next_multiple_of(4)).max(start);
            copies.push((access.clone(), start..end, bytes));
            bytes = bytes.saturating_add(end - start);
        }
        Self {
            graph: Arc::clone(graph),
            plan: Arc::clone(plan),
            copies,
            bytes,
            failures: FailureLog::new(status),
        }
    }

    /// Returns the size of a staging buffer in bytes. The status is at its start.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the copies to make after the compute phase. The status, not included, is copied at the end.
    pub fn copies<'a>(&'a self, memory: &'a Regions) -> impl Iterator<Item = ResultCopy<'a>> {
        self.copies.iter().filter(|(_, range, _)| !range.is_empty()).map(|(access, range, to)| {
            let buffer = &self.plan.buffers[self.plan.buffer_of[&access.buffer]];
            let (memory, start) = memory.place(buffer.region, buffer.offset + range.start as u64);
            ResultCopy { memory, start, bytes: range.len(), to: *to }
        })
    }

    /// Decodes the results of a step from the bytes of its staging buffer.
    ///
    /// # Errors
    /// Returns an error if the host has no memory for a copy of the results.
    pub fn finished(&self, bytes: &[u8]) -> Result<Finished> {
        let names = self.plan.outputs.iter().chain(&self.plan.guards).map(|(name, _)| name);
        let mut values = Vec::with_capacity(self.copies.len());
        for ((access, range, at), name) in self.copies.iter().zip(names) {
            let mut elements = Elements::default();
            elements.make_room(
                access.layout.shape.elements().saturating_mul(access.dtype.bytes()),
                &output(name),
            )?;
            gather(access, range.start, &bytes[*at..], &mut elements);
            values.push(elements);
        }
        let guards = values.split_off(self.plan.outputs.len());
        let status = Status::new(bytes);
        let failure = |(failure, others): (step::Failure, u32)| Failure {
            run: failure.step.into(),
            outcome: self.outcome(failure.verdict),
            others,
        };
        let failures = self.failures.news(&status).into_iter().map(failure).collect();
        Ok(Finished { outcome: self.outcome(status.verdict()), outputs: values, guards, failures })
    }

    /// Returns the outcome of a step, from its verdict.
    pub fn outcome(&self, verdict: Verdict) -> Result<Outcome> {
        match verdict {
            Verdict::Committed => Ok(Outcome::Committed),
            Verdict::NotFinite(guard) => Ok(Outcome::NotFinite { guard: self.plan.guards[guard].0.clone() }),
            Verdict::Trapped { launch, position, index, bound } => {
                Err(self.trapped(launch, position, index, bound))
            }
        }
    }

    /// Returns the error of a trap, with the position in the user's source.
    fn trapped(&self, number: usize, position: usize, index: i32, bound: usize) -> Error {
        let launch = &self.plan.launches[number];
        let window = |window: &Access, whole: &Access| {
            let (window, whole) = (&window.layout.shape, &whole.layout.shape);
            format!(
                "an update of {} elements at {index} does not fit axis {position} of {whole}",
                window[position]
            )
        };
        let message = match &launch.kernel {
            Kernel::WriteRegion => window(&launch.reads[0], &launch.writes[0]),
            Kernel::Op(OpKind::DynamicUpdateSlice) => window(&launch.reads[1], &launch.writes[0]),
            Kernel::Op(OpKind::DynamicSlice { sizes }) => format!(
                "a window of {} elements at {index} does not fit axis {position} of {}",
                sizes[position], launch.reads[0].layout.shape
            ),
            kernel if bound == 0 && divides_integers(kernel) => divided_by_zero(position),
            Kernel::Op(OpKind::Attention(spec) | OpKind::AttentionGrad(spec))
            | Kernel::Attention { spec, .. } => {
                attention_operand(spec, launch, position, index.into(), bound)
            }
            kernel => index_out_of_range(index, &indices(kernel, launch, bound), position, bound),
        };
        let op = &self.graph.ops[launch.op];
        let error = match self.graph.checks_i64(op) {
            true => {
                out_of_i32(&format!("{:?}", coordinates(&indices(&launch.kernel, launch, bound), position)))
            }
            false => trap(message),
        };
        self.at(number, error)
    }

    /// Adds a launch's position in the user's source to an error of the launch.
    pub(super) fn at(&self, launch: usize, error: Error) -> Error {
        let op = &self.graph.ops[self.plan.launches[launch].op];
        match self.graph.origin(op) {
            Some(origin) => error.at(origin.clone(), op.kind.name()),
            None => error.note(format!("in `{}`", op.kind.name())),
        }
    }
}

/// Returns the message for a value that attention found out of range: the key length of a sequence, or an
/// entry of the block table. `position` is the index of the sequence or, for an entry, the number of
/// sequences plus the entry's row-major index.
fn attention_operand(
    spec: &AttentionSpec,
    launch: &Launch,
    position: usize,
    value: i64,
    bound: usize,
) -> String {
    let sequences = launch.reads[0].layout.shape[0];
    match (spec.extra_positions()[2], position.checked_sub(sequences)) {
        (Some(table), Some(entry)) => {
            let columns = launch.reads[table].layout.shape[1];
            block_out_of_range(value, [entry / columns, entry % columns], bound)
        }
        _ => key_length_out_of_range(value, bound - 1),
    }
}

fn divides_integers(kernel: &Kernel) -> bool {
    let divides = |body: &Body| body.nodes.iter().any(|node| matches!(node.kind, NodeKind::CheckDivisor(_)));
    kernel.body().is_some_and(divides)
}

/// Returns the shape of the indices that a kernel checks against a bound.
fn indices(kernel: &Kernel, launch: &Launch, bound: usize) -> Vec<usize> {
    let Some(body) = kernel.body() else {
        return launch.reads.get(1).map_or_else(Vec::new, |read| read.layout.shape.to_vec());
    };
    let checked = body.nodes.iter().find_map(|node| match node.kind {
        NodeKind::CheckIndex { index, extent } if extent == bound => Some(index),
        _ => None,
    });
    match checked.map(|index| &body.node(index).kind) {
        Some(NodeKind::Load(read)) => launch.reads[*read].layout.shape.to_vec(),
        _ => Vec::new(),
    }
}

/// Appends the elements of an access, row-major, from bytes that start at byte `start` of its buffer.
pub(super) fn gather(access: &Access, start: usize, bytes: &[u8], into: &mut Elements) {
    let (layout, size) = (&access.layout, access.dtype.bytes());
    if layout.is_contiguous() {
        let first = layout.offset * size - start;
        return into.push(&bytes[first..first + layout.shape.elements() * size]);
    }
    layout.positions().for_each(|position| into.push(&bytes[position * size - start..][..size]));
}
