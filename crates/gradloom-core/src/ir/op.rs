//! The primitives.
//!
//! Operands must already agree in shape and dtype: broadcasting and conversion are explicit ops, which
//! tracing inserts. A primitive is a variant here, with its name, its attributes and its cost; every stage
//! then has one exhaustive `match` that the compiler will ask you to extend (CONTRIBUTING.md names them).

use super::attributes::Attributes;
use super::{
    AttentionSpec, BinaryOp, BlockFormat, BlockId, CompareOp, CompositeOp, ConvSpec, DType, DotAxes, Literal,
    Number, ReduceOp, Shape, Type, UnaryOp,
};

/// Index of the extreme element; the first one wins a tie, and a NaN wins over all numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ArgReduceOp {
    ArgMax,
    ArgMin,
}

impl ScatterOp {
    /// Returns whether it is [`ScatterOp::Distinct`].
    pub fn is_distinct(self) -> bool {
        self == Self::Distinct
    }
}

/// Effect of an update on the row that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterOp {
    /// The update is added to it.
    Add,
    /// The update replaces it.
    Set,
    /// The update replaces it; an update of a row that is not there is left out, so that this cannot fail. No
    /// two updates name one row. It has no gradient.
    Distinct,
}

/// Computation of an op. The comment of each variant gives its operands, then its results.
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
    /// (x: f32) -> same type.
    Composite(CompositeOp),
    /// (a, b of one type) -> same type.
    Binary(BinaryOp),
    /// (a, b of one type) -> bool.
    Compare(CompareOp),
    /// (condition: bool, a, b; all of one shape) -> a where true, b elsewhere.
    Select,
    /// (x) -> the same elements as `dtype`. Float to integer rounds towards zero and saturates (NaN gives 0);
    /// integer to integer wraps; to bool: `x != 0`.
    Cast { dtype: DType },
    /// (blocks u8 `[B.., bytes]`) -> f32 `[B.., n]`: the numbers that the blocks of each row stand for. See
    /// [`BlockFormat`]; a row is whole blocks.
    Dequantize { format: BlockFormat },

    // Reductions; the axes vanish from the shape.
    /// (x) -> x without `axes` (ascending, distinct).
    Reduce { op: ReduceOp, axes: Vec<usize> },
    /// (x) -> i32, x without `axis`, whose extent must not be 0.
    ArgReduce { op: ArgReduceOp, axis: usize },
    /// (x `[B.., N]`, not bool) -> same type: element i of a row is the reduction of the row's elements up to
    /// and with i, or from i on if `reverse`.
    Cumulate { op: ReduceOp, reverse: bool },
    /// (x `[B.., N]`, not bool) -> (elements `[B.., count]`, their indices i32 `[B.., count]`): the first
    /// `count` elements of each row in order. NaN is above all numbers, -0 equals 0, and of equals the one
    /// with the least index comes first, whether `descending` or not.
    Sort { count: usize, descending: bool },

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
    /// (x `[L.., S..]`) -> `[L.., W.., size..]`: the windows of `size` elements, `dilation` apart, that
    /// begin every `step` elements of the last axes. At least one fits.
    Windows { size: Vec<usize>, step: Vec<usize>, dilation: Vec<usize> },
    /// (x) -> `low` elements of `value` before, `high` after, and `interior` between neighbours of each axis
    /// (0 where there are none).
    Pad { low: Vec<usize>, high: Vec<usize>, interior: Vec<usize>, value: Number },
    /// (x0, x1, ..) -> joined along `axis`.
    Concat { axis: usize },
    /// (x i64 `[S..]`) -> its words, i32 `[S.., 2]`, the low one first; or i32 `[S.., 2]` -> i64 `[S..]`. The
    /// passes make it: no kernel has numbers of 64 bits.
    Words,
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
    /// its row, or in its place, in the order of the updates. An index outside 0..N is an index trap.
    Scatter { op: ScatterOp, batch: usize },
    /// See [`ConvSpec`].
    Conv(ConvSpec),
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
    /// Returns whether the op computes nothing: its results have the elements of its operands, as they are
    /// or converted. Such ops take elements of every dtype, others none that are
    /// [for memory](DType::is_for_memory).
    pub fn moves_elements(&self) -> bool {
        matches!(
            self,
            OpKind::Cast { .. }
                | OpKind::Dequantize { .. }
                | OpKind::Select
                | OpKind::Reshape { .. }
                | OpKind::Permute { .. }
                | OpKind::Broadcast { .. }
                | OpKind::Slice { .. }
                | OpKind::Windows { .. }
                | OpKind::Concat { .. }
                | OpKind::Pad { .. }
                | OpKind::Words
                | OpKind::Gather { .. }
                | OpKind::Scatter { op: ScatterOp::Set | ScatterOp::Distinct, .. }
                | OpKind::DynamicSlice { .. }
                | OpKind::DynamicUpdateSlice
                | OpKind::Barrier
                | OpKind::Repeat { .. }
                | OpKind::Checkpoint { .. }
                | OpKind::Custom(_)
        )
    }

    /// Returns the op's name in the text form and in diagnostics.
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
            OpKind::Composite(op) => op.name(),
            OpKind::Binary(op) => op.name(),
            OpKind::Compare(op) => op.name(),
            OpKind::Select => "select",
            OpKind::Cast { .. } => "cast",
            OpKind::Dequantize { .. } => "dequantize",
            OpKind::Reduce { op, .. } => op.name(),
            OpKind::ArgReduce { op: ArgReduceOp::ArgMax, .. } => "argmax",
            OpKind::ArgReduce { op: ArgReduceOp::ArgMin, .. } => "argmin",
            OpKind::Cumulate { op: ReduceOp::Sum, .. } => "cumsum",
            OpKind::Cumulate { op: ReduceOp::Prod, .. } => "cumprod",
            OpKind::Cumulate { op: ReduceOp::Max, .. } => "cummax",
            OpKind::Cumulate { op: ReduceOp::Min, .. } => "cummin",
            OpKind::Sort { .. } => "sort",
            OpKind::Reshape { .. } => "reshape",
            OpKind::Permute { .. } => "permute",
            OpKind::Broadcast { .. } => "broadcast",
            OpKind::Slice { .. } => "slice",
            OpKind::Windows { .. } => "windows",
            OpKind::Pad { .. } => "pad",
            OpKind::Concat { .. } => "concat",
            OpKind::Words => "words",
            OpKind::DynamicSlice { .. } => "dynamic_slice",
            OpKind::DynamicUpdateSlice => "dynamic_update_slice",
            OpKind::Dot(_) => "dot",
            OpKind::Gather { .. } => "gather",
            OpKind::Scatter { op: ScatterOp::Add, .. } => "scatter_add",
            OpKind::Scatter { op: ScatterOp::Set, .. } => "scatter",
            OpKind::Scatter { op: ScatterOp::Distinct, .. } => "scatter_distinct",
            OpKind::Conv(_) => "conv",
            OpKind::Attention(_) => "attention",
            OpKind::AttentionGrad(_) => "attention_grad",
            OpKind::Repeat { .. } => "repeat",
            OpKind::Checkpoint { .. } => "checkpoint",
            OpKind::Barrier => "barrier",
            OpKind::Custom(_) => "custom",
        }
    }

    /// Returns the op of this name, with attributes that [`OpKind::attributes`] is to set; `None` if no op
    /// has the name, or one whose text begins with more than its name. `ty` is the type of the op's one
    /// result.
    pub(super) fn named<E>(name: &str, ty: impl Fn() -> Result<Type, E>) -> Result<Option<OpKind>, E> {
        let list = Vec::new;
        Ok(Some(match name {
            "iota" => OpKind::Iota { ty: ty()?, axis: 0 },
            "random_bits" => OpKind::RandomBits { shape: ty()?.shape, site: 0 },
            "select" => OpKind::Select,
            "cast" => OpKind::Cast { dtype: ty()?.dtype },
            "dequantize" => OpKind::Dequantize { format: BlockFormat::Q8_0 },
            "argmax" => OpKind::ArgReduce { op: ArgReduceOp::ArgMax, axis: 0 },
            "argmin" => OpKind::ArgReduce { op: ArgReduceOp::ArgMin, axis: 0 },
            "cumsum" => OpKind::Cumulate { op: ReduceOp::Sum, reverse: false },
            "cumprod" => OpKind::Cumulate { op: ReduceOp::Prod, reverse: false },
            "cummax" => OpKind::Cumulate { op: ReduceOp::Max, reverse: false },
            "cummin" => OpKind::Cumulate { op: ReduceOp::Min, reverse: false },
            "reshape" => OpKind::Reshape { shape: ty()?.shape },
            "permute" => OpKind::Permute { perm: list() },
            "broadcast" => OpKind::Broadcast { shape: ty()?.shape },
            "slice" => OpKind::Slice { start: list(), limit: list(), step: list() },
            "windows" => OpKind::Windows { size: list(), step: list(), dilation: list() },
            "pad" => {
                let value = Number::of(ty()?.dtype, 0.0);
                OpKind::Pad { low: list(), high: list(), interior: list(), value }
            }
            "concat" => OpKind::Concat { axis: 0 },
            "words" => OpKind::Words,
            "dynamic_slice" => OpKind::DynamicSlice { sizes: ty()?.shape.to_vec() },
            "dynamic_update_slice" => OpKind::DynamicUpdateSlice,
            "dot" => OpKind::Dot(DotAxes::default()),
            "gather" => OpKind::Gather { batch: 0 },
            "scatter_add" => OpKind::Scatter { op: ScatterOp::Add, batch: 0 },
            "scatter" => OpKind::Scatter { op: ScatterOp::Set, batch: 0 },
            "scatter_distinct" => OpKind::Scatter { op: ScatterOp::Distinct, batch: 0 },
            "sort" => OpKind::Sort { count: 0, descending: false },
            "conv" => OpKind::Conv(ConvSpec::default()),
            "attention" => OpKind::Attention(AttentionSpec::default()),
            "attention_grad" => OpKind::AttentionGrad(AttentionSpec::default()),
            "barrier" => OpKind::Barrier,
            _ => {
                let unary = UnaryOp::parse(name).map(OpKind::Unary);
                let composite = || CompositeOp::parse(name).map(OpKind::Composite);
                let binary = || BinaryOp::parse(name).map(OpKind::Binary);
                let compare = || CompareOp::parse(name).map(OpKind::Compare);
                let reduce = || ReduceOp::parse(name).map(|op| OpKind::Reduce { op, axes: list() });
                return Ok(unary.or_else(composite).or_else(binary).or_else(compare).or_else(reduce));
            }
        }))
    }

    /// Visits what the text form has in braces, in its order. What follows from the types of operands and
    /// results is not there.
    pub(super) fn attributes<A: Attributes>(&mut self, a: &mut A) -> Result<(), A::Error> {
        match self {
            OpKind::Input { .. }
            | OpKind::Param { .. }
            | OpKind::Scalar { .. }
            | OpKind::Constant { .. }
            | OpKind::Unary(_)
            | OpKind::Composite(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Cast { .. }
            | OpKind::Reshape { .. }
            | OpKind::Broadcast { .. }
            | OpKind::Words
            | OpKind::DynamicSlice { .. }
            | OpKind::DynamicUpdateSlice
            | OpKind::Checkpoint { .. }
            | OpKind::Barrier
            | OpKind::Custom(_) => Ok(()),
            OpKind::State { init, .. } => a.number("init", init),
            OpKind::Iota { axis, .. } | OpKind::ArgReduce { axis, .. } | OpKind::Concat { axis } => {
                a.integer("axis", axis)
            }
            OpKind::RandomBits { site, .. } => a.integer("site", site),
            OpKind::Reduce { axes, .. } => a.list("axes", axes),
            OpKind::Cumulate { reverse, .. } => a.flag("reverse", reverse),
            OpKind::Sort { count, descending } => {
                a.integer("count", count)?;
                a.flag("descending", descending)
            }
            OpKind::Dequantize { format } => a.format("format", format),
            OpKind::Permute { perm } => a.list("perm", perm),
            OpKind::Slice { start, limit, step } => {
                a.list("start", start)?;
                a.list("limit", limit)?;
                a.list("step", step)
            }
            OpKind::Windows { size, step, dilation } => {
                a.list("size", size)?;
                a.list("step", step)?;
                a.list("dilation", dilation)
            }
            OpKind::Conv(ConvSpec { stride, low, high, dilation, groups }) => {
                a.list("stride", stride)?;
                a.list("low", low)?;
                a.list("high", high)?;
                a.list("dilation", dilation)?;
                a.integer("groups", groups)
            }
            OpKind::Pad { low, high, interior, value } => {
                a.list("low", low)?;
                a.list("high", high)?;
                a.list("interior", interior)?;
                a.number("value", value)
            }
            OpKind::Dot(axes) => {
                a.list_unless_empty("lhs_batch", &mut axes.lhs_batch)?;
                a.list_unless_empty("rhs_batch", &mut axes.rhs_batch)?;
                a.list_unless_empty("lhs_contract", &mut axes.lhs_contract)?;
                a.list_unless_empty("rhs_contract", &mut axes.rhs_contract)
            }
            OpKind::Gather { batch } | OpKind::Scatter { batch, .. } => a.integer("batch", batch),
            OpKind::Attention(spec) | OpKind::AttentionGrad(spec) => {
                a.float("scale", &mut spec.scale)?;
                a.flag("causal", &mut spec.causal)?;
                a.flag("query_offset", &mut spec.query_offset)?;
                a.flag("key_length", &mut spec.key_length)?;
                a.flag("block_table", &mut spec.block_table)
            }
            OpKind::Repeat { trip, carried, .. } => {
                a.integer("trip", trip)?;
                a.integer("carried", carried)
            }
        }
    }

    /// Returns the number of floating-point operations, for operands and results of these types: one for
    /// each f32 function of an element, two for each pair of factors of a matrix product. Comparisons,
    /// selections, conversions and integers count nothing; of a user's op nothing is known.
    pub fn flops(&self, operands: &[(DType, &Shape)], results: &[(DType, &Shape)]) -> u64 {
        let elements = |(dtype, shape): (DType, &Shape)| {
            if dtype.is_float() { shape.elements() as u64 } else { 0 }
        };
        let shapes = || operands.iter().map(|&(_, shape)| shape).collect::<Vec<_>>();
        match self {
            OpKind::Unary(_) | OpKind::Composite(_) | OpKind::Binary(_) => elements(results[0]),
            OpKind::Reduce { .. } | OpKind::Cumulate { .. } => elements(operands[0]),
            OpKind::Scatter { op: ScatterOp::Add, .. } => elements(operands[2]),
            OpKind::Dot(axes) => axes.flops(operands[0].1, elements(results[0])),
            OpKind::Conv(spec) => spec.flops(operands[1].1, elements(results[0])),
            OpKind::Attention(spec) => spec.flops(&shapes()),
            OpKind::AttentionGrad(spec) => spec.gradient_flops(&shapes()),
            OpKind::Input { .. }
            | OpKind::Param { .. }
            | OpKind::State { .. }
            | OpKind::Scalar { .. }
            | OpKind::Constant { .. }
            | OpKind::Iota { .. }
            | OpKind::RandomBits { .. }
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Cast { .. }
            | OpKind::Dequantize { .. }
            | OpKind::ArgReduce { .. }
            | OpKind::Sort { .. }
            | OpKind::Scatter { op: ScatterOp::Set | ScatterOp::Distinct, .. }
            | OpKind::Reshape { .. }
            | OpKind::Permute { .. }
            | OpKind::Broadcast { .. }
            | OpKind::Slice { .. }
            | OpKind::Windows { .. }
            | OpKind::Pad { .. }
            | OpKind::Concat { .. }
            | OpKind::Words
            | OpKind::DynamicSlice { .. }
            | OpKind::DynamicUpdateSlice
            | OpKind::Gather { .. }
            | OpKind::Repeat { .. }
            | OpKind::Checkpoint { .. }
            | OpKind::Barrier
            | OpKind::Custom(_) => 0,
        }
    }

    /// Returns whether the op is a leaf whose value comes from outside the graph (constants and iota do not
    /// count).
    pub fn is_external_leaf(&self) -> bool {
        matches!(
            self,
            OpKind::Input { .. } | OpKind::Param { .. } | OpKind::State { .. } | OpKind::Scalar { .. }
        )
    }

    /// Returns whether the result only re-addresses the first operand's elements.
    pub fn is_view(&self) -> bool {
        matches!(
            self,
            OpKind::Reshape { .. }
                | OpKind::Permute { .. }
                | OpKind::Broadcast { .. }
                | OpKind::Slice { .. }
                | OpKind::Windows { .. }
                | OpKind::Words
                | OpKind::Barrier
        )
    }

    /// Returns the block that the op runs, if it runs one.
    pub fn block(&self) -> Option<BlockId> {
        match self {
            OpKind::Repeat { block, .. } | OpKind::Checkpoint { block } => Some(*block),
            _ => None,
        }
    }
}
