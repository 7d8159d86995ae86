//! Reverse-mode differentiation on the IR, which appends the backward pass to the same graph.
//!
//! The loss must be a rank-0 `f32` value of the entry block. Existing [`ValueId`]s keep their meanings; a
//! gradient has the type of its value, except that 16-bit floats have f32 gradients; a new op has the origin
//! of the op that it differentiates; ops that are not between `wrt` and the loss get no cotangent. The rules
//! of ops of a `checkpoint` read recomputed values (`recompute`). Everything else is the same as without
//! `checkpoint`, so gradients are bitwise identical.
//!
//! `rules` contains one rule per primitive. This file traverses the graph and adds the cotangents from all
//! users of a value.

mod coverage;
mod expand;
mod recompute;
mod rules;

pub use coverage::coverage;
pub use expand::expand_blocks;
pub use rules::{Differentiability, differentiability};

use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Builder, DType, Graph, Id, Type, ValueId};
use crate::verify::check_expansion;
use expand::Segment;
use recompute::Recomputation;
use rules::Site;

/// Appends the backward ops to the entry block and returns the gradient of `loss` with respect to each value
/// in `wrt`, or `None` if no differentiable path leads from the value to the loss.
///
/// `loss` is an `f32` scalar. `seed` is its cotangent, also an `f32` scalar, such as a loss scale; the
/// default is 1. Block ops of the entry block are inlined first, as by [`expand_blocks`]. Values computed in
/// a `checkpoint` are not kept for the backward ops but recomputed after the cotangent of its result is
/// available.
///
/// # Errors
/// Returns [`ErrorKind::NotDifferentiable`] if the loss is not an `f32` scalar or depends on `wrt` through an
/// op without a gradient. Unused ops may then remain in the graph. Returns [`ErrorKind::Verify`] if the
/// graph's blocks expand to too many ops.
pub fn append(
    graph: &mut Graph,
    loss: ValueId,
    seed: Option<ValueId>,
    wrt: &[ValueId],
) -> Result<Vec<Option<ValueId>>> {
    check_scalar(graph, loss, "the loss")?;
    if let Some(seed) = seed {
        check_scalar(graph, seed, "the seed of the gradient")?;
    }
    check_expansion(graph)?;
    let segments = expand::expand_segments(graph);
    let cursor = std::mem::replace(&mut graph.cursor, graph.entry);
    let gradients = backward(graph, loss, seed, wrt, segments);
    graph.cursor = cursor;
    gradients
}

fn backward(
    graph: &mut Graph,
    loss: ValueId,
    seed: Option<ValueId>,
    wrt: &[ValueId],
    segments: Vec<Segment>,
) -> Result<Vec<Option<ValueId>>> {
    let forward = graph.blocks[graph.entry].ops.clone();
    let active = active_values(graph, wrt);
    let mut cotangents: Vec<Option<ValueId>> = vec![None; graph.values.len()];
    if active[loss.index()] {
        let origin = graph.defining_op(loss).and_then(|op| op.origin);
        cotangents[loss.index()] = Some(seed.unwrap_or_else(|| Builder::new(graph, origin).number(1.0)));
        let mut again = Recomputation::new(&forward, segments);
        for position in (0..forward.len()).rev() {
            propagate(graph, position, &mut again, &active, &mut cotangents)?;
        }
        again.remove_unused(graph, &cotangents);
    }
    Ok(wrt.iter().map(|value| cotangents[value.index()]).collect())
}

/// Returns, for each value by id, whether it is in the entry block and depends differentiably on `wrt`.
fn active_values(graph: &Graph, wrt: &[ValueId]) -> Vec<bool> {
    let mut active = vec![false; graph.values.len()];
    for &value in wrt {
        active[value.index()] = graph.ty(value).dtype.is_float();
    }
    for (_, op) in graph.entry_ops() {
        let flows = op.operands.iter().any(|v| active[v.index()])
            && differentiability(&op.kind) != Differentiability::Stops;
        if flows {
            for result in op.results.iter().filter(|&&v| graph.ty(v).dtype.is_float()) {
                active[result.index()] = true;
            }
        }
    }
    active
}

/// Applies the rule of a forward op if its results have a cotangent and an operand needs one.
fn propagate(
    graph: &mut Graph,
    position: usize,
    again: &mut Recomputation<'_>,
    active: &[bool],
    cotangents: &mut [Option<ValueId>],
) -> Result<()> {
    let op = &graph.ops[again.forward[position]];
    let arriving: Vec<_> = op.results.iter().map(|v| cotangents[v.index()]).collect();
    let needed: Vec<_> = op.operands.iter().map(|v| active[v.index()]).collect();
    let Some(first) = arriving.iter().flatten().next().copied().filter(|_| needed.contains(&true)) else {
        return Ok(());
    };
    let op = op.clone();
    let Some(rule) = rules::rule(&op.kind) else { return Ok(()) };
    let read = again.op(graph, position, first);
    let site = Site { op: &read, cotangents: &arriving, needed: &needed };
    let mut builder = Builder::new(graph, op.origin);
    let flowing = rule(&mut builder, &site)?;
    for ((&operand, &wanted), cotangent) in op.operands.iter().zip(&needed).zip(flowing) {
        let Some(cotangent) = cotangent.filter(|_| wanted) else { continue };
        debug_assert_eq!(
            builder.ty(cotangent),
            cotangent_type(&builder.ty(operand)),
            "gradient of {}",
            op.kind.name()
        );
        let slot = &mut cotangents[operand.index()];
        *slot = Some(match *slot {
            Some(earlier) => builder.add(earlier, cotangent),
            None => cotangent,
        });
    }
    Ok(())
}

/// Returns the type of a value's cotangent. For 16-bit floats it is f32, which preserves the precision of
/// small values and long sums.
fn cotangent_type(ty: &Type) -> Type {
    Type::new(ty.dtype.computed(), ty.shape.clone())
}

fn check_scalar(graph: &Graph, value: ValueId, what: &str) -> Result<()> {
    let ty = graph.ty(value);
    if *ty == Type::scalar(DType::F32) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::NotDifferentiable, format!("{what} is {ty}, not one f32 number"))
        .help("reduce it to one number, for example with .mean() or .sum()");
    Err(graph.blame(graph.defining_op(value), error))
}
