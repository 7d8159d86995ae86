//! Differentiation rules, one per primitive, which compute the cotangents of an op's operands from those of
//! its results.
//!
//! In the formulas, `x`, `a` and `b` are operands, `y` is the result, `g` is the cotangent of the result, and
//! `dx` is the cotangent of `x`. A rule returns a cotangent for each operand, or `None` if no gradient flows.
//! It may skip operands for which [`Site::needs`] is false, and reads results instead of recomputing them.

mod attention;
mod collective;
mod convolution;
mod custom;
mod dot;
mod elementwise;
mod index;
mod reduce;
mod rows;
mod views;

use super::cotangent_type;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Builder, Graph, Op, OpKind, ReduceOp, ScatterOp, Shape, ValueId};

/// Cotangents of the operands, in order.
pub(super) type Cotangents = Vec<Option<ValueId>>;

/// Appends the computation of the operands' cotangents.
pub(super) type Rule<'a> = Box<dyn Fn(&mut Builder<'_>, &Site<'_>) -> Result<Cotangents> + 'a>;

/// A differentiated op with the cotangents of its results.
pub(super) struct Site<'a> {
    pub(super) op: &'a Op,
    /// Cotangent of each result; `None` represents zero.
    pub(super) cotangents: &'a [Option<ValueId>],
    /// For each operand, true if its cotangent is needed.
    pub(super) needed: &'a [bool],
}

impl Site<'_> {
    /// Returns the operand with this index.
    fn x(&self, index: usize) -> ValueId {
        self.op.operands[index]
    }

    /// Returns the only result.
    fn y(&self) -> ValueId {
        self.op.results[0]
    }

    /// Returns the cotangent of the only result. It exists because rules run only if a result has a
    /// cotangent.
    fn g(&self) -> ValueId {
        self.cotangents[0].expect("the rule of an op with one result runs when its cotangent arrives")
    }

    /// Returns `true` if the cotangent of an operand is needed.
    fn needs(&self, index: usize) -> bool {
        self.needed[index]
    }
}

/// The behavior of gradients at an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differentiability {
    /// The gradient flows to the operands.
    Flows,
    /// The gradient stops, because the op has no operands, is piecewise constant, or returns integers. This
    /// is not an error.
    Stops,
    /// Differentiating the op is an error.
    Refused,
}

/// Returns the behavior of gradients at an op of this kind. A custom op is [`Differentiability::Flows`], but
/// its differentiation may still fail.
pub fn differentiability(kind: &OpKind) -> Differentiability {
    match kind {
        OpKind::Attention(spec) if spec.block_table => Differentiability::Refused,
        OpKind::AttentionGrad(_) | OpKind::Scatter { op: ScatterOp::Distinct, .. } => {
            Differentiability::Refused
        }
        _ if rule(kind).is_some() => Differentiability::Flows,
        _ => Differentiability::Stops,
    }
}

/// Returns the rule of an op, or `None` if gradients stop at it.
pub(super) fn rule(kind: &OpKind) -> Option<Rule<'_>> {
    match kind {
        OpKind::Input { .. }
        | OpKind::Param { .. }
        | OpKind::State { .. }
        | OpKind::Scalar { .. }
        | OpKind::Constant { .. }
        | OpKind::Iota { .. } => None,
        // No gradient flows to integer operands.
        OpKind::RandomBits { .. } => None,

        OpKind::Unary(op) => elementwise::unary(*op),
        OpKind::Composite(op) => elementwise::composite(*op),
        OpKind::Binary(op) => elementwise::binary(*op),
        // No gradient flows through a bool result.
        OpKind::Compare(_) => None,
        // No gradient flows to integer operands.
        OpKind::Words | OpKind::Dequantize { .. } => None,
        OpKind::Select => elementwise::select(),
        OpKind::Cast { dtype } => elementwise::cast(*dtype),

        OpKind::Reduce { op, axes } => Some(reduce::rule(*op, axes)),
        // No gradient flows through an index.
        OpKind::ArgReduce { .. } => None,
        OpKind::Cumulate { op, reverse } => rows::cumulate(*op, *reverse),
        OpKind::Sort { .. } => rows::sort(),

        OpKind::Reshape { .. } => views::reshape(),
        OpKind::Permute { perm } => views::permute(perm),
        OpKind::Broadcast { .. } => views::broadcast(),
        OpKind::Slice { start, step, .. } => views::slice(start, step),
        OpKind::Windows { size, step, dilation } => views::windows(size, step, dilation),
        OpKind::Pad { low, interior, .. } => views::pad(low, interior),
        OpKind::Concat { axis } => views::concat(*axis),

        OpKind::DynamicSlice { .. } => index::dynamic_slice(),
        OpKind::DynamicUpdateSlice => index::dynamic_update_slice(),
        OpKind::Dot(axes) => dot::rule(axes),
        OpKind::Conv(spec) => convolution::rule(spec),
        OpKind::Gather { batch } => index::gather(*batch),
        OpKind::Scatter { op: ScatterOp::Add, batch } => index::scatter_add(*batch),
        OpKind::Scatter { op: ScatterOp::Set, batch } => index::scatter(*batch),
        OpKind::Scatter { op: ScatterOp::Distinct, .. } => {
            refuse("it leaves updates out", "use `scatter_rows`, or detach what it is of")
        }

        OpKind::Attention(spec) => attention::rule(*spec),
        OpKind::AttentionGrad(_) => {
            refuse("the gradient of attention cannot itself be differentiated", ATTENTION_HELP)
        }

        OpKind::Collective { op, ranks, rounded } => collective::rule(*op, *ranks, *rounded),

        OpKind::Repeat { .. } | OpKind::Checkpoint { .. } => {
            refuse("blocks must be inlined before differentiation", "call grad::expand_blocks first")
        }
        OpKind::Barrier => first(|_, s| s.g()),
        OpKind::Custom(id) => custom::rule(*id),
    }
}

const ATTENTION_HELP: &str = "write attention with matmul and softmax where a second derivative is needed";

/// Converts a closure to an optional rule, as returned by the rule table.
fn some<'a>(rule: impl Fn(&mut Builder<'_>, &Site<'_>) -> Result<Cotangents> + 'a) -> Option<Rule<'a>> {
    Some(Box::new(rule))
}

/// Returns the rule of an op in which only the first operand is differentiable.
fn first<'a>(dx: impl Fn(&mut Builder<'_>, &Site<'_>) -> ValueId + 'a) -> Option<Rule<'a>> {
    some(move |b, s| Ok(rest_none(s, [Some(dx(b, s))])))
}

/// Returns the rule of an op with two operands. Each closure runs only if its cotangent is needed.
fn both<'a>(
    da: impl Fn(&mut Builder<'_>, &Site<'_>) -> ValueId + 'a,
    db: impl Fn(&mut Builder<'_>, &Site<'_>) -> ValueId + 'a,
) -> Option<Rule<'a>> {
    some(move |b, s| {
        let da = s.needs(0).then(|| da(b, s));
        let db = s.needs(1).then(|| db(b, s));
        Ok(rest_none(s, [da, db]))
    })
}

/// Returns the given cotangents for the first operands and `None` for the others.
fn rest_none<const N: usize>(s: &Site<'_>, cotangents: [Option<ValueId>; N]) -> Cotangents {
    let mut all = cotangents.to_vec();
    all.resize(s.op.operands.len(), None);
    all
}

/// Returns the rule of an op without a gradient, which returns an error.
fn refuse<'a>(message: &'a str, help: &'a str) -> Option<Rule<'a>> {
    some(move |b, s| Err(refusal(b.graph, s.op, message, help)))
}

/// Returns the error of an op without a gradient.
fn refusal(graph: &Graph, op: &Op, message: &str, help: &str) -> Error {
    let name = op.kind.name();
    let error = Error::new(ErrorKind::NotDifferentiable, format!("cannot differentiate {name}: {message}"))
        .help(help);
    graph.blame(op, error)
}

/// Broadcasts `x` along `axes`, which a reduction removed from `shape`, back to `shape`.
fn spread(b: &mut Builder<'_>, x: ValueId, shape: &Shape, axes: &[usize]) -> ValueId {
    let kept: Vec<usize> =
        shape.iter().enumerate().map(|(axis, &n)| if axes.contains(&axis) { 1 } else { n }).collect();
    let kept = b.reshape(x, kept);
    b.broadcast(kept, shape)
}

/// Appends zeros of the type of `like`'s cotangent.
fn zeros_like(b: &mut Builder<'_>, like: ValueId) -> ValueId {
    let ty = cotangent_type(b.graph.ty(like));
    b.splat(&ty, 0.0)
}

/// Appends the sum over `axes`, which are removed from the shape.
fn sum(b: &mut Builder<'_>, x: ValueId, axes: &[usize]) -> ValueId {
    b.reduce(ReduceOp::Sum, x, axes)
}
