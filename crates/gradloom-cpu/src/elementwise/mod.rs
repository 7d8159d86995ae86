//! Elementwise kernels: one result for each position, from the operands' elements at that position.
//!
//! In: strided operands of one shape, with strides of 0 where they are broadcast. Out: one contiguous result.
//! A large operand that runs across the result (a transposed matrix) is first copied to the result's place,
//! with loops that know how to transpose, and then read from there. Always holds: a block of every operand is
//! staged ([`StridedReader`]) before the block of the result is written, so the result may overwrite an
//! operand of the same layout; blocks are cut by shape alone.

pub(crate) mod functions;
mod map;
#[cfg(test)]
mod tests;

use super::kernel::{Call, FirstFault, Prepared, Trap};
use super::strided_reader::{BLOCK, Buffer, StridedReader};
use super::{InstructionSet, movement::CopyLoop, work};

pub(crate) use gradloom_codegen::cpu::loops::OPERANDS;
use gradloom_core::ir::{BinaryOp, CompareOp, CostClass, DType, UnaryOp};
use gradloom_core::kernel::{Access, Launch};
pub(crate) use map::{MapFn, Operand, ResultRows};
use std::ops::Range;

/// Prepares `Unary`.
pub(super) fn prepare_unary(launch: &Launch, op: UnaryOp, level: InstructionSet) -> Box<dyn Prepared> {
    let cheap = op.cost_class() == CostClass::Simple;
    Elementwise::boxed(launch, functions::unary(op, launch.reads[0].dtype, level), cheap)
}

/// Prepares `Binary`.
pub(super) fn prepare_binary(launch: &Launch, op: BinaryOp, level: InstructionSet) -> Box<dyn Prepared> {
    let dtype = launch.reads[0].dtype;
    let divides = dtype.is_integer() && matches!(op, BinaryOp::Div | BinaryOp::Rem);
    let cheap = !divides && op.cost_class() <= CostClass::Divide;
    let kernel = Elementwise::new(launch, functions::binary(op, dtype, level), cheap);
    if divides { Box::new(IntegerDivision { kernel }) } else { Box::new(kernel) }
}

/// Prepares `Compare`.
pub(super) fn prepare_compare(launch: &Launch, op: CompareOp, level: InstructionSet) -> Box<dyn Prepared> {
    Elementwise::boxed(launch, functions::compare(op, launch.reads[0].dtype, level), true)
}

/// Prepares `Select`.
pub(super) fn prepare_select(launch: &Launch, level: InstructionSet) -> Box<dyn Prepared> {
    Elementwise::boxed(launch, functions::select(launch.reads[1].dtype, level), true)
}

/// Prepares `Cast`.
pub(super) fn prepare_cast(launch: &Launch, to: DType, level: InstructionSet) -> Box<dyn Prepared> {
    Elementwise::boxed(launch, functions::cast(launch.reads[0].dtype, to, level), true)
}

struct Elementwise {
    map: MapFn,
    sources: Vec<StridedReader>,
    /// Bytes of its buffer that each operand spans.
    spans: Vec<Range<usize>>,
    write_span: Range<usize>,
    write_bytes: usize,
    elements: usize,
    /// Elements of a task.
    grain: usize,
    turned: Option<Turned>,
}

/// An operand that is worth a copy to the result's place first.
struct Turned {
    read: usize,
    copy: CopyLoop,
    /// The copy, as an operand.
    source: StridedReader,
}

/// Elements from which on an operand that runs across does not fit into the first-level cache.
const LARGE: usize = 8 * 1024;

impl Elementwise {
    fn new(launch: &Launch, map: MapFn, cheap: bool) -> Self {
        let write = &launch.writes[0];
        debug_assert!(write.layout.is_contiguous() && launch.reads.len() <= OPERANDS);
        let elements = write.layout.shape.elements();
        let sources: Vec<StridedReader> = launch.reads.iter().map(StridedReader::new).collect();
        let turned = launch.reads.iter().zip(&sources).position(|(access, source)| {
            elements >= LARGE && access.dtype.bytes() == write.dtype.bytes() && source.runs_across()
        });
        let span = |access: &Access| {
            access.layout.offset * access.dtype.bytes()..access.layout.end() * access.dtype.bytes()
        };
        Self {
            map,
            sources,
            spans: launch.reads.iter().map(span).collect(),
            write_span: span(write),
            write_bytes: write.dtype.bytes(),
            elements,
            grain: if cheap { work::GRAIN } else { work::GRAIN / 4 },
            turned: turned.map(|read| Turned {
                read,
                copy: CopyLoop::new(&launch.reads[read].layout, &write.layout, write.dtype.bytes()),
                source: StridedReader::new(write),
            }),
        }
    }

    fn boxed(launch: &Launch, map: MapFn, cheap: bool) -> Box<dyn Prepared> {
        Box::new(Self::new(launch, map, cheap))
    }

    /// Returns whether the result overlaps an operand in this call.
    fn in_place(&self, call: &Call<'_>) -> bool {
        let write = call.writes[0].addr();
        let write = write + self.write_span.start..write + self.write_span.end;
        self.spans
            .iter()
            .zip(call.reads)
            .any(|(span, read)| read.addr() + span.start < write.end && write.start < read.addr() + span.end)
    }

    /// Runs over all blocks; `inspect(position, count, operands)` sees the staged operands of each.
    fn run_inspecting(
        &self,
        call: &Call<'_>,
        inspect: &(dyn Fn(usize, usize, &[*const u8; OPERANDS]) + Sync),
    ) {
        let turned = self.turned.as_ref().filter(|_| !self.in_place(call));
        if let Some(Turned { read, copy, .. }) = turned {
            // SAFETY: the launch's layouts lie in the call's buffers, and the result overlaps no operand.
            unsafe { copy.run(call.pool, call.reads[*read], call.writes[0]) };
        }
        call.pool.run(self.elements.div_ceil(self.grain), &|task| {
            let mut buffers = [const { Buffer::new() }; OPERANDS];
            let end = ((task + 1) * self.grain).min(self.elements);
            let mut start = task * self.grain;
            while start < end {
                let count = BLOCK.min(end - start);
                let mut reads = [std::ptr::null(); OPERANDS];
                // SAFETY: the operands have `elements` elements each, and a buffer of their own. The function
                // was chosen for the machine's level and the launch's dtypes; tasks write disjoint ranges of
                // the result, and a block of an operand that the result overwrites is the block that is
                // written.
                unsafe {
                    for (i, source) in self.sources.iter().enumerate() {
                        reads[i] = match turned {
                            Some(turned) if turned.read == i => turned.source.stage(
                                call.write::<u8>(0, 0).cast_const(),
                                start,
                                count,
                                &mut buffers[i],
                            ),
                            _ => source.stage(call.read(i, 0), start, count, &mut buffers[i]),
                        };
                    }
                    inspect(start, count, &reads);
                    let start = call.write(0, self.write_span.start + start * self.write_bytes);
                    (self.map)(1, count, &reads.map(Operand::row), ResultRows { start, row_stride: 0 });
                }
                start += count;
            }
        });
    }
}

impl Prepared for Elementwise {
    fn run(&self, call: &Call<'_>) -> Result<(), Trap> {
        self.run_inspecting(call, &|_, _, _| {});
        Ok(())
    }
}

/// Division and remainder of integers, which have no result for a divisor of 0.
struct IntegerDivision {
    kernel: Elementwise,
}

impl Prepared for IntegerDivision {
    fn run(&self, call: &Call<'_>) -> Result<(), Trap> {
        let fault = FirstFault::new();
        self.kernel.run_inspecting(call, &|start, count, reads| {
            // SAFETY: the second operand was staged with `count` elements of 4 bytes, aligned as such.
            let divisors = unsafe { std::slice::from_raw_parts(reads[1].cast::<u32>(), count) };
            if let Some(at) = divisors.iter().position(|&divisor| divisor == 0) {
                fault.record(start + at);
            }
        });
        match fault.get() {
            Some(position) => {
                Err(Trap::new(format!("an integer was divided by zero, at element {position}")))
            }
            None => Ok(()),
        }
    }
}
