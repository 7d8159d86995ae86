//! A launch: a kernel with its operands and results.

use super::{Body, Layout, Schedule};
use crate::collections::sort;
use crate::ir::AttentionSpec;
use crate::ir::{BlockFormat, DType, DotAxes, OpId, OpKind, ValueId};
use std::ops::Range;

/// A strided window into the buffer of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The value that owns the buffer. For a view, this is the viewed value.
    pub buffer: ValueId,
    /// Element type.
    pub dtype: DType,
    /// Positions of the elements in the buffer.
    pub layout: Layout,
    /// Format of the blocks that the elements, which are bytes, encode. Set only for the right operand of a
    /// product that contracts along blocks, by the lowering for targets that read blocks.
    pub blocks: Option<BlockFormat>,
}

impl Access {
    /// Returns the byte offset of the first element in the buffer.
    pub fn start(&self) -> u64 {
        self.layout.offset as u64 * self.dtype.bytes() as u64
    }

    /// Returns the byte offset of the end of the last element in the buffer.
    pub fn end(&self) -> u64 {
        self.layout.end() as u64 * self.dtype.bytes() as u64
    }
}

/// The computation of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// The op, with the reads as operands and the writes as results. Never a leaf, a view or a block op.
    Op(OpKind),
    /// A fused expression over the reads.
    Loop(Body),
    /// A matrix product of the first two reads, followed by an elementwise epilogue: row i, column j of the
    /// epilogue is row i, column j of the product, where the products of a batch are stacked along the rows.
    /// The epilogue has no row reductions. Its loads index the launch's reads, from index 2.
    Dot {
        /// Axes of the product.
        axes: DotAxes,
        /// Expression computed from the product.
        epilogue: Body,
    },
    /// Attention, followed by a row-wise epilogue whose results replace those of attention: row i of the
    /// epilogue is row i of the output, where the outputs of all heads and sequences are stacked along the
    /// rows. The accumulator is an element of the output or, at level `Row`, the log-sum-exp. Loads index the
    /// launch's reads, starting after those of attention. The lowering creates this kernel for targets that
    /// support it.
    Attention {
        /// Attributes of attention.
        spec: AttentionSpec,
        /// Expression computed from the results of attention.
        epilogue: Body,
    },
    /// Independent kernels that run in one launch.
    Group(Vec<Part>),
    /// Copies the read to the write, element by element in the order of the layouts' axes. The shapes are
    /// equal.
    Copy,
    /// Reads (value, one i32 scalar start per axis) and stores the value in the window of the write that
    /// begins at the starts. A window out of bounds is an index trap.
    WriteRegion,
}

impl Kernel {
    /// Returns `true` if the kernel exchanges values with other ranks.
    pub fn is_collective(&self) -> bool {
        matches!(self, Kernel::Op(OpKind::Collective { .. }))
    }

    /// Returns `true` if the kernel supports non-contiguous writes, such as windows of a buffer shared by
    /// several results or permuted axes.
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

    /// Returns the expression of a fused kernel, or `None` for other kernels.
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

/// A kernel of a [`Kernel::Group`], with its reads and writes numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The kernel, which is not a group.
    pub kernel: Kernel,
    /// Range of the part's reads among the reads of the launch.
    pub reads: Range<usize>,
    /// Range of the part's writes among the writes of the launch.
    pub writes: Range<usize>,
    /// Division of the work among threads when the part runs alone.
    pub schedule: Schedule,
    /// Byte range of the part's scratch in the launch's workspace. Parts run concurrently, so the ranges are
    /// disjoint.
    pub workspace: Range<u64>,
}

impl Part {
    /// Returns a launch as a part that covers all its reads and writes.
    pub fn whole(launch: &Launch) -> Self {
        Self {
            kernel: launch.kernel.clone(),
            reads: 0..launch.reads.len(),
            writes: 0..launch.writes.len(),
            schedule: launch.schedule.clone(),
            workspace: 0..launch.workspace,
        }
    }

    /// Returns the part of a launch as a separate launch.
    pub fn alone(&self, launch: &Launch) -> Launch {
        let own = |&(write, read): &(usize, usize)| {
            let is_own = self.writes.contains(&write) && self.reads.contains(&read);
            is_own.then(|| (write - self.writes.start, read - self.reads.start))
        };
        Launch {
            op: launch.op,
            kernel: self.kernel.clone(),
            reads: launch.reads[self.reads.clone()].to_vec(),
            writes: launch.writes[self.writes.clone()].to_vec(),
            may_alias: launch.may_alias.iter().filter_map(own).collect(),
            schedule: self.schedule.clone(),
            workspace: self.workspace.end - self.workspace.start,
            phase: launch.phase,
        }
    }
}

/// The phase of a step in which a launch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Runs before the guards are checked, and writes no persistent values.
    Compute,
    /// Runs after the guards have passed, and may write parameters and states.
    Commit,
}

/// An invocation of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The op that produced the launch, for messages and profiles.
    pub op: OpId,
    /// The kernel.
    pub kernel: Kernel,
    /// Operands of the kernel.
    pub reads: Vec<Access>,
    /// Results, every element of which is written. They are contiguous unless [`Kernel::writes_strided`]
    /// returns `true`. Several results may be windows that together fill one buffer.
    pub writes: Vec<Access>,
    /// Pairs (write, read) that may alias if their layouts are equal, because the kernel reads each element
    /// before it writes that element.
    pub may_alias: Vec<(usize, usize)>,
    /// Division of the work among threads, chosen by the lowering.
    pub schedule: Schedule,
    /// Number of bytes of scratch memory that the kernel needs while it runs.
    pub workspace: u64,
    /// Phase in which the launch runs.
    pub phase: Phase,
}

/// The pairs of [`Launch::may_alias`], grouped into a list of reads per write for repeated queries.
#[derive(Clone, Debug, Default)]
pub struct Aliases {
    /// End of the list of each write, where the next list starts.
    ends: Vec<usize>,
    reads: Vec<usize>,
}

impl Aliases {
    /// Collects pairs (write, read). With the pairs reversed, the lists contain the writes that may alias
    /// each read.
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

    /// Returns `true` if a write may alias a read.
    pub fn contains(&self, write: usize, read: usize) -> bool {
        self.reads_of(write).contains(&read)
    }

    /// Returns the reads that a write may alias, in the order of the pairs.
    pub fn reads_of(&self, write: usize) -> &[usize] {
        let Some(&end) = self.ends.get(write) else { return &[] };
        let start = write.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.reads[start..end]
    }
}

/// The buffers that a launch may overwrite, prepared for repeated queries.
#[derive(Debug)]
pub struct Overwrites<'l> {
    launch: &'l Launch,
    aliases: Aliases,
    /// Buffer and index of each of the launch's reads, sorted.
    reads: Vec<(ValueId, usize)>,
}

impl<'l> Overwrites<'l> {
    /// Collects the aliases and the reads of a launch.
    pub fn new(launch: &'l Launch) -> Self {
        let mut reads: Vec<_> = launch.reads.iter().enumerate().map(|(r, read)| (read.buffer, r)).collect();
        sort(&mut reads);
        Self { launch, aliases: Aliases::new(&launch.may_alias), reads }
    }

    /// Returns the reads that a write may alias, regardless of other reads of the same buffer.
    pub fn reads_of(&self, write: usize) -> &[usize] {
        self.aliases.reads_of(write)
    }

    /// Returns `true` if the buffer `written` may share the bytes of the buffer `read`. All writes to
    /// `written` must allow it.
    pub fn allow_buffer(&self, written: ValueId, read: ValueId) -> bool {
        let mut writes = self.launch.writes.iter().enumerate().filter(|(_, write)| write.buffer == written);
        writes.all(|(w, _)| self.allow(w, read))
    }

    /// Returns `true` if a write may overwrite a buffer that the launch reads. Every read of that buffer must
    /// be allowed to alias the write or be disjoint from it.
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
