//! How attention and its gradient are shared out.

use crate::ir::{AttentionSpec, DType};

/// A kernel of attention or of its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionKernel {
    /// Output and log-sum-exp.
    Forward,
    /// Of the gradient: dq, and for the next one the product of each query's output with its cotangent.
    Queries,
    /// Of the gradient: dk and dv.
    Keys,
}

impl AttentionKernel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Forward, Self::Queries, Self::Keys];

    /// What its dispatches are called.
    pub fn label(self) -> &'static str {
        match self {
            Self::Forward => "attention",
            Self::Queries => "attention_grad: queries",
            Self::Keys => "attention_grad: keys",
        }
    }

    /// The rows that are shared out: of queries, or of keys, out of each sequence and head.
    pub fn rows(self, problem: &AttentionProblem) -> usize {
        match self {
            Self::Forward | Self::Queries => problem.queries,
            Self::Keys => problem.keys,
        }
    }

    /// Heads that have such rows.
    pub fn heads(self, problem: &AttentionProblem) -> usize {
        match self {
            Self::Forward | Self::Queries => problem.heads,
            Self::Keys => problem.key_heads,
        }
    }

    /// Sequences times heads that have such rows.
    pub fn pairs(self, problem: &AttentionProblem) -> usize {
        problem.batch * self.heads(problem)
    }
}

/// An op and its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionProblem {
    /// Which keys a query sees, and the factor on scores.
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
    /// `shapes` are those of q, k, v, and of the block table.
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

    /// Sequences times heads.
    pub fn pairs(&self) -> usize {
        self.batch * self.heads
    }

    /// Query heads that read one key head.
    pub fn sharing(&self) -> usize {
        self.heads / self.key_heads.max(1)
    }

    /// Whether a query may see fewer keys than there are.
    pub fn hides_keys(&self) -> bool {
        self.spec.causal || self.spec.key_length
    }

    /// Bytes of a number for each query: the product of its output with its cotangent, which the gradient's
    /// second kernel has from the first.
    pub fn means_bytes(&self) -> u64 {
        4 * (self.pairs() as u64 * self.queries as u64).max(1)
    }
}

/// How a block of scores is shared out. Thread (down, across) has the rows `down + i * row_threads` and the
/// columns `across + j * column_threads`, so that neighbours read neighbouring rows.
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
    /// A tile from its fields, in their order.
    pub const fn new(
        rows_each: usize,
        columns_each: usize,
        row_threads: usize,
        column_threads: usize,
    ) -> Self {
        Self { rows_each, columns_each, row_threads, column_threads }
    }

    /// Rows of a block.
    pub fn rows(&self) -> usize {
        self.rows_each * self.row_threads
    }

    /// Columns of a block.
    pub fn columns(&self) -> usize {
        self.columns_each * self.column_threads
    }

    /// Invocations of a workgroup.
    pub fn threads(&self) -> usize {
        self.row_threads * self.column_threads
    }

    /// Items of a block of scores, each of which has a thread's columns: one more for each row than there are
    /// threads, which spreads rows over the banks.
    pub fn score_items(&self) -> usize {
        self.rows() * (self.column_threads + 1)
    }

    /// Items of a number for each row and thread across.
    pub fn share_items(&self) -> usize {
        self.rows() * self.column_threads
    }

    /// Vectors of four elements from row to row of a block, whose rows have so many elements: an odd number,
    /// for the same reason.
    pub fn pitch(width: usize) -> usize {
        width.div_ceil(4) | 1
    }

    /// Bytes of workgroup memory that a kernel's blocks take.
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

    /// Invocations of a workgroup.
    pub fn threads(&self) -> usize {
        Self::STRIPS * self.subgroup
    }

    /// Vectors of four elements from row to row of a block: loads of matrices take 16 bytes of several rows.
    pub fn pitch(width: usize) -> usize {
        width / 4 + 2
    }

    /// Bytes of workgroup memory that a kernel takes.
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

    /// Workgroups.
    pub fn groups(&self, problem: &AttentionProblem) -> usize {
        problem.batch * problem.key_heads * problem.queries
    }

    /// Invocations that have a key or value together.
    pub fn lanes(&self, problem: &AttentionProblem) -> usize {
        problem.depth.max(problem.value_depth).div_ceil(self.each).next_power_of_two()
    }

    /// Keys that are taken at a time.
    pub fn slots(&self, problem: &AttentionProblem) -> usize {
        self.threads / self.lanes(problem)
    }

    /// Keys that an invocation has on their way at the same time. With eight in large workgroups, of which
    /// there are few, a step of GPT-2 124M with one text takes 0.274 instead of 0.289 ms on an H200; in
    /// smaller ones, of which a multiprocessor has many, one with 32 texts takes 0.517 instead of 0.508 ms.
    pub fn ahead(&self, problem: &AttentionProblem) -> usize {
        if self.threads >= 512 && Self::has_few(problem) { 8 } else { 4 }
    }

    /// Whether an invocation has so few queries' sums that it can have many keys on their way.
    pub fn has_few(problem: &AttentionProblem) -> bool {
        problem.sharing() <= 2
    }

    /// Bytes of workgroup memory: of each subgroup and each head a maximum, a sum, and a sum of values.
    pub fn bytes(&self, problem: &AttentionProblem) -> usize {
        let subgroups = self.threads / Self::SUBGROUP as usize;
        problem.sharing() * subgroups * (8 + 4 * self.each * self.lanes(problem)) + 16
    }
}

/// How rows are shared out.
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

/// How the kernels of attention, or of its gradient, are computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionSchedule {
    /// The extents.
    pub problem: AttentionProblem,
    /// The kernels in order, each with its choice.
    pub kernels: Vec<(AttentionKernel, AttentionChoice)>,
    /// What matrix instructions round the operands to: floats of 16 bits.
    pub half: DType,
    /// Whether it is known which invocation has which element of a matrix sum, so that scores stay in
    /// registers.
    pub fragments: bool,
    /// Whether the products of outputs with their cotangents, which both kernels of the gradient need, have a
    /// kernel of their own, so that the two can run at the same time. It takes subgroups of this size.
    pub means_apart: Option<u32>,
    /// Invocations of a workgroup in which each has rows of its own.
    pub workgroup: usize,
    /// From this number of rows on, such a workgroup has rows of one head. One of fewer rows may have several
    /// heads'.
    pub together_from: usize,
}

impl AttentionSchedule {
    /// Whether the kernel can compute what follows from attention row by row: lanes have whole rows.
    pub fn takes_epilogue(&self) -> bool {
        matches!(self.kernels[..], [(AttentionKernel::Forward, AttentionChoice::Lanes(_))])
    }

    /// Bytes of scratch.
    pub fn workspace(&self) -> u64 {
        match self.kernels.iter().all(|(kernel, _)| *kernel == AttentionKernel::Forward) {
            true => 0,
            false => self.problem.means_bytes(),
        }
    }
}
