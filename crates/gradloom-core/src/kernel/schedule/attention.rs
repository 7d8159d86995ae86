//! Schedules of attention and its gradient.

use crate::ir::{AttentionSpec, DType};

/// A kernel of attention or of its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionKernel {
    /// Output and log-sum-exp.
    Forward,
    /// Part of the gradient: dq, and for the next kernel the product of each query's output with its
    /// cotangent.
    Queries,
    /// Part of the gradient: dk and dv.
    Keys,
}

impl AttentionKernel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Forward, Self::Queries, Self::Keys];

    /// Returns the name of its dispatches.
    pub fn label(self) -> &'static str {
        match self {
            Self::Forward => "attention",
            Self::Queries => "attention_grad: queries",
            Self::Keys => "attention_grad: keys",
        }
    }

    /// Returns the number of rows that are shared out: of queries, or of keys, of each sequence and head.
    pub fn rows(self, problem: &AttentionProblem) -> usize {
        match self {
            Self::Forward | Self::Queries => problem.queries,
            Self::Keys => problem.keys,
        }
    }

    /// Returns the number of heads that have such rows.
    pub fn heads(self, problem: &AttentionProblem) -> usize {
        match self {
            Self::Forward | Self::Queries => problem.heads,
            Self::Keys => problem.key_heads,
        }
    }

    /// Returns the number of sequences times heads that have such rows.
    pub fn pairs(self, problem: &AttentionProblem) -> usize {
        problem.batch * self.heads(problem)
    }
}

/// An op and its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionProblem {
    /// Keys that a query sees, and the factor on scores.
    pub spec: AttentionSpec,
    /// Sequences.
    pub batch: usize,
    /// Heads of the queries: a multiple of those of the keys.
    pub heads: usize,
    /// Heads of keys and values.
    pub key_heads: usize,
    /// Queries of a sequence.
    pub queries: usize,
    /// Keys of a sequence, at most.
    pub keys: usize,
    /// Elements of a query or key.
    pub depth: usize,
    /// Elements of a value.
    pub value_depth: usize,
}

impl AttentionProblem {
    /// Creates a problem; `shapes` are those of q, k, v, and `table` is that of the block table.
    pub fn new(spec: &AttentionSpec, shapes: [&[usize]; 3], table: Option<&[usize]>) -> Self {
        let [q, k, v] = shapes;
        Self {
            spec: *spec,
            batch: q[0],
            heads: q[1],
            key_heads: k[1],
            queries: q[2],
            keys: table.map_or(k[2], |table| table[1] * k[2]),
            depth: q[3],
            value_depth: v[3],
        }
    }

    /// Returns the number of sequences times heads.
    pub fn pairs(&self) -> usize {
        self.batch * self.heads
    }

    /// Returns the number of query heads that read one key head.
    pub fn sharing(&self) -> usize {
        self.heads / self.key_heads.max(1)
    }

    /// Returns whether a query may see fewer keys than there are.
    pub fn hides_keys(&self) -> bool {
        self.spec.causal || self.spec.key_length
    }

    /// Returns the number of bytes of one f32 for each query: the product of its output with its cotangent,
    /// which the gradient's second kernel has from the first.
    pub fn means_bytes(&self) -> u64 {
        4 * (self.pairs() as u64 * self.queries as u64).max(1)
    }
}

/// Division of a block of scores among threads. Thread (down, across) has the rows `down + i * row_threads`
/// and the columns `across + j * column_threads`, so that neighbours read neighbouring rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionTile {
    /// Rows of a thread.
    pub rows_each: usize,
    /// Columns of a thread: 2 or 4.
    pub columns_each: usize,
    /// Threads along rows.
    pub row_threads: usize,
    /// Threads along columns.
    pub column_threads: usize,
}

impl AttentionTile {
    /// Creates a tile from its fields, in their order.
    pub const fn new(
        rows_each: usize,
        columns_each: usize,
        row_threads: usize,
        column_threads: usize,
    ) -> Self {
        Self { rows_each, columns_each, row_threads, column_threads }
    }

    /// Returns the number of rows of a block.
    pub fn rows(&self) -> usize {
        self.rows_each * self.row_threads
    }

    /// Returns the number of columns of a block.
    pub fn columns(&self) -> usize {
        self.columns_each * self.column_threads
    }

    /// Returns the number of invocations of a workgroup.
    pub fn threads(&self) -> usize {
        self.row_threads * self.column_threads
    }

    /// Returns the number of items of a block of scores, each of which has a thread's columns: one more for
    /// each row than there are threads, which spreads rows over the banks.
    pub fn score_items(&self) -> usize {
        self.rows() * (self.column_threads + 1)
    }

    /// Returns the number of items of one number for each row and thread across.
    pub fn share_items(&self) -> usize {
        self.rows() * self.column_threads
    }

    /// Returns the distance from row to row of a block with rows of so many elements, in vectors of four
    /// elements: an odd number, for the same reason.
    pub fn pitch(width: usize) -> usize {
        width.div_ceil(4) | 1
    }

    /// Returns the number of bytes of workgroup memory that a kernel's blocks take.
    pub fn bytes(&self, kernel: AttentionKernel, problem: &AttentionProblem) -> usize {
        let block = |rows: usize, width: usize| 16 * rows * Self::pitch(width);
        let (rows, columns) = (self.rows(), self.columns());
        let (scores, shares) = (4 * self.columns_each * self.score_items(), 4 * self.share_items());
        let (keys, values) = (block(rows + columns, problem.depth), problem.value_depth);
        // What is said of queries and keys when the step runs is shared, too.
        let bounds = if problem.spec.query_offset || problem.spec.key_length { 16 } else { 0 };
        let blocks = match kernel {
            AttentionKernel::Forward => keys + block(columns, values) + scores + shares,
            AttentionKernel::Queries => keys + block(rows + columns, values) + scores + shares,
            AttentionKernel::Keys => keys + block(rows + columns, values) + 2 * scores,
        };
        blocks + bounds
    }
}

/// Rows and columns of a matrix that a subgroup multiplies.
pub const MATRIX: usize = 16;

/// A block of 64 rows that four subgroups have, by matrices of floats of 16 bits: each a strip of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionMatrices {
    /// Invocations of a subgroup.
    pub subgroup: usize,
    /// Columns of scores that are in workgroup memory at a time: a multiple of [`MATRIX`] that divides
    /// [`AttentionMatrices::ROWS`].
    pub columns: usize,
}

impl AttentionMatrices {
    /// Subgroups of a workgroup.
    pub const STRIPS: usize = 4;
    /// Rows of a block.
    pub const ROWS: usize = Self::STRIPS * MATRIX;

    /// Returns the number of invocations of a workgroup.
    pub fn threads(&self) -> usize {
        Self::STRIPS * self.subgroup
    }

    /// Returns the distance from row to row of a block, in vectors of four elements: loads of matrices take
    /// 16 bytes of several rows.
    pub fn pitch(width: usize) -> usize {
        width / 4 + 2
    }

    /// Returns the number of bytes of workgroup memory that a kernel takes.
    pub fn bytes(&self, kernel: AttentionKernel, problem: &AttentionProblem) -> usize {
        let blocks = 8 * Self::ROWS * (Self::pitch(problem.depth) + Self::pitch(problem.value_depth));
        let kinds = if kernel == AttentionKernel::Forward { 1 } else { 2 };
        // Of f32, and as many of 16 bits.
        let scores = (4 + 2) * kinds * Self::ROWS * self.columns;
        blocks + scores + if problem.spec.query_offset || problem.spec.key_length { 16 } else { 0 }
    }
}

/// A workgroup for each query of the heads that share a key head: a few neighbouring invocations have a key
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionLanes {
    /// Invocations of a workgroup: a multiple of [`AttentionLanes::SUBGROUP`].
    pub threads: usize,
    /// Elements of a key or value that an invocation has: [`AttentionLanes::FOUR`], or twice as many of keys
    /// and values of 16 bits.
    pub each: usize,
}

impl AttentionLanes {
    /// Invocations of a subgroup, within which sums over a key's elements are made.
    pub const SUBGROUP: u32 = 32;
    /// Elements of an invocation, at least.
    pub const FOUR: usize = 4;

    /// Returns the number of workgroups.
    pub fn groups(&self, problem: &AttentionProblem) -> usize {
        problem.batch * problem.key_heads * problem.queries
    }

    /// Returns the number of invocations that have a key or value together.
    pub fn lanes(&self, problem: &AttentionProblem) -> usize {
        problem.depth.max(problem.value_depth).div_ceil(self.each).next_power_of_two()
    }

    /// Returns the number of keys that are taken at a time.
    pub fn slots(&self, problem: &AttentionProblem) -> usize {
        self.threads / self.lanes(problem)
    }

    /// Returns the number of keys that an invocation loads at the same time. With eight in large
    /// workgroups, of which there are few, a step of GPT-2 124M with one text takes 0.274 instead of 0.289
    /// ms on an H200; in smaller ones, of which a multiprocessor has many, one with 32 texts takes 0.517
    /// instead of 0.508 ms.
    pub fn ahead(&self, problem: &AttentionProblem) -> usize {
        if self.threads >= 512 && Self::has_few(problem) { 8 } else { 4 }
    }

    /// Returns whether an invocation has the sums of so few queries that it can load many keys at the same
    /// time.
    pub fn has_few(problem: &AttentionProblem) -> bool {
        problem.sharing() <= 2
    }

    /// Returns the number of bytes of workgroup memory: of each subgroup and each head a maximum, a sum,
    /// and a sum of values.
    pub fn bytes(&self, problem: &AttentionProblem) -> usize {
        let subgroups = self.threads / Self::SUBGROUP as usize;
        problem.sharing() * subgroups * (8 + 4 * self.each * self.lanes(problem)) + 16
    }
}

/// Division of rows among invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionChoice {
    /// A workgroup has a block of them, which meets blocks of the others in workgroup memory.
    Block(AttentionTile),
    /// The same by matrix instructions, of operands that are rounded to 16 bits.
    Matrices(AttentionMatrices),
    /// A few queries over many keys, where subgroups exchange values.
    Lanes(AttentionLanes),
    /// An invocation has so many of its own: more than one only on devices that compute on a CPU.
    Own {
        /// Rows of an invocation.
        rows: usize,
    },
}

/// Schedule of the kernels of attention, or of its gradient.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionSchedule {
    /// The extents.
    pub problem: AttentionProblem,
    /// The kernels in order, each with its choice.
    pub kernels: Vec<(AttentionKernel, AttentionChoice)>,
    /// Dtype to which matrix instructions round the operands: floats of 16 bits.
    pub half: DType,
    /// True if it is known which invocation has which element of a matrix sum, so that scores stay in
    /// registers.
    pub fragments: bool,
    /// Subgroup size of a kernel that computes the products of outputs with their cotangents by itself;
    /// `None` without such a kernel. Both kernels of the gradient need these products; with it, the two can
    /// run at the same time.
    pub means_apart: Option<u32>,
    /// Invocations of a workgroup in which each has rows of its own.
    pub workgroup: usize,
    /// Number of rows from which a workgroup of this kind has rows of a single head; with fewer rows, it
    /// may have those of several heads.
    pub together_from: usize,
}

impl AttentionSchedule {
    /// Returns whether the kernel can compute what follows from attention row by row: lanes have whole
    /// rows.
    pub fn takes_epilogue(&self) -> bool {
        matches!(self.kernels[..], [(AttentionKernel::Forward, AttentionChoice::Lanes(_))])
    }

    /// Returns the number of bytes of scratch.
    pub fn workspace(&self) -> u64 {
        match self.kernels.iter().all(|(kernel, _)| *kernel == AttentionKernel::Forward) {
            true => 0,
            false => self.problem.means_bytes(),
        }
    }
}
