//! Reverse mode on the IR: the backward pass as more ops of the same graph.
//!
//! In: a graph, a rank-0 `f32` loss in its entry block, and the values to differentiate with respect to. Out:
//! the same graph with the backward ops appended, and the gradients. Always holds: every [`ValueId`] from
//! before keeps its meaning; a gradient has the type of the value that it belongs to; a new op has the origin
//! of the op that it differentiates; ops that are not between `wrt` and the loss get no cotangent. A rule for
//! an op of a `checkpoint` reads values that were computed again (`recompute`); the rest is as without it, so
//! gradients have the same bits.
//!
//! `rules` has one rule a primitive; this file walks the graph and adds up the cotangents of a value's
//! consumers.

mod coverage;
mod expand;
mod recompute;
mod rules;

pub use coverage::coverage;
pub use expand::expand_blocks;
pub use rules::{Differentiability, differentiability};

use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Builder, DType, Graph, Id, Op, Type, ValueId};
use crate::verify::check_expansion;
use expand::Segment;
use recompute::Recomputation;
use rules::Site;

/// Appends the backward ops to the entry block and returns the gradient of `loss` with respect to each value
/// in `wrt`; `None` where no differentiable path leads from the value to the loss.
///
/// `loss` is an `f32` scalar; `seed`, its cotangent, is one too, and 1 when absent (a loss scale otherwise).
/// Block ops of the entry block are inlined first, as [`expand_blocks`] does. What a `checkpoint` computes is
/// not kept for the backward ops but computed once more, after the cotangent of its result.
///
/// # Errors
/// [`ErrorKind::NotDifferentiable`] when the loss is not an `f32` scalar, or depends on `wrt` through an op
/// that has no gradient; the graph may then have grown by ops that nothing uses. [`ErrorKind::Verify`] when
/// its blocks make too many ops.
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

/// Returns, for each value by id, whether it is of the entry block and depends differentiably on `wrt`.
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

/// Applies the rule of one op of the forward pass, if a cotangent arrives at its results and some operand
/// wants one.
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

/// Returns the type of a value's cotangent: of floats of 16 bits it is f32, so that small ones and long
/// sums keep their bits.
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
    Err(match graph.defining_op(value) {
        Some(op) => place(graph, op, error),
        None => error,
    })
}

/// Returns the error with the origin of an op, if that is known.
fn place(graph: &Graph, op: &Op, error: Error) -> Error {
    match graph.origin(op) {
        Some(origin) => error.at(origin.clone(), op.kind.name()),
        None => error,
    }
}
