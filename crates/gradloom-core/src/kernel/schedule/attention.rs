//! Schedules of attention and its gradient.

use crate::ir::{AttentionSpec, DType};

/// A kernel of attention or of its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionKernel {
    /// Computes the output and the log-sum-exp.
    Forward,
    /// Computes dq, and for the next kernel the dot product of each query's output with its cotangent.
    Queries,
    /// Computes dk and dv.
    Keys,
}

impl AttentionKernel {
    /// All kernels.
    pub const ALL: [Self; 3] = [Self::Forward, Self::Queries, Self::Keys];

    /// Returns the label of the kernel's dispatches.
    pub fn label(self) -> &'static str {
        match self {
            Self::Forward => "attention",
            Self::Queries => "attention_grad: queries",
            Self::Keys => "attention_grad: keys",
        }
    }

    /// Returns the number of rows divided among threads: queries or keys per sequence and head.
    pub fn rows(self, problem: &AttentionProblem) -> usize {
        match self {
            Self::Forward | Self::Queries => problem.queries,
            Self::Keys => problem.keys,
        }
    }

    /// Returns the number of heads per sequence that the kernel processes: query heads or key heads.
    pub fn heads(self, problem: &AttentionProblem) -> usize {
        match self {
            Self::Forward | Self::Queries => problem.heads,
            Self::Keys => problem.key_heads,
        }
    }

    /// Returns the number of sequences times the number of heads that the kernel processes.
    pub fn pairs(self, problem: &AttentionProblem) -> usize {
        problem.batch * self.heads(problem)
    }
}

/// An attention op with its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionProblem {
    /// Attributes of attention, with the visible keys and the scale.
    pub spec: AttentionSpec,
    /// Number of sequences.
    pub batch: usize,
    /// Number of query heads, a multiple of `key_heads`.
    pub heads: usize,
    /// Number of key and value heads.
    pub key_heads: usize,
    /// Number of queries per sequence.
    pub queries: usize,
    /// Maximum number of keys per sequence.
    pub keys: usize,
    /// Number of elements of a query or key.
    pub depth: usize,
    /// Number of elements of a value.
    pub value_depth: usize,
}

impl AttentionProblem {
    /// Creates a problem from the shapes of q, k and v and of the block table, if any.
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

    /// Returns the number of sequences times the number of query heads.
    pub fn pairs(&self) -> usize {
        self.batch * self.heads
    }

    /// Returns the number of query heads per key head.
    pub fn sharing(&self) -> usize {
        self.heads / self.key_heads.max(1)
    }

    /// Returns `true` if some keys may be invisible to a query.
    pub fn hides_keys(&self) -> bool {
        self.spec.causal || self.spec.key_length || self.spec.window.is_some()
    }

    /// Returns `true` if some query may see no key, or if some key may be visible to no query. The elements
    /// of such rows may be NaN, and must not reach the results of others.
    pub fn has_unused_rows(&self) -> bool {
        let AttentionSpec { causal, window, query_offset, key_length, .. } = self.spec;
        query_offset
            || key_length
            || causal && self.keys > self.queries
            || window.is_some() && self.keys != self.queries
    }

    /// Returns the number of bytes of one f32 per query: the dot product of its output with its cotangent,
    /// which the first kernel of the gradient passes to the second.
    pub fn means_bytes(&self) -> u64 {
        4 * (self.pairs() as u64 * self.queries as u64).max(1)
    }
}

/// Division of a block of scores among threads. Thread (down, across) computes the rows
/// `down + i * row_threads` and the columns `across + j * column_threads`, so that adjacent threads read
/// adjacent rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionTile {
    /// Number of rows per thread.
    pub rows_each: usize,
    /// Number of columns per thread: 2 or 4.
    pub columns_each: usize,
    /// Number of threads along the rows.
    pub row_threads: usize,
    /// Number of threads along the columns.
    pub column_threads: usize,
}

impl AttentionTile {
    /// Creates a tile from its fields, in declaration order.
    pub const fn new(
        rows_each: usize,
        columns_each: usize,
        row_threads: usize,
        column_threads: usize,
    ) -> Self {
        Self { rows_each, columns_each, row_threads, column_threads }
    }

    /// Returns the number of rows in a block.
    pub fn rows(&self) -> usize {
        self.rows_each * self.row_threads
    }

    /// Returns the number of columns in a block.
    pub fn columns(&self) -> usize {
        self.columns_each * self.column_threads
    }

    /// Returns the number of invocations in a workgroup.
    pub fn threads(&self) -> usize {
        self.row_threads * self.column_threads
    }

    /// Returns the number of items of a block of scores. An item contains the columns of a thread. Each row
    /// has one item of padding, which avoids bank conflicts between rows.
    pub fn score_items(&self) -> usize {
        self.rows() * (self.column_threads + 1)
    }

    /// Returns the number of items of an array with one number per row and thread along the columns.
    pub fn share_items(&self) -> usize {
        self.rows() * self.column_threads
    }

    /// Returns the row pitch of a block with rows of `width` elements, in vectors of four elements. The pitch
    /// is odd to avoid bank conflicts.
    pub fn pitch(width: usize) -> usize {
        width.div_ceil(4) | 1
    }

    /// Returns the number of bytes of workgroup memory for the kernel's blocks.
    pub fn bytes(&self, kernel: AttentionKernel, problem: &AttentionProblem) -> usize {
        let block = |rows: usize, width: usize| 16 * rows * Self::pitch(width);
        let (rows, columns) = (self.rows(), self.columns());
        let (scores, shares) = (4 * self.columns_each * self.score_items(), 4 * self.share_items());
        let (keys, values) = (block(rows + columns, problem.depth), problem.value_depth);
        // The run-time bounds of queries and keys take 16 bytes.
        let bounds = if problem.spec.query_offset || problem.spec.key_length { 16 } else { 0 };
        let blocks = match kernel {
            AttentionKernel::Forward => keys + block(columns, values) + scores + shares,
            AttentionKernel::Queries => keys + block(rows + columns, values) + scores + shares,
            AttentionKernel::Keys => keys + block(rows + columns, values) + 2 * scores,
        };
        blocks + bounds
    }
}

/// Number of rows and of columns of a matrix that a subgroup multiplies.
pub const MATRIX: usize = 16;

/// A block of 64 rows computed by four subgroups with matrix instructions. Each subgroup
/// computes a strip of 16 rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionMatrices {
    /// Number of invocations in a subgroup.
    pub subgroup: usize,
    /// Number of score columns in workgroup memory at a time: a multiple of [`MATRIX`] that divides
    /// [`AttentionMatrices::ROWS`].
    pub columns: usize,
}

impl AttentionMatrices {
    /// Number of subgroups in a workgroup.
    pub const STRIPS: usize = 4;
    /// Number of rows in a block.
    pub const ROWS: usize = Self::STRIPS * MATRIX;

    /// Returns the number of invocations in a workgroup.
    pub fn threads(&self) -> usize {
        Self::STRIPS * self.subgroup
    }

    /// Returns the row pitch of a block, in vectors of four elements. The padding avoids bank conflicts,
    /// because matrix loads access 16 bytes of several rows.
    pub fn pitch(width: usize) -> usize {
        width / 4 + 2
    }

    /// Returns the number of bytes of workgroup memory for a kernel with operands of a dtype. With
    /// `fragments`, scores take no memory.
    pub fn bytes(
        &self,
        kernel: AttentionKernel,
        problem: &AttentionProblem,
        (operands, fragments): (DType, bool),
    ) -> usize {
        let pitches = Self::pitch(problem.depth) + Self::pitch(problem.value_depth);
        let blocks = 4 * operands.bytes() * Self::ROWS * pitches;
        let kinds = match kernel {
            _ if fragments => 0,
            AttentionKernel::Forward => 1,
            AttentionKernel::Queries | AttentionKernel::Keys => 2,
        };
        // Size of the f32 scores and of their 16-bit copies.
        let scores = (4 + 2) * kinds * Self::ROWS * self.columns;
        blocks + scores + if problem.spec.query_offset || problem.spec.key_length { 16 } else { 0 }
    }
}

/// A block of 64 rows per warpgroup (four subgroups of 32 invocations), multiplied by blocks of the other
/// operand in workgroup memory, which are copied while earlier ones are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionWarpgroups {
    /// Number of warpgroups in a workgroup.
    pub warpgroups: usize,
}

impl AttentionWarpgroups {
    /// Number of rows per warpgroup, and of rows of a block of the other operand.
    pub const ROWS: usize = 64;
    /// Number of invocations of a warpgroup.
    pub const INVOCATIONS: usize = 128;
    /// Number of blocks of the other operand in workgroup memory.
    pub const STAGES: usize = 2;

    /// Returns the number of invocations in a workgroup.
    pub fn threads(&self) -> usize {
        self.warpgroups * Self::INVOCATIONS
    }

    /// Returns the number of rows of a workgroup.
    pub fn rows(&self) -> usize {
        self.warpgroups * Self::ROWS
    }

    /// Returns the number of bytes of workgroup memory for a kernel.
    pub fn bytes(&self, kernel: AttentionKernel, problem: &AttentionProblem) -> usize {
        let block = |rows: usize, width: usize| 2 * rows * width;
        let both = block(Self::STAGES * Self::ROWS, problem.depth + problem.value_depth);
        match kernel {
            AttentionKernel::Forward => both + block(self.rows(), problem.depth),
            AttentionKernel::Queries => both + block(self.rows(), problem.depth + problem.value_depth),
            AttentionKernel::Keys => {
                let numbers = 8 * Self::STAGES * Self::ROWS;
                both + block(self.rows(), problem.depth + problem.value_depth) + numbers
            }
        }
    }
}

/// A workgroup per query and group of heads that share a key head. A few adjacent invocations divide the
/// elements of a key among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionLanes {
    /// Number of invocations in a workgroup: a multiple of [`AttentionLanes::SUBGROUP`].
    pub threads: usize,
    /// Number of elements of a key or value per invocation: [`AttentionLanes::FOUR`], or twice as many for
    /// 16-bit keys and values.
    pub each: usize,
}

impl AttentionLanes {
    /// Number of invocations in a subgroup, within which the sums over a key's elements are computed.
    pub const SUBGROUP: u32 = 32;
    /// Minimum number of elements per invocation.
    pub const FOUR: usize = 4;

    /// Returns the number of workgroups.
    pub fn groups(&self, problem: &AttentionProblem) -> usize {
        problem.batch * problem.key_heads * problem.queries
    }

    /// Returns the number of invocations that share a key or value.
    pub fn lanes(&self, problem: &AttentionProblem) -> usize {
        problem.depth.max(problem.value_depth).div_ceil(self.each).next_power_of_two()
    }

    /// Returns the number of keys processed at a time.
    pub fn slots(&self, problem: &AttentionProblem) -> usize {
        self.threads / self.lanes(problem)
    }

    /// Returns the number of keys that an invocation loads at the same time. In large workgroups, of which
    /// there are few, loading eight reduces the time of a step of GPT-2 124M with one text from 0.289 to
    /// 0.274 ms on an H200. In smaller ones, of which a multiprocessor runs many, loading eight increases the
    /// time of a step with 32 texts from 0.508 to 0.517 ms.
    pub fn ahead(&self, problem: &AttentionProblem) -> usize {
        if self.threads >= 512 && Self::has_few(problem) { 8 } else { 4 }
    }

    /// Returns `true` if an invocation accumulates the sums of so few queries that it can load many keys at
    /// the same time.
    pub fn has_few(problem: &AttentionProblem) -> bool {
        problem.sharing() <= 2
    }

    /// Returns the number of bytes of workgroup memory: a maximum, a sum and a weighted sum of values per
    /// subgroup and head.
    pub fn bytes(&self, problem: &AttentionProblem) -> usize {
        let subgroups = self.threads / Self::SUBGROUP as usize;
        problem.sharing() * subgroups * (8 + 4 * self.each * self.lanes(problem)) + 16
    }
}

/// Division of rows among invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionChoice {
    /// A workgroup computes a block of rows, and stages blocks of the other operand in workgroup memory.
    Block(AttentionTile),
    /// Like `Block`, with matrix instructions on operands rounded to 16 bits or to TF32.
    Matrices(AttentionMatrices),
    /// Like `Matrices`, with products of warpgroups, on 16-bit operands.
    Warpgroups(AttentionWarpgroups),
    /// A few queries over many keys, where values are exchanged within subgroups.
    Lanes(AttentionLanes),
    /// Each invocation computes `rows` rows alone. More than one row is used only on devices that run on a
    /// CPU.
    Own {
        /// Number of rows per invocation.
        rows: usize,
    },
}

/// Schedule of the kernels of attention or of its gradient.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionSchedule {
    /// The op and its extents.
    pub problem: AttentionProblem,
    /// Kernels in execution order, each with its division of rows.
    pub kernels: Vec<(AttentionKernel, AttentionChoice)>,
    /// Float dtype of the operands of matrix instructions: one of 16 bits, or f32 for TF32.
    pub half: DType,
    /// True if the mapping of a matrix accumulator's elements to invocations is known, so that scores stay in
    /// registers.
    pub fragments: bool,
    /// Subgroup size of a separate kernel that computes the dot products of outputs with their cotangents, or
    /// `None` without such a kernel. Both kernels of the gradient need these products; with the separate
    /// kernel, the two can run concurrently.
    pub means_apart: Option<u32>,
    /// Number of invocations in a workgroup of [`AttentionChoice::Own`].
    pub workgroup: usize,
    /// Number of rows from which a workgroup of [`AttentionChoice::Own`] contains rows of a single head only.
    /// With fewer rows, it may contain rows of several heads.
    pub together_from: usize,
}

impl AttentionSchedule {
    /// Returns `true` if the kernel supports a row-wise epilogue. Only [`AttentionChoice::Lanes`] does,
    /// because its workgroups compute whole rows.
    pub fn takes_epilogue(&self) -> bool {
        matches!(self.kernels[..], [(AttentionKernel::Forward, AttentionChoice::Lanes(_))])
    }

    /// Returns the number of bytes of scratch memory.
    pub fn workspace(&self) -> u64 {
        match self.kernels.iter().all(|(kernel, _)| *kernel == AttentionKernel::Forward) {
            true => 0,
            false => self.problem.means_bytes(),
        }
    }
}
