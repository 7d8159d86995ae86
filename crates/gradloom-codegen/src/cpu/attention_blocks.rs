//! Blocks and tasks that attention is split into, and the scratch memory of a thread.
//!
//! In: the shapes of an attention op. Out: block sizes and sections of scratch, which depend on shapes alone.
//! Only the number of copies of the scratch depends on the number of threads.

use gradloom_core::ir::{AttentionSpec, DType, Graph, Op, OpKind, Shape};

/// Number of query rows that are processed together in f32: the height of the tallest micro-kernel.
pub const STRIP: usize = 12;
/// Number of floats of the widest vector register. Packed panels are padded to a multiple of at most this
/// number.
const WIDEST: usize = 16;
/// Number of tasks of the forward pass if there are enough queries, which suffices to balance a few threads.
const TASKS: usize = 16;
/// Minimum number of queries of a task if there are fewer heads than tasks. Each task packs all keys and
/// values.
const LEAST_QUERIES: usize = 96;
/// Maximum number of query rows (of all heads of a group) of one task.
const MOST_ROWS: usize = 1024;
/// Size of the packed keys and values of one block, in bytes: half of a small second-level cache.
const PACKED: usize = 128 * 1024;
/// Maximum number of query rows of the heads that share keys for which processing each row separately is
/// faster than packing.
pub const FEW_QUERY_ROWS: usize = 2;
/// Number of query rows that are processed together if operands are rounded to 16 bits: those of two tile
/// registers.
const ROUNDED_STRIP: usize = 32;
/// Number of strips of query rows of a block of the backward pass. Two matrices of scores stay in the cache
/// with the packed operands.
const BACKWARD_STRIPS: usize = 4;
/// Number of keys of a block of the backward pass.
const BACKWARD_KEYS: usize = 128;

/// The extents of an attention op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AttentionShape {
    pub batch: usize,
    pub heads: usize,
    /// Number of heads of the keys and values, a divisor of `heads`.
    pub kv_heads: usize,
    pub queries: usize,
    /// Number of keys of a sequence; with a block table, the number of keys for which the table has room.
    pub keys: usize,
    pub depth: usize,
    pub value_depth: usize,
    /// True if the operands of products are rounded to bf16.
    pub rounds: bool,
}

impl AttentionShape {
    /// Creates the shape from the shapes of q, k, v and the block table, if any, and the type that the
    /// operands of products are rounded to, unless there are few query rows.
    pub fn new(q: &Shape, k: &Shape, v: &Shape, table: Option<&Shape>, operands: DType) -> Self {
        let rows = q[1] / k[1].max(1) * q[2];
        Self {
            batch: q[0],
            heads: q[1],
            kv_heads: k[1],
            queries: q[2],
            keys: table.map_or(k[2], |table| table[1] * k[2]),
            depth: q[3],
            value_depth: v[3],
            rounds: operands == DType::BF16 && rows > FEW_QUERY_ROWS,
        }
    }

    /// Returns the number of query rows that are processed together.
    pub fn strip(&self) -> usize {
        if self.rounds { ROUNDED_STRIP } else { STRIP }
    }

    /// Returns the number of query heads that share a head of keys and values.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }

    /// Returns the number of tasks of a key/value head in the forward pass.
    pub fn forward_chunks(&self) -> usize {
        self.queries.div_ceil(self.forward_queries())
    }

    /// Returns the number of queries per head of a group in one task of the forward pass.
    pub fn forward_queries(&self) -> usize {
        let heads = self.batch * self.kv_heads;
        let split = TASKS.div_ceil(heads.max(1));
        let most = (MOST_ROWS / self.group().max(1)).max(self.strip());
        self.queries
            .div_ceil(split)
            .max(LEAST_QUERIES)
            .next_multiple_of(self.strip())
            .min(most)
            .min(self.queries.max(1))
    }

    /// Returns the number of keys of one block of the forward pass.
    pub fn forward_keys(&self) -> usize {
        let bytes = (self.depth + self.value_depth).max(1) * size_of::<f32>();
        (PACKED / bytes).clamp(32, 256).min(self.keys.max(1)).next_multiple_of(WIDEST)
    }

    /// Returns the number of queries of one block of the backward pass.
    pub fn backward_queries(&self) -> usize {
        (BACKWARD_STRIPS * self.strip()).min(self.queries.max(1))
    }

    /// Returns the number of keys of one block of the backward pass.
    pub fn backward_keys(&self) -> usize {
        BACKWARD_KEYS.min(self.keys.max(1)).next_multiple_of(WIDEST)
    }

    /// Returns the lengths in floats of one thread's scratch sections in the forward pass, each a multiple of
    /// a cache line: transposed keys, values, a strip of scores, the maxima and sums of the task's rows, and
    /// the sections of `rounded_sections`.
    pub fn forward_sections(&self) -> [usize; 7] {
        let keys = self.forward_keys();
        let rows = self.group() * self.forward_queries();
        let value_depth = self.value_depth.next_multiple_of(WIDEST);
        let [left, wide] = self.rounded_sections(keys, 0);
        [keys * self.depth, keys * value_depth, self.strip() * keys, rows, rows, left, wide].map(line)
    }

    /// Returns the lengths in floats of two sections for operands that are rounded, with blocks of this many
    /// keys and queries: a strip of rows of a left operand, and a right operand that is not yet rounded.
    fn rounded_sections(&self, keys: usize, queries: usize) -> [usize; 2] {
        if !self.rounds {
            return [0, 0];
        }
        let depth = self.depth.max(self.value_depth).next_multiple_of(WIDEST);
        [self.strip() * depth.max(keys).max(queries), depth * keys.max(queries)]
    }

    /// Returns the lengths in floats of one thread's scratch sections in the backward pass: transposed keys,
    /// transposed values, keys, queries, cotangents, probabilities, cotangents of the scores, the rows' sums
    /// of cotangent times output, and the sections of `rounded_sections`.
    pub fn backward_sections(&self) -> [usize; 10] {
        let (queries, keys) = (self.backward_queries(), self.backward_keys());
        let (depth, value_depth) =
            (self.depth.next_multiple_of(WIDEST), self.value_depth.next_multiple_of(WIDEST));
        let [left, wide] = self.rounded_sections(keys, queries);
        [
            keys * self.depth,
            keys * self.value_depth,
            keys * depth,
            queries * depth,
            queries * value_depth,
            queries * keys,
            queries * keys,
            queries,
            left,
            wide,
        ]
        .map(line)
    }

    /// Returns the number of bytes of scratch for all threads of the forward pass.
    pub fn forward_workspace(&self, threads: usize) -> usize {
        self.forward_sections().iter().sum::<usize>() * size_of::<f32>() * threads
    }

    /// Returns the number of bytes of scratch for all threads of the backward pass.
    pub fn backward_workspace(&self, threads: usize) -> usize {
        self.backward_sections().iter().sum::<usize>() * size_of::<f32>() * threads
    }
}

/// Rounds a number of floats up to whole cache lines.
fn line(floats: usize) -> usize {
    floats.next_multiple_of(16)
}

/// Returns the number of bytes of scratch for an `Attention` or `AttentionGrad` on this many threads, whose
/// operands are rounded to the type `operands`.
pub fn attention_workspace(
    spec: &AttentionSpec,
    op: &Op,
    graph: &Graph,
    operands: DType,
    threads: usize,
) -> usize {
    let shape = |position: usize| &graph.ty(op.operands[position]).shape;
    let [_, _, table, _] = spec.extra_positions();
    let attention = AttentionShape::new(shape(0), shape(1), shape(2), table.map(shape), operands);
    match op.kind {
        OpKind::AttentionGrad(_) => attention.backward_workspace(threads),
        _ => attention.forward_workspace(threads),
    }
}
