//! Placement of operands, each as a byte range of a region.

use gradloom_codegen::kernels::Placement;
use gradloom_codegen::pipeline::Limits;
use gradloom_codegen::product::reads_vectors;
use gradloom_codegen::schedule::group;
use gradloom_codegen::simt::kernels::{View, Views};
use gradloom_core::ir::{DType, OpKind};
use gradloom_core::kernel::{Access, Kernel as LaunchKernel, Launch, Part};
use gradloom_core::plan::{Plan, Region};
use std::ops::Range;

pub(crate) struct Places<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) limits: &'p Limits,
}

#[derive(Clone, Debug)]
pub(crate) struct Operands {
    pub(crate) reads: Vec<Operand>,
    pub(crate) writes: Vec<Operand>,
    in_place: bool,
}

/// An operand or result: an access, with the region and byte range of its buffer.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    access: Access,
    pub(crate) region: Region,
    pub(crate) bytes: Range<u64>,
    has_vectors: bool,
}

impl Operand {
    pub(crate) fn dtype(&self) -> DType {
        self.access.dtype
    }
}

impl Places<'_> {
    /// Returns the region and byte range of an access's buffer.
    fn place(&self, access: &Access) -> (Region, Range<u64>) {
        let buffer = &self.plan.buffers[self.plan.buffer_of[&access.buffer]];
        (buffer.region, buffer.offset..buffer.offset + buffer.bytes)
    }

    fn operand(&self, access: &Access, has_vectors: bool) -> Operand {
        let (region, bytes) = self.place(access);
        Operand { access: access.clone(), region, bytes, has_vectors }
    }

    fn is_in_place(&self, reads: &[Access], writes: &[Access]) -> bool {
        reads
            .first()
            .zip(writes.first())
            .is_some_and(|(read, write)| self.place(read) == self.place(write) && read.layout == write.layout)
    }
}

impl Placement for Places<'_> {
    type Operands = Operands;

    const HAS_ADDRESSES: bool = false;

    fn limits(&self) -> &Limits {
        self.limits
    }

    fn alone(&self, launch: &Launch, _shared: bool) -> Operands {
        let vectors = reads_vectors(&launch.kernel, &launch.schedule, &launch.reads);
        let has_vectors = |i: usize| !self.limits.scalar && vectors.get(i) == Some(&true);
        let reads = launch.reads.iter().enumerate();
        Operands {
            reads: reads.map(|(i, access)| self.operand(access, has_vectors(i))).collect(),
            writes: launch.writes.iter().map(|access| self.operand(access, false)).collect(),
            in_place: self.is_in_place(&launch.reads, &launch.writes),
        }
    }

    fn batches(&self, parts: &[Part], launch: &Launch) -> Vec<Vec<usize>> {
        let regions =
            |part: &Part| accesses(launch, part).map(|access| self.place(access).0).collect::<Vec<_>>();
        // A scatter that is not in place cannot be joined, because it must first copy its operand.
        let may_join = |part: &Part| {
            !matches!(part.kernel, LaunchKernel::Op(OpKind::Scatter { .. }))
                || self.is_in_place(&launch.reads[part.reads.clone()], &launch.writes[part.writes.clone()])
        };
        group::batches(parts, launch, |first, part| {
            let (first, part) = (&parts[first], &parts[part]);
            may_join(first) && may_join(part) && regions(first) == regions(part)
        })
    }

    fn together(&self, launch: &Launch, parts: &[&Part]) -> (Operands, Vec<Vec<u32>>) {
        let (reads, writes) = (parts[0].reads.len(), parts[0].writes.len());
        // Returns the byte range that spans the i-th operand or result of all parts.
        let span = |i: usize| {
            let bytes = parts.iter().map(|part| self.place(nth(launch, part, i)).1);
            bytes.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).expect("there is a part")
        };
        let spans: Vec<Range<u64>> = (0..reads + writes).map(span).collect();
        let start = |part: &Part, i: usize| {
            let access = nth(launch, part, i);
            let bytes = self.place(access).1.start - spans[i].start;
            let elements = bytes / access.dtype.bytes() as u64 + access.layout.offset as u64;
            u32::try_from(elements).expect("the grid's programs are small")
        };
        let starts = parts.iter().map(|part| (0..reads + writes).map(|i| start(part, i)).collect()).collect();
        let operand = |i: usize| {
            let operand = self.operand(nth(launch, parts[0], i), false);
            Operand { bytes: spans[i].clone(), ..operand }
        };
        let operands = Operands {
            reads: (0..reads).map(operand).collect(),
            writes: (reads..reads + writes).map(operand).collect(),
            in_place: false,
        };
        (operands, starts)
    }

    fn views<'o>(&self, operands: &'o Operands, gated: bool) -> Views<'o> {
        let views = |list: &'o [Operand]| {
            list.iter().map(|operand| View::of(&operand.access, operand.has_vectors)).collect()
        };
        let (reads, writes) = (views(&operands.reads), views(&operands.writes));
        Views { reads, writes, gated, in_place: operands.in_place }
    }
}

/// Returns the operands of a part, then its results.
fn accesses<'l>(launch: &'l Launch, part: &Part) -> impl Iterator<Item = &'l Access> + use<'l> {
    launch.reads[part.reads.clone()].iter().chain(&launch.writes[part.writes.clone()])
}

fn nth<'l>(launch: &'l Launch, part: &Part, i: usize) -> &'l Access {
    accesses(launch, part).nth(i).expect("the parts of a batch have as many operands")
}
