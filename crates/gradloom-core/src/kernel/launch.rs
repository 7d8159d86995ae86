//! A launch: a kernel with its operands and results.

use super::{Body, Layout, Schedule};
use crate::collections::sort;
use crate::ir::AttentionSpec;
use crate::ir::{BlockFormat, DType, DotAxes, OpId, OpKind, ValueId};
use std::ops::Range;

/// A strided window into the bytes that a value owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The value that owns the bytes; a view's access names the value that it views.
    pub buffer: ValueId,
    /// Element type.
    pub dtype: DType,
    /// Elements of the buffer, in order.
    pub layout: Layout,
    /// Format of the blocks that the elements, bytes, make up; only for the right operand of a product,
    /// which sums along blocks. Lowering sets it for targets that read blocks.
    pub blocks: Option<BlockFormat>,
}

impl Access {
    /// Returns the position of the first element, in bytes from the start of the buffer.
    pub fn start(&self) -> u64 {
        self.layout.offset as u64 * self.dtype.bytes() as u64
    }

    /// Returns the position of the end of the last element, in bytes from the start of the buffer.
    pub fn end(&self) -> u64 {
        self.layout.end() as u64 * self.dtype.bytes() as u64
    }
}

/// The computation of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// The op, on the reads as operands and the writes as results. Never a leaf, a view or a block op.
    Op(OpKind),
    /// A fused expression over the reads.
    Loop(Body),
    /// A matrix product of the first two reads and what follows from it, position by position: row i, column
    /// j of the epilogue are row i and column j of the product, all products of a batch below each other. The
    /// epilogue has no row reductions; its loads name the launch's reads, from index 2.
    Dot {
        /// The axes of the product.
        axes: DotAxes,
        /// The expression that is computed from the product.
        epilogue: Body,
    },
    /// Attention and what follows from it row by row, which has the results' place: row i of the epilogue is
    /// row i of the output, those of all heads and sequences below each other. The accumulator is an element
    /// of the output, or, of level `Row`, the log-sum-exp. Loads name the launch's reads, from behind
    /// attention's on. Lowering makes it for targets that compute it.
    Attention {
        /// The attributes of attention.
        spec: AttentionSpec,
        /// The expression that is computed from its results.
        epilogue: Body,
    },
    /// Independent kernels, run together.
    Group(Vec<Part>),
    /// Copies the read to the write, element by element in the order of the layouts' axes (of equal shapes).
    Copy,
    /// Reads (value, one i32 scalar start for each axis); replaces that window of the write. Out of range is
    /// an index trap.
    WriteRegion,
}

impl Kernel {
    /// Returns whether the kernel can write windows with gaps: into a value that several results share, or
    /// in another order of axes.
    pub fn writes_strided(&self) -> bool {
        match self {
            Kernel::WriteRegion
            | Kernel::Op(OpKind::Attention(_) | OpKind::AttentionGrad(_))
            | Kernel::Loop(_) => true,
            Kernel::Attention { .. } => true,
            Kernel::Group(parts) => parts.iter().all(|part| part.kernel.writes_strided()),
            Kernel::Op(_) | Kernel::Dot { .. } | Kernel::Copy => false,
        }
    }

    /// Returns the expression of a fused kernel.
    pub fn body(&self) -> Option<&Body> {
        match self {
            Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } => Some(body),
            Kernel::Attention { epilogue: body, .. } => Some(body),
            _ => None,
        }
    }

    /// Returns the name in plans and profiles.
    pub fn name(&self) -> &'static str {
        match self {
            Kernel::Op(kind) => kind.name(),
            Kernel::Loop(body) => body.name(),
            Kernel::Dot { .. } => "dot",
            Kernel::Attention { .. } => "attention",
            Kernel::Group(parts) => match parts.first() {
                Some(part) => part.kernel.name(),
                None => "group",
            },
            Kernel::Copy => "copy",
            Kernel::WriteRegion => "write_region",
        }
    }
}

/// One kernel of a [`Kernel::Group`]; it numbers its reads and writes from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The kernel; not a group.
    pub kernel: Kernel,
    /// The range of its reads among those of the launch.
    pub reads: Range<usize>,
    /// The range of its writes among those of the launch.
    pub writes: Range<usize>,
    /// Division of its work among threads where it runs by itself.
    pub schedule: Schedule,
    /// Its scratch, in bytes from the start of the launch's workspace: parts run at the same time.
    pub workspace: Range<u64>,
}

impl Part {
    /// Returns a launch as the only part of a group.
    pub fn whole(launch: &Launch) -> Self {
        Self {
            kernel: launch.kernel.clone(),
            reads: 0..launch.reads.len(),
            writes: 0..launch.writes.len(),
            schedule: launch.schedule.clone(),
            workspace: 0..launch.workspace,
        }
    }

    /// Returns the part of a launch as a launch of its own.
    pub fn alone(&self, launch: &Launch) -> Launch {
        Launch {
            op: launch.op,
            kernel: self.kernel.clone(),
            reads: launch.reads[self.reads.clone()].to_vec(),
            writes: launch.writes[self.writes.clone()].to_vec(),
            may_alias: Vec::new(),
            schedule: self.schedule.clone(),
            workspace: self.workspace.end - self.workspace.start,
            phase: launch.phase,
        }
    }
}

/// The phase of a step in which a launch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before the guards are checked: writes nothing that persists.
    Compute,
    /// After the guards held: may write parameters and states.
    Commit,
}

/// One kernel's call.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The op that asked for it, for messages and profiles.
    pub op: OpId,
    /// The kernel.
    pub kernel: Kernel,
    /// The operands.
    pub reads: Vec<Access>,
    /// Results: every element is written. Contiguous, unless [`Kernel::writes_strided`]. Several may be
    /// windows of one buffer, which they fill together.
    pub writes: Vec<Access>,
    /// Pairs (write, read) that may be the same bytes if their layouts are equal: the kernel reads each
    /// element before it writes that element.
    pub may_alias: Vec<(usize, usize)>,
    /// Division of its work among threads, chosen when it was lowered.
    pub schedule: Schedule,
    /// Scratch bytes that the kernel needs while it runs.
    pub workspace: u64,
    /// The phase in which it runs.
    pub phase: Phase,
}

/// The pairs of [`Launch::may_alias`], for many questions about one launch: a list of reads for each write.
#[derive(Clone, Debug, Default)]
pub struct Aliases {
    /// The end of each list, where the next one starts.
    ends: Vec<usize>,
    reads: Vec<usize>,
}

impl Aliases {
    /// Collects pairs (write, read); or, for the writes that may take the place of a read, pairs the other
    /// way around.
    pub fn new(pairs: &[(usize, usize)]) -> Self {
        let mut ends = vec![0; pairs.iter().map(|&(write, _)| write + 1).max().unwrap_or(0)];
        for &(write, _) in pairs {
            ends[write] += 1;
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut reads = vec![0; start];
        for &(write, read) in pairs {
            reads[ends[write]] = read;
            ends[write] += 1;
        }
        Self { ends, reads }
    }

    /// Returns whether a write may take the place of a read.
    pub fn contains(&self, write: usize, read: usize) -> bool {
        self.reads_of(write).contains(&read)
    }

    /// Returns the reads whose place a write may take, in the order of the pairs.
    pub fn reads_of(&self, write: usize) -> &[usize] {
        let Some(&end) = self.ends.get(write) else { return &[] };
        let start = write.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.reads[start..end]
    }
}

/// Bytes that a launch may overwrite, for many questions about one launch.
#[derive(Debug)]
pub struct Overwrites<'l> {
    launch: &'l Launch,
    aliases: Aliases,
    /// The buffers that the launch reads and the numbers of the reads, sorted.
    reads: Vec<(ValueId, usize)>,
}

impl<'l> Overwrites<'l> {
    /// Collects the pairs and reads of a launch.
    pub fn new(launch: &'l Launch) -> Self {
        let mut reads: Vec<_> = launch.reads.iter().enumerate().map(|(r, read)| (read.buffer, r)).collect();
        sort(&mut reads);
        Self { launch, aliases: Aliases::new(&launch.may_alias), reads }
    }

    /// Returns the reads whose place a write may take, as far as that read is concerned.
    pub fn reads_of(&self, write: usize) -> &[usize] {
        self.aliases.reads_of(write)
    }

    /// Returns whether a buffer may have the bytes of one that the launch reads: as far as each of the writes
    /// that fill it is concerned, which may be several.
    pub fn allow_buffer(&self, written: ValueId, read: ValueId) -> bool {
        let mut writes = self.launch.writes.iter().enumerate().filter(|(_, write)| write.buffer == written);
        writes.all(|(w, _)| self.allow(w, read))
    }

    /// Returns whether a write may take the bytes of a buffer that the launch reads: every read of that
    /// buffer must allow it, or look at other bytes.
    pub fn allow(&self, write: usize, buffer: ValueId) -> bool {
        let Access { layout, dtype, .. } = &self.launch.writes[write];
        let allows = |r: usize| {
            let read = &self.launch.reads[r];
            let replaced = self.aliases.contains(write, r) && read.layout == *layout;
            replaced || read.dtype.bytes() == dtype.bytes() && read.layout.is_disjoint(layout)
        };
        let first = self.reads.partition_point(|(read, _)| *read < buffer);
        self.reads[first..].iter().take_while(|(read, _)| *read == buffer).all(|&(_, r)| allows(r))
    }
}
