//! The primitives.
//!
//! Operands must agree in shape and dtype; tracing inserts explicit broadcasts and conversions. To add a
//! primitive, add a variant here with its name, attributes and cost. Each stage then has an exhaustive
//! `match` that the Rust compiler requires you to extend (see CONTRIBUTING.md).

use super::attributes::Attributes;
use super::{
    AttentionSpec, BinaryFraction, BinaryOp, BlockFormat, BlockId, CollectiveOp, CompareOp, CompositeOp,
    ConvSpec, DType, DotAxes, Literal, Number, ReduceOp, Shape, Type, UnaryOp,
};

/// Index of the extreme element. The first of equal elements is chosen, and a NaN is chosen over all numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ArgReduceOp {
    ArgMax,
    ArgMin,
}

impl ScatterOp {
    /// Returns `true` if this is [`ScatterOp::Distinct`].
    pub fn is_distinct(self) -> bool {
        self == Self::Distinct
    }
}

/// The effect of an update on its target row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterOp {
    /// Adds the update to the row.
    Add,
    /// Replaces the row with the update.
    Set,
    /// Replaces the row with the update. Drops updates whose index is out of range, so this op cannot fail.
    /// Requires that no two updates have the same index. It has no gradient.
    Distinct,
}

/// The computation of an op. The documentation of a variant lists its operands and its results.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    // Leaves: no operands.
    /// Data that the caller passes to each run.
    Input { name: String, ty: Type },
    /// A trainable or frozen parameter in the store.
    Param { name: String, ty: Type },
    /// A value that persists in the store between runs. All elements are initially `init`. If `whole` is not
    /// empty, this is one rank's part of the elements of a tensor with these extents, which are divided
    /// evenly among the ranks, in order.
    State { name: String, ty: Type, init: Number, whole: Vec<usize> },
    /// A scalar of the per-step block, such as the learning rate, the seed or the attempted step. Its dtype
    /// is f32, i32 or u32.
    Scalar { name: String, dtype: DType },
    /// A constant tensor.
    Constant { ty: Type, data: Literal },
    /// Each element is its index along `axis`. The dtype is f32, i32 or u32.
    Iota { ty: Type, axis: usize },

    /// (seed_lo, seed_hi, step: u32 scalars) -> u32 of `shape`, each bit of which is 1 with the probability
    /// `ones`. Philox4x32-10 (Salmon et al., SC'11) with key (seed_lo, seed_hi) and counter (i / 4 low,
    /// i / 4 high + 2^24 · digit, step, site) gives a word for element i and each digit of the probability,
    /// word i % 4 of the four. [`BinaryFraction::draw`] makes the element of them.
    RandomBits { shape: Shape, site: u32, ones: BinaryFraction },

    // Elementwise.
    /// (x) -> same type.
    Unary(UnaryOp),
    /// (x: f32) -> same type.
    Composite(CompositeOp),
    /// (a, b of the same type) -> same type.
    Binary(BinaryOp),
    /// (a, b of the same type) -> bool.
    Compare(CompareOp),
    /// (condition: bool, a, b; all of the same shape) -> a where true, b elsewhere.
    Select,
    /// (x) -> the same elements as `dtype`. Float to integer rounds towards zero and saturates, with NaN
    /// becoming 0. Integer to integer wraps. The cast to bool is `x != 0`.
    Cast { dtype: DType },
    /// (blocks u8 `[B.., bytes]`) -> f32 `[B.., n]`: the decoded elements of each row. A row consists of
    /// whole blocks. See [`BlockFormat`].
    Dequantize { format: BlockFormat },

    // Reductions, which remove the reduced axes from the shape.
    /// (x) -> x without `axes`, which are ascending and distinct.
    Reduce { op: ReduceOp, axes: Vec<usize> },
    /// (x) -> i32, x without `axis`, whose extent must not be 0.
    ArgReduce { op: ArgReduceOp, axis: usize },
    /// (x `[B.., N]`, not bool) -> same type. Element i of a row is the reduction of elements 0 to i
    /// inclusive, or of elements i and later if `reverse` is set.
    Cumulate { op: ReduceOp, reverse: bool },
    /// (x `[B.., N]`, not bool) -> (elements `[B.., count]`, their indices i32 `[B.., count]`): the first
    /// `count` elements of each sorted row. NaN compares greater than all numbers, and -0 equals 0. Among
    /// equal elements, the least index comes first, even if `descending` is set.
    Sort { count: usize, descending: bool },

    // Views and data movement.
    /// (x) -> the same elements in row-major order.
    Reshape { shape: Shape },
    /// (x) -> axis i of the result is axis `perm[i]` of x.
    Permute { perm: Vec<usize> },
    /// (x) -> `shape`, which has the rank of x. Axes of extent 1 are repeated.
    Broadcast { shape: Shape },
    /// (x) -> elements `start, start + step, ..` below `limit` of each axis. `step >= 1`, and it is at most
    /// the length of the range.
    Slice { start: Vec<usize>, limit: Vec<usize>, step: Vec<usize> },
    /// (x `[L.., S..]`) -> `[L.., W.., size..]`: windows of `size` elements at distance `dilation`, one
    /// starting at every `step`-th element of the last axes. At least one window fits.
    Windows { size: Vec<usize>, step: Vec<usize>, dilation: Vec<usize> },
    /// (x) -> on each axis, `low` elements of `value` before x, `high` after it, and `interior` between
    /// neighboring elements. `interior` is 0 if there are no neighbors.
    Pad { low: Vec<usize>, high: Vec<usize>, interior: Vec<usize>, value: Number },
    /// (x0, x1, ..) -> joined along `axis`.
    Concat { axis: usize },
    /// (x i64 `[S..]`) -> its words, i32 `[S.., 2]`, the low one first; or i32 `[S.., 2]` -> i64 `[S..]`.
    /// Passes insert this op because kernels have no 64-bit numbers.
    Words,
    /// (x, one i32 scalar start per axis) -> a window with the extents `sizes`. A window out of bounds is an
    /// index trap, and the step fails.
    DynamicSlice { sizes: Vec<usize> },
    /// (x, update, one i32 scalar start per axis) -> x with the window replaced by the update. A window out
    /// of bounds is an index trap.
    DynamicUpdateSlice,

    /// (lhs, rhs: f32) -> generalized matrix product, accumulated in f32.
    Dot(DotAxes),
    /// (x `[B.., N, R..]`, index i32 `[B.., I..]`) -> `[B.., I.., R..]`, where B are the `batch` leading
    /// axes. An index outside 0..N is an index trap.
    Gather { batch: usize },
    /// (x `[B.., N, R..]`, index i32 `[B.., I..]`, updates `[B.., I.., R..]`) -> x with each row updated by
    /// `op`, in the order of the updates. An index outside 0..N is an index trap, except for
    /// [`ScatterOp::Distinct`].
    Scatter { op: ScatterOp, batch: usize },
    /// A convolution. See [`ConvSpec`].
    Conv(ConvSpec),
    /// Operands as in [`AttentionSpec`] -> (output `[batch, heads, queries, value_depth]`, log-sum-exp of the
    /// scaled scores `[batch, heads, queries]`).
    Attention(AttentionSpec),
    /// (the operands of Attention, its two results, the cotangent of its output) -> (dq, dk, dv). Block
    /// tables are not supported. See Dao, FlashAttention-2 (2023), section 3.1.2.
    AttentionGrad(AttentionSpec),
    /// (x..) -> a result for each operand. See [`CollectiveOp`]. `ranks` is the size of the world. If
    /// `rounded` is set, a device may move and sum elements in the 16-bit type of the program's precision.
    Collective { op: CollectiveOp, ranks: usize, rounded: bool },

    // Structure.
    /// (carried.., stacked..) -> (carried.., stacked results..). Runs `block` `trip` times. The block's
    /// parameters are the `carried` values, then one slice `[..]` of each stacked operand `[trip, ..]`. Its
    /// results are the next carried values, then one slice of each stacked result. Blocks are closed: they
    /// use no outside values.
    Repeat { block: BlockId, trip: usize, carried: usize },
    /// (operands) -> results of `block`. The backward pass recomputes the block's temporaries instead of
    /// keeping them.
    Checkpoint { block: BlockId },
    /// (x, after) -> x, available only once `after` is. Expressions of the result are distinct from the same
    /// expressions of x, so a value recomputed for the backward pass is neither merged with the original nor
    /// computed early. `after` may have any type, and no kernel reads its elements.
    Barrier,

    /// A user-defined op, as an index into [`super::Graph::customs`]. See [`super::CustomOp`].
    Custom(usize),
}

impl OpKind {
    /// Returns `true` if the op may have operands of dtypes that are [only for memory](DType::is_for_memory),
    /// because it only moves or converts elements, runs a block, or is user-defined.
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
            OpKind::Collective { op, .. } => op.name(),
            OpKind::Repeat { .. } => "repeat",
            OpKind::Checkpoint { .. } => "checkpoint",
            OpKind::Barrier => "barrier",
            OpKind::Custom(_) => "custom",
        }
    }

    /// Returns the op with this name and placeholder attributes, which [`OpKind::attributes`] must set.
    /// Returns `None` if no op has this name, or if its text has further arguments before the operands. `ty`
    /// returns the type of the op's only result.
    pub(super) fn named<E>(name: &str, ty: impl Fn() -> Result<Type, E>) -> Result<Option<OpKind>, E> {
        let list = Vec::new;
        Ok(Some(match name {
            "iota" => OpKind::Iota { ty: ty()?, axis: 0 },
            "random_bits" => OpKind::RandomBits { shape: ty()?.shape, site: 0, ones: BinaryFraction::HALF },
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
                let collective = || {
                    CollectiveOp::parse(name).map(|op| OpKind::Collective { op, ranks: 0, rounded: false })
                };
                let unary = UnaryOp::parse(name).map(OpKind::Unary);
                let composite = || CompositeOp::parse(name).map(OpKind::Composite);
                let binary = || BinaryOp::parse(name).map(OpKind::Binary);
                let compare = || CompareOp::parse(name).map(OpKind::Compare);
                let reduce = || ReduceOp::parse(name).map(|op| OpKind::Reduce { op, axes: list() });
                return Ok(unary
                    .or_else(composite)
                    .or_else(binary)
                    .or_else(compare)
                    .or_else(reduce)
                    .or_else(collective));
            }
        }))
    }

    /// Visits the attributes that the text form contains in braces, in the order of the text. Attributes
    /// implied by the types of operands and results are not visited.
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
            OpKind::State { init, whole, .. } => {
                a.number("init", init)?;
                a.list_unless_empty("whole", whole)
            }
            OpKind::Iota { axis, .. } | OpKind::ArgReduce { axis, .. } | OpKind::Concat { axis } => {
                a.integer("axis", axis)
            }
            OpKind::RandomBits { site, ones, .. } => {
                a.integer("site", site)?;
                let is_given = *ones != BinaryFraction::HALF;
                let [mut parts, mut digits] = [ones.parts, ones.digits].map(|it| is_given.then_some(it));
                a.optional_integer("ones", &mut parts)?;
                a.optional_integer("digits", &mut digits)?;
                *ones = BinaryFraction { parts: parts.unwrap_or(1), digits: digits.unwrap_or(1) };
                Ok(())
            }
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
                a.optional_integer("window", &mut spec.window)?;
                a.flag("query_offset", &mut spec.query_offset)?;
                a.flag("key_length", &mut spec.key_length)?;
                a.flag("block_table", &mut spec.block_table)?;
                a.optional_float("dropout", &mut spec.dropout)
            }
            OpKind::Collective { ranks, rounded, .. } => {
                a.integer("ranks", ranks)?;
                a.flag("rounded", rounded)
            }
            OpKind::Repeat { trip, carried, .. } => {
                a.integer("trip", trip)?;
                a.integer("carried", carried)
            }
        }
    }

    /// Returns the number of floating-point operations for operands and results of these types: one per
    /// element for f32 functions and reductions, two per pair of factors in a matrix product. Comparisons,
    /// selections, conversions and integer ops count as 0, as do custom ops, whose cost is unknown.
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
            OpKind::Collective { op, .. } if *op != CollectiveOp::AllGather => {
                operands.iter().map(|&operand| elements(operand)).sum()
            }
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
            | OpKind::Collective { .. }
            | OpKind::Repeat { .. }
            | OpKind::Checkpoint { .. }
            | OpKind::Barrier
            | OpKind::Custom(_) => 0,
        }
    }

    /// Returns `true` if the op is a leaf whose value comes from outside the graph, unlike constants and
    /// iota.
    pub fn is_external_leaf(&self) -> bool {
        matches!(
            self,
            OpKind::Input { .. } | OpKind::Param { .. } | OpKind::State { .. } | OpKind::Scalar { .. }
        )
    }

    /// Returns `true` if the op only changes the addressing of its first operand's elements.
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

    /// Returns the block that the op runs, if any.
    pub fn block(&self) -> Option<BlockId> {
        match self {
            OpKind::Repeat { block, .. } | OpKind::Checkpoint { block } => Some(*block),
            _ => None,
        }
    }
}
