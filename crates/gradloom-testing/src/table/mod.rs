//! Table of ops, each with a function that draws an instance whose operands are away from kinks and ties.

mod blocks;
mod graphs;
mod movement;
mod rows;

pub use graphs::graph_of;

use crate::random::Random;
use gradloom_core::ir::{
    ArgReduceOp, AttentionSpec, BinaryFraction, BinaryOp, BlockFormat, CollectiveOp, CompareOp, CompositeOp,
    DType, DotAxes, Graph, Literal, Number, OpKind, ReduceOp, ScatterOp, Shape, Type, UnaryOp,
};

/// Type and elements of an operand.
type Operand = (Type, Vec<f64>);

/// Op with its operands.
pub struct Instance {
    /// Op.
    pub kind: OpKind,
    /// Operands of the op.
    pub operands: Vec<Operand>,
}

impl Instance {
    /// Returns the number of leading results that the loss may depend on. The log-sum-exp of attention and
    /// the indices of a sort have no cotangent.
    pub fn observed(&self, results: usize) -> usize {
        if matches!(self.kind, OpKind::Attention(_) | OpKind::Sort { .. }) { 1 } else { results }
    }
}

/// Differentiable op.
pub struct Case {
    /// Name in the text form.
    pub name: &'static str,
    /// Draws an instance; blocks and custom ops are added to the graph.
    pub sample: fn(&mut Random, &mut Graph) -> Instance,
}

/// Ops that stop gradients, or that differentiation rejects.
pub const NOT_DIFFERENTIABLE: &[&str] = &[
    "input",
    "param",
    "state",
    "scalar",
    "constant",
    "iota",
    "random_bits",
    "sign",
    "floor",
    "not",
    "detach",
    "and",
    "or",
    "xor",
    "shl",
    "shr",
    "words",
    "dequantize",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "argmax",
    "argmin",
    "attention_grad",
    "scatter_distinct",
];

/// All differentiable ops.
pub const CASES: &[Case] = &[
    Case { name: "neg", sample: |r, _| unary(r, UnaryOp::Neg, -2.0, 2.0) },
    Case { name: "abs", sample: |r, _| unary_signed(r, UnaryOp::Abs) },
    Case { name: "exp", sample: |r, _| unary(r, UnaryOp::Exp, -2.0, 2.0) },
    Case { name: "expm1", sample: |r, _| unary(r, UnaryOp::Expm1, -2.0, 2.0) },
    Case { name: "log", sample: |r, _| unary(r, UnaryOp::Log, 0.5, 3.0) },
    Case { name: "log1p", sample: |r, _| unary(r, UnaryOp::Log1p, -0.5, 2.0) },
    Case { name: "sqrt", sample: |r, _| unary(r, UnaryOp::Sqrt, 0.5, 3.0) },
    Case { name: "rsqrt", sample: |r, _| unary(r, UnaryOp::Rsqrt, 0.5, 3.0) },
    Case { name: "sin", sample: |r, _| unary(r, UnaryOp::Sin, -3.0, 3.0) },
    Case { name: "cos", sample: |r, _| unary(r, UnaryOp::Cos, -3.0, 3.0) },
    Case { name: "tanh", sample: |r, _| unary(r, UnaryOp::Tanh, -2.0, 2.0) },
    Case { name: "sigmoid", sample: |r, _| unary(r, UnaryOp::Sigmoid, -3.0, 3.0) },
    Case { name: "erf", sample: |r, _| unary(r, UnaryOp::Erf, -2.0, 2.0) },
    Case { name: "tan", sample: |r, _| composite(r, CompositeOp::Tan, -1.2, 1.2) },
    Case { name: "asin", sample: |r, _| composite(r, CompositeOp::Asin, -0.9, 0.9) },
    Case { name: "acos", sample: |r, _| composite(r, CompositeOp::Acos, -0.9, 0.9) },
    Case { name: "atan", sample: |r, _| composite(r, CompositeOp::Atan, -4.0, 4.0) },
    Case { name: "sinh", sample: |r, _| composite(r, CompositeOp::Sinh, -2.0, 2.0) },
    Case { name: "cosh", sample: |r, _| composite(r, CompositeOp::Cosh, -2.0, 2.0) },
    Case { name: "asinh", sample: |r, _| composite(r, CompositeOp::Asinh, -4.0, 4.0) },
    Case { name: "acosh", sample: |r, _| composite(r, CompositeOp::Acosh, 1.5, 4.0) },
    Case { name: "atanh", sample: |r, _| composite(r, CompositeOp::Atanh, -0.9, 0.9) },
    Case { name: "add", sample: |r, _| binary(r, BinaryOp::Add, any, any) },
    Case { name: "sub", sample: |r, _| binary(r, BinaryOp::Sub, any, any) },
    Case { name: "mul", sample: |r, _| binary(r, BinaryOp::Mul, any, any) },
    Case { name: "div", sample: |r, _| binary(r, BinaryOp::Div, any, |r, _| signed(r)) },
    Case { name: "min", sample: |r, _| binary(r, BinaryOp::Min, any, |r, a| a + signed(r)) },
    Case { name: "max", sample: |r, _| binary(r, BinaryOp::Max, any, |r, a| a + signed(r)) },
    Case { name: "pow", sample: |r, _| binary(r, BinaryOp::Pow, |r, _| r.uniform(0.5, 2.0), any) },
    Case { name: "rem", sample: |r, _| remainder(r) },
    Case { name: "select", sample: |r, _| select(r) },
    Case { name: "cast", sample: |r, _| floats_only(r, OpKind::Cast { dtype: DType::F32 }) },
    Case { name: "sum", sample: |r, _| reduce(r, ReduceOp::Sum, any) },
    Case { name: "prod", sample: |r, _| reduce(r, ReduceOp::Prod, |r, _| signed(r)) },
    Case { name: "reduce_max", sample: |r, _| reduce(r, ReduceOp::Max, |_, rank| rank * 0.1) },
    Case { name: "reduce_min", sample: |r, _| reduce(r, ReduceOp::Min, |_, rank| rank * 0.1) },
    Case { name: "cumsum", sample: |r, _| rows::cumulate(r, ReduceOp::Sum) },
    Case { name: "cumprod", sample: |r, _| rows::cumulate(r, ReduceOp::Prod) },
    Case { name: "cummax", sample: |r, _| rows::cumulate(r, ReduceOp::Max) },
    Case { name: "cummin", sample: |r, _| rows::cumulate(r, ReduceOp::Min) },
    Case { name: "sort", sample: |r, _| rows::sort(r) },
    Case { name: "reshape", sample: |r, _| movement::reshape(r) },
    Case { name: "permute", sample: |r, _| movement::permute(r) },
    Case { name: "broadcast", sample: |r, _| movement::broadcast(r) },
    Case { name: "slice", sample: |r, _| movement::slice(r) },
    Case { name: "windows", sample: |r, _| movement::windows(r) },
    Case { name: "pad", sample: |r, _| movement::pad(r) },
    Case { name: "concat", sample: |r, _| movement::concat(r) },
    Case { name: "dynamic_slice", sample: |r, _| movement::dynamic_slice(r) },
    Case { name: "dynamic_update_slice", sample: |r, _| movement::dynamic_update_slice(r) },
    Case { name: "gather", sample: |r, _| movement::gather(r) },
    Case { name: "scatter_add", sample: |r, _| movement::scatter(r, ScatterOp::Add) },
    Case { name: "scatter", sample: |r, _| movement::scatter(r, ScatterOp::Set) },
    Case { name: "dot", sample: |r, _| dot(r) },
    Case { name: "conv", sample: |r, _| movement::conv(r) },
    Case { name: "attention", sample: |r, _| attention(r) },
    Case { name: "all_reduce", sample: |r, _| collective(r, CollectiveOp::AllReduce) },
    Case { name: "checked_all_reduce", sample: |r, _| collective(r, CollectiveOp::CheckedAllReduce) },
    Case { name: "reduce_scatter", sample: |r, _| collective(r, CollectiveOp::ReduceScatter) },
    Case { name: "all_gather", sample: |r, _| collective(r, CollectiveOp::AllGather) },
    Case { name: "repeat", sample: blocks::repeat },
    Case { name: "checkpoint", sample: blocks::checkpoint },
    Case { name: "barrier", sample: |r, _| barrier(r) },
    Case { name: "custom", sample: blocks::custom },
];

/// Returns an op of each primitive.
pub fn samples(graph: &mut Graph) -> Vec<OpKind> {
    let ty = Type::new(DType::F32, [2]);
    let zero = Number::Float(0.0);
    let mut random = Random::new(1);
    let mut kinds = vec![
        OpKind::Input { name: "x".into(), ty: ty.clone() },
        OpKind::Param { name: "w".into(), ty: ty.clone() },
        OpKind::State { name: "m".into(), ty: ty.clone(), init: zero, whole: Vec::new() },
        OpKind::Scalar { name: "lr".into(), dtype: DType::F32 },
        OpKind::Constant { ty: ty.clone(), data: Literal::Splat(zero) },
        OpKind::Iota { ty, axis: 0 },
        OpKind::RandomBits { shape: Shape::from([2]), site: 0, ones: BinaryFraction::HALF },
        OpKind::ArgReduce { op: ArgReduceOp::ArgMax, axis: 0 },
        OpKind::ArgReduce { op: ArgReduceOp::ArgMin, axis: 0 },
        OpKind::AttentionGrad(PLAIN_ATTENTION),
        OpKind::Scatter { op: ScatterOp::Distinct, batch: 0 },
        OpKind::Words,
        OpKind::Dequantize { format: BlockFormat::Q8_0 },
    ];
    kinds.extend(UnaryOp::ALL.iter().map(|&op| OpKind::Unary(op)));
    kinds.extend(BinaryOp::ALL.iter().map(|&op| OpKind::Binary(op)));
    kinds.extend(CompareOp::ALL.iter().map(|&op| OpKind::Compare(op)));
    kinds.extend(ReduceOp::ALL.iter().map(|&op| OpKind::Reduce { op, axes: vec![] }));
    // The remaining ops are in the table. An op that is missing in it is missing here, which the caller
    // detects.
    kinds.extend(CASES.iter().map(|case| (case.sample)(&mut random, graph).kind));
    kinds
}

/// Draws a number in `[-2, 2)`.
fn any(r: &mut Random, _: f64) -> f64 {
    r.uniform(-2.0, 2.0)
}

/// Draws a number with a magnitude from 0.4 to 1.5.
fn signed(r: &mut Random) -> f64 {
    let sign = r.pick(&[-1.0, 1.0]);
    sign * r.uniform(0.4, 1.5)
}

fn any_shape(r: &mut Random) -> Vec<usize> {
    let rank = r.below(4);
    r.shape(rank)
}

/// Draws an f32 operand with elements in `[-2, 2)`.
fn floats(r: &mut Random, shape: &[usize]) -> Operand {
    let ty = Type::new(DType::F32, shape);
    let values = (0..ty.elements()).map(|_| any(r, 0.0)).collect();
    (ty, values)
}

/// Draws an i32 operand with elements in `0..bound`.
fn indices(r: &mut Random, shape: &[usize], bound: usize) -> Operand {
    let ty = Type::new(DType::I32, shape);
    let values = (0..ty.elements()).map(|_| r.below(bound) as f64).collect();
    (ty, values)
}

/// Draws a collective op of a world of one rank, which devices without a world compute, too.
fn collective(r: &mut Random, op: CollectiveOp) -> Instance {
    let operands = (0..1 + r.below(3)).map(|_| {
        let shape = r.shape(2);
        floats(r, &shape)
    });
    Instance { kind: OpKind::Collective { op, ranks: 1, rounded: false }, operands: operands.collect() }
}

fn barrier(r: &mut Random) -> Instance {
    let shape = any_shape(r);
    Instance { kind: OpKind::Barrier, operands: vec![floats(r, &shape), indices(r, &[2], 3)] }
}

fn unary(r: &mut Random, op: UnaryOp, low: f64, high: f64) -> Instance {
    let ty = Type::new(DType::F32, any_shape(r));
    let values = (0..ty.elements()).map(|_| r.uniform(low, high)).collect();
    Instance { kind: OpKind::Unary(op), operands: vec![(ty, values)] }
}

fn composite(r: &mut Random, op: CompositeOp, low: f64, high: f64) -> Instance {
    Instance { kind: op.into(), ..unary(r, UnaryOp::Neg, low, high) }
}

fn unary_signed(r: &mut Random, op: UnaryOp) -> Instance {
    let ty = Type::new(DType::F32, any_shape(r));
    let values = (0..ty.elements()).map(|_| signed(r)).collect();
    Instance { kind: OpKind::Unary(op), operands: vec![(ty, values)] }
}

type Draw = fn(&mut Random, f64) -> f64;

/// Draws both operands of a function; `b` may depend on `a`.
fn binary(r: &mut Random, op: BinaryOp, a: Draw, b: Draw) -> Instance {
    let ty = Type::new(DType::F32, any_shape(r));
    let left: Vec<_> = (0..ty.elements()).map(|_| a(r, 0.0)).collect();
    let right = left.iter().map(|&left| b(r, left)).collect();
    Instance { kind: OpKind::Binary(op), operands: vec![(ty.clone(), left), (ty, right)] }
}

/// Draws a remainder whose quotients are not close to integers.
fn remainder(r: &mut Random) -> Instance {
    let ty = Type::new(DType::F32, any_shape(r));
    let right: Vec<_> = (0..ty.elements()).map(|_| signed(r)).collect();
    let quotient = |r: &mut Random| r.pick(&[-1.0, 1.0]) * (r.below(4) as f64 + r.uniform(0.2, 0.8));
    let left = right.iter().map(|right| right * quotient(r)).collect();
    Instance { kind: OpKind::Binary(BinaryOp::Rem), operands: vec![(ty.clone(), left), (ty, right)] }
}

fn select(r: &mut Random) -> Instance {
    let shape = any_shape(r);
    let ty = Type::new(DType::Bool, shape.clone());
    let condition = (0..ty.elements()).map(|_| r.below(2) as f64).collect();
    let (a, b) = (floats(r, &shape), floats(r, &shape));
    Instance { kind: OpKind::Select, operands: vec![(ty, condition), a, b] }
}

fn floats_only(r: &mut Random, kind: OpKind) -> Instance {
    let shape = any_shape(r);
    Instance { kind, operands: vec![floats(r, &shape)] }
}

/// Draws the operand of a reduction; `draw` receives the rank of each element in a random order.
fn reduce(r: &mut Random, op: ReduceOp, draw: Draw) -> Instance {
    let ty = Type::new(DType::F32, any_shape(r));
    let axes = (0..ty.shape.rank()).filter(|_| r.below(2) == 0).collect();
    let order = r.order(ty.elements());
    let values = order.into_iter().map(|rank| draw(r, rank as f64)).collect();
    Instance { kind: OpKind::Reduce { op, axes }, operands: vec![(ty, values)] }
}

/// Draws a product with any number of batch, free and contracted axes, in any order.
fn dot(r: &mut Random) -> Instance {
    let (batch, contract) = (r.below(3), r.below(3));
    let [batch, contract] = [r.shape(batch), r.shape(contract)];
    let mut side = || {
        let free = r.below(3);
        let extents = [&batch[..], &contract, &r.shape(free)].concat();
        let order = r.order(extents.len());
        let place = |from: usize| order.iter().position(|&axis| axis == from).unwrap();
        let shape: Vec<_> = order.iter().map(|&axis| extents[axis]).collect();
        let batch_axes: Vec<_> = (0..batch.len()).map(place).collect();
        let contract_axes: Vec<_> = (batch.len()..batch.len() + contract.len()).map(place).collect();
        (floats(r, &shape), batch_axes, contract_axes)
    };
    let (lhs, lhs_batch, lhs_contract) = side();
    let (rhs, rhs_batch, rhs_contract) = side();
    let axes = DotAxes { lhs_batch, rhs_batch, lhs_contract, rhs_contract };
    Instance { kind: OpKind::Dot(axes), operands: vec![lhs, rhs] }
}

const PLAIN_ATTENTION: AttentionSpec = AttentionSpec {
    causal: false,
    window: None,
    scale: 0.7,
    query_offset: false,
    key_length: false,
    block_table: false,
    dropout: None,
};

/// Draws an attention with grouped heads, masks, windows, and queries without visible keys.
fn attention(r: &mut Random) -> Instance {
    let [mut causal, mut query_offset, mut key_length] = [false; 3];
    for flag in [&mut causal, &mut query_offset, &mut key_length] {
        *flag = r.below(2) == 0;
    }
    let window = (r.below(2) == 0).then(|| 1 + r.below(4) as u32);
    let dropout = (r.below(2) == 0).then_some(1.5);
    let spec = AttentionSpec { causal, window, query_offset, key_length, dropout, ..PLAIN_ATTENTION };
    let (batch, kv_heads, group) = (1 + r.below(2), 1 + r.below(2), 1 + r.below(2));
    let (queries, keys, depth, value_depth) = (r.below(4), r.below(5), 1 + r.below(3), 1 + r.below(3));
    let mut operands = vec![
        floats(r, &[batch, kv_heads * group, queries, depth]),
        floats(r, &[batch, kv_heads, keys, depth]),
        floats(r, &[batch, kv_heads, keys, value_depth]),
    ];
    if query_offset {
        operands.push(indices(r, &[], 3));
    }
    if key_length {
        operands.push(indices(r, &[], keys + 1));
    }
    if dropout.is_some() {
        let ty = Type::new(DType::U32, [batch, kv_heads * group, queries, keys.div_ceil(32)]);
        let words = (0..ty.elements()).map(|_| r.below(1 << 32) as f64).collect();
        operands.push((ty, words));
    }
    Instance { kind: OpKind::Attention(spec), operands }
}
