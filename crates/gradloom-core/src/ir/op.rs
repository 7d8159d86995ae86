//! The primitives.
//!
//! Operands must already agree in shape and dtype: broadcasting and conversion are explicit ops, which
//! tracing inserts. Adding a primitive means adding a variant here; every stage then has one exhaustive
//! `match` that the compiler will ask you to extend (`ir/infer.rs`, `grad/rules/`, `reference/`,
//! `gradloom-codegen`).

use super::elementwise::{BinaryOp, UnaryOp, names};
use super::{BlockId, DType, Shape, Type};
use std::sync::Arc;

/// A number in the IR. Floats are kept in float64, so that the reference evaluator sees them unrounded.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A number of an `f32` value; backends round it to float32.
    Float(f64),
    /// A number of an `i32` or `u32` value.
    Int(i64),
    /// A number of a `bool` value.
    Bool(bool),
}

impl Number {
    /// `value` as a number of the given dtype (nonzero is true, fractions are cut off).
    pub fn of(dtype: DType, value: f64) -> Number {
        match dtype {
            DType::F32 => Number::Float(value),
            DType::I32 | DType::U32 => Number::Int(value as i64),
            DType::Bool => Number::Bool(value != 0.0),
        }
    }

    /// The value in float64.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Float(v) => v,
            Number::Int(v) => v as f64,
            Number::Bool(v) => f64::from(u8::from(v)),
        }
    }

    /// Whether a constant of this dtype can hold the number.
    pub fn fits(self, dtype: DType) -> bool {
        match self {
            Number::Float(_) => dtype.is_float(),
            Number::Int(v) => match dtype {
                DType::I32 => i32::try_from(v).is_ok(),
                DType::U32 => u32::try_from(v).is_ok(),
                _ => false,
            },
            Number::Bool(_) => dtype == DType::Bool,
        }
    }

    fn key(self) -> (u8, u64) {
        match self {
            Number::Float(v) => (0, v.to_bits()),
            Number::Int(v) => (1, v as u64),
            Number::Bool(v) => (2, u64::from(v)),
        }
    }
}

/// Bitwise: `-0.0` differs from `0.0`, and a NaN equals itself.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Number {}
impl std::hash::Hash for Number {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// The data of a constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Literal {
    /// Every element is this number.
    Splat(Number),
    /// Elements in row-major order; as many as the type has.
    Dense(Arc<[Number]>),
}

impl Literal {
    /// The element at a row-major position.
    pub fn get(&self, index: usize) -> Number {
        match self {
            Literal::Splat(n) => *n,
            Literal::Dense(data) => data[index],
        }
    }
}

/// Elementwise comparisons; a NaN makes all but `Ne` false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Reductions. What an empty reduction gives: sum 0, product 1, max the least value
/// (`-inf` for floats), min the greatest (`+inf`). A NaN anywhere gives NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Prod,
    Max,
    Min,
}

/// Index of the extreme element; the first one wins a tie, and a NaN wins over all numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ArgReduceOp {
    ArgMax,
    ArgMin,
}

/// Which axes a [`OpKind::Dot`] runs over. The result's axes: batch, then free axes of the left, then of the
/// right operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct DotAxes {
    /// Batch axes of the left operand, paired with `rhs_batch`.
    pub lhs_batch: Vec<usize>,
    /// Batch axes of the right operand.
    pub rhs_batch: Vec<usize>,
    /// Axes of the left operand that are multiplied and summed, paired with `rhs_contract`.
    pub lhs_contract: Vec<usize>,
    /// Axes of the right operand that are multiplied and summed.
    pub rhs_contract: Vec<usize>,
}

impl DotAxes {
    /// Axes of an operand of the given rank that are in neither list, in order.
    pub fn free(rank: usize, batch: &[usize], contract: &[usize]) -> Vec<usize> {
        (0..rank).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect()
    }

    /// Shape of the product of operands that fit.
    pub fn result_shape(&self, lhs: &Shape, rhs: &Shape) -> Shape {
        let free = |shape: &Shape, batch: &[usize], contract: &[usize]| -> Vec<usize> {
            Self::free(shape.rank(), batch, contract).into_iter().map(|axis| shape[axis]).collect()
        };
        let mut extents: Vec<usize> = self.lhs_batch.iter().map(|&axis| lhs[axis]).collect();
        extents.extend(free(lhs, &self.lhs_batch, &self.lhs_contract));
        extents.extend(free(rhs, &self.rhs_batch, &self.rhs_contract));
        extents.into()
    }
}

/// Scaled dot-product attention: softmax(scale · q kᵀ) v over the keys that a query may see.
///
/// Operands: q `[batch, heads, queries, depth]`, k `[batch, kv_heads, keys, depth]`, v
/// `[batch, kv_heads, keys, value_depth]` with `heads` a multiple of `kv_heads` (query head h reads key head
/// `h / (heads / kv_heads)`), then, in this order and where the flag says so, `query_offset` (i32 scalar),
/// `key_length` (i32 scalar), `block_table` (i32 `[batch, blocks]`).
///
/// Query i stands at position `query_offset + i` (0 without it). Key j is seen if `j < key_length` (all keys
/// without it) and, when causal, `j <= query_offset + i`. A query that sees no key gives 0 (and a log-sum-exp
/// of `-inf`).
///
/// With a block table, k and v are pools `[pool_blocks, kv_heads, block_size, depth]` shared by the batch:
/// key j of sequence b is row `j % block_size` of pool block `block_table[b, j / block_size]`; the number of
/// keys is `blocks * block_size`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSpec {
    /// Whether a query sees only keys at or before its own position.
    pub causal: bool,
    /// Factor on the scores, usually `1 / sqrt(depth)`.
    pub scale: f64,
    /// Whether there is a `query_offset` operand.
    pub query_offset: bool,
    /// Whether there is a `key_length` operand.
    pub key_length: bool,
    /// Whether there is a `block_table` operand.
    pub block_table: bool,
}

impl Eq for AttentionSpec {}
impl std::hash::Hash for AttentionSpec {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.causal, self.scale.to_bits(), self.query_offset, self.key_length, self.block_table).hash(state);
    }
}

impl AttentionSpec {
    /// Number of operands after q, k and v.
    pub fn extra_operands(&self) -> usize {
        usize::from(self.query_offset) + usize::from(self.key_length) + usize::from(self.block_table)
    }

    /// Position among the operands of (`query_offset`, `key_length`, `block_table`), where present.
    pub fn extra_positions(&self) -> [Option<usize>; 3] {
        let mut next = 3;
        [self.query_offset, self.key_length, self.block_table].map(|present| {
            present.then(|| {
                next += 1;
                next - 1
            })
        })
    }
}

/// What an op computes. The comment of each variant gives its operands, then its results.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    // Leaves: no operands.
    /// Data that the caller passes to every run.
    Input { name: String, ty: Type },
    /// A trainable or frozen parameter, kept in the store.
    Param { name: String, ty: Type },
    /// A value that persists in the store between runs; every element starts as `init`.
    State { name: String, ty: Type, init: Number },
    /// One number of the per-step block, not a bool: learning rate, seed, attempted step.
    Scalar { name: String, dtype: DType },
    /// A constant tensor.
    Constant { ty: Type, data: Literal },
    /// Index along `axis`, as `dtype` (not bool).
    Iota { ty: Type, axis: usize },

    /// (seed_lo, seed_hi, step: u32 scalars) -> u32 of `shape`. Philox4x32-10 (Salmon et al., SC'11) with key
    /// (seed_lo, seed_hi) and counter (i / 4 low, i / 4 high, step, site); element i takes word i % 4.
    RandomBits { shape: Shape, site: u32 },

    // Elementwise.
    /// (x) -> same type.
    Unary(UnaryOp),
    /// (a, b of one type) -> same type.
    Binary(BinaryOp),
    /// (a, b of one type) -> bool.
    Compare(CompareOp),
    /// (condition: bool, a, b; all of one shape) -> a where true, b elsewhere.
    Select,
    /// (x) -> the same elements as `dtype`. Float to integer rounds towards zero and saturates (NaN gives 0);
    /// integer to integer wraps; to bool: `x != 0`.
    Cast { dtype: DType },

    // Reductions; the axes vanish from the shape.
    /// (x) -> x without `axes` (ascending, distinct).
    Reduce { op: ReduceOp, axes: Vec<usize> },
    /// (x) -> i32, x without `axis`, whose extent must not be 0.
    ArgReduce { op: ArgReduceOp, axis: usize },

    // Views and data movement.
    /// (x) -> the same elements in row-major order.
    Reshape { shape: Shape },
    /// (x) -> axis i of the result is axis `perm[i]` of x.
    Permute { perm: Vec<usize> },
    /// (x) -> `shape` of x's rank; axes of extent 1 are repeated.
    Broadcast { shape: Shape },
    /// (x) -> elements `start, start + step, ..` below `limit` of each axis; `step >= 1`, and no larger than
    /// it takes to leave the range.
    Slice { start: Vec<usize>, limit: Vec<usize>, step: Vec<usize> },
    /// (x) -> `low` elements of `value` before, `high` after, and `interior` between neighbours of each axis
    /// (0 where there are none).
    Pad { low: Vec<usize>, high: Vec<usize>, interior: Vec<usize>, value: Number },
    /// (x0, x1, ..) -> joined along `axis`.
    Concat { axis: usize },
    /// (x, one i32 scalar start for each axis) -> a window of extents `sizes`. Out of range is an index trap:
    /// the step fails.
    DynamicSlice { sizes: Vec<usize> },
    /// (x, update, one i32 scalar start for each axis) -> x with the window replaced. Out of range is an
    /// index trap.
    DynamicUpdateSlice,

    /// (lhs, rhs: f32) -> generalised matrix product, accumulated in float32.
    Dot(DotAxes),
    /// (x `[B.., N, R..]`, index i32 `[B.., I..]`) -> `[B.., I.., R..]`, with `batch` axes B. An index
    /// outside 0..N is an index trap.
    Gather { batch: usize },
    /// (x `[B.., N, R..]`, index i32 `[B.., I..]`, updates `[B.., I.., R..]`) -> x with every update added to
    /// its row, in the order of the updates. An index outside 0..N is an index trap.
    ScatterAdd { batch: usize },
    /// See [`AttentionSpec`] -> (output `[batch, heads, queries, value_depth]`, log-sum-exp of the scaled
    /// scores `[batch, heads, queries]`).
    Attention(AttentionSpec),
    /// (the operands of Attention, its two results, cotangent of its output) -> (dq, dk, dv). No block table.
    /// Dao, FlashAttention-2 (2023), section 3.1.2.
    AttentionGrad(AttentionSpec),

    // Structure.
    /// (carried.., stacked..) -> (carried.., stacked results..). Runs `block` `trip` times. The block's
    /// parameters are the `carried` values, then one slice `[..]` of each stacked operand `[trip, ..]`; its
    /// results are the next carried values, then one slice of each stacked result. Blocks are closed: they
    /// use no value from outside.
    Repeat { block: BlockId, trip: usize, carried: usize },
    /// (operands) -> results of `block`, whose temporaries the backward pass computes again instead of
    /// keeping.
    Checkpoint { block: BlockId },
    /// (x, after) -> x, available only once `after` is. What is computed from it is not the same expression
    /// as what is computed from x, so a value that is computed again for the backward pass is neither merged
    /// with the first one nor computed early. The elements of `after`, of any type, do not count, and no
    /// kernel reads them.
    Barrier,

    /// A user's op: see [`super::CustomOp`]; the number indexes [`super::Graph::customs`].
    Custom(usize),
}

impl OpKind {
    /// The op's name in the text form and in diagnostics.
    pub fn name(&self) -> &'static str {
        match self {
            OpKind::Input { .. } => "input",
            OpKind::Param { .. } => "param",
            OpKind::State { .. } => "state",
            OpKind::Scalar { .. } => "scalar",
            OpKind::Constant { .. } => "constant",
            OpKind::Iota { .. } => "iota",
            OpKind::RandomBits { .. } => "random_bits",
            OpKind::Unary(op) => op.name(),
            OpKind::Binary(op) => op.name(),
            OpKind::Compare(op) => op.name(),
            OpKind::Select => "select",
            OpKind::Cast { .. } => "cast",
            OpKind::Reduce { op, .. } => op.name(),
            OpKind::ArgReduce { op: ArgReduceOp::ArgMax, .. } => "argmax",
            OpKind::ArgReduce { op: ArgReduceOp::ArgMin, .. } => "argmin",
            OpKind::Reshape { .. } => "reshape",
            OpKind::Permute { .. } => "permute",
            OpKind::Broadcast { .. } => "broadcast",
            OpKind::Slice { .. } => "slice",
            OpKind::Pad { .. } => "pad",
            OpKind::Concat { .. } => "concat",
            OpKind::DynamicSlice { .. } => "dynamic_slice",
            OpKind::DynamicUpdateSlice => "dynamic_update_slice",
            OpKind::Dot(_) => "dot",
            OpKind::Gather { .. } => "gather",
            OpKind::ScatterAdd { .. } => "scatter_add",
            OpKind::Attention(_) => "attention",
            OpKind::AttentionGrad(_) => "attention_grad",
            OpKind::Repeat { .. } => "repeat",
            OpKind::Checkpoint { .. } => "checkpoint",
            OpKind::Barrier => "barrier",
            OpKind::Custom(_) => "custom",
        }
    }

    /// Whether the op is a leaf whose value comes from outside the graph (constants and iota do not count).
    pub fn is_external_leaf(&self) -> bool {
        matches!(
            self,
            OpKind::Input { .. } | OpKind::Param { .. } | OpKind::State { .. } | OpKind::Scalar { .. }
        )
    }

    /// Whether the result only re-addresses the first operand's elements.
    pub fn is_view(&self) -> bool {
        matches!(
            self,
            OpKind::Reshape { .. }
                | OpKind::Permute { .. }
                | OpKind::Broadcast { .. }
                | OpKind::Slice { .. }
                | OpKind::Unary(UnaryOp::Detach)
                | OpKind::Barrier
        )
    }

    /// The blocks that the op runs.
    pub fn block(&self) -> Option<BlockId> {
        match self {
            OpKind::Repeat { block, .. } | OpKind::Checkpoint { block } => Some(*block),
            _ => None,
        }
    }
}

names!(CompareOp { Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge" });
names!(ReduceOp { Sum = "sum", Prod = "prod", Max = "reduce_max", Min = "reduce_min" });
