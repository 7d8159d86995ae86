//! A loss scale that adapts.
//!
//! In: a training graph whose backward pass began with the scale instead of 1, and whose gradients were
//! divided by it. Out: the graph in which a step whose gradients are not finite changes nothing but the
//! scale. Always holds: the scale is a power of two of at least 1, so that it rounds nothing; where it is 1,
//! gradients that are not finite are an error of the step, as without it.
//!
//! The rule is that of PyTorch's `torch.amp.GradScaler`: half the scale after a step that overflowed, twice
//! the scale after 2,000 steps in a row that did not. It starts lower than PyTorch's 65,536, so that the
//! first steps of a run are not skipped.

use super::{STATE_PREFIX, StepBuilder};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{BinaryOp, Builder, CompareOp, DType, Graph, Number, OpKind, Type, Update, ValueId};

/// State: what the loss is multiplied by before its gradient is taken, f32.
pub const LOSS_SCALE: &str = "optim.loss_scale";
/// The scale of the first step: gradients of means over thousands of tokens keep their bits in f16, and those
/// of a single one are far from the largest f16.
const FIRST: f64 = 1024.0;
const LARGEST: f64 = 16_777_216.0;
/// Steps in a row without overflow after which the scale grows.
const INTERVAL: f64 = 2000.0;

/// Returns the scale, as a leaf of the graph.
pub fn loss_scale(b: &mut Builder<'_>) -> ValueId {
    state(b, "loss_scale", FIRST)
}

/// Returns the scale in a graph that has one.
pub(super) fn of(graph: &Graph) -> Option<ValueId> {
    let is_scale = |kind: &OpKind| matches!(kind, OpKind::State { name, .. } if name == LOSS_SCALE);
    graph.entry_ops().find(|(_, op)| is_scale(&op.kind)).map(|(_, op)| op.results[0])
}

fn state(b: &mut Builder<'_>, name: &str, init: f64) -> ValueId {
    let (name, ty) = (format!("{STATE_PREFIX}{name}"), Type::scalar(DType::F32));
    b.op(OpKind::State { name, ty, init: Number::Float(init) }, &[])
}

/// Has updates, those of the model and those to come, take effect only if the norm of the gradients is
/// finite, and updates the scale. Returns the value that must be finite for the commit.
///
/// # Errors
/// When the model updates a part of a state.
pub(super) fn adapt(s: &mut StepBuilder<'_, '_>, scale: ValueId, norm: ValueId) -> Result<ValueId> {
    let b = &mut *s.builder;
    let infinity = b.number(f64::INFINITY);
    let fits = b.compare(CompareOp::Lt, norm, infinity);
    let (zero, one) = (b.number(0.0), b.number(1.0));
    let before = state(b, "loss_scale_steps", 0.0);
    let steps = b.add(before, one);
    let interval = b.number(INTERVAL);
    let grows = b.compare(CompareOp::Ge, steps, interval);
    let (twice, half) = (b.mul_number(scale, 2.0), b.mul_number(scale, 0.5));
    let largest = b.number(LARGEST);
    let twice = b.binary(BinaryOp::Min, twice, largest);
    let half = b.binary(BinaryOp::Max, half, one);
    let grown = b.select(grows, twice, scale);
    let next = b.select(fits, grown, half);
    let counted = b.select(grows, zero, steps);
    let counted = b.select(fits, counted, zero);
    // At the smallest scale it was not the scale's doing.
    let can_shrink = b.compare(CompareOp::Gt, scale, one);
    let forgiven = b.select(can_shrink, zero, norm);
    let guarded = b.select(fits, norm, forgiven);

    let models = std::mem::take(&mut b.graph.updates);
    s.assign(scale, next);
    s.assign(before, counted);
    s.fits = Some(fits);
    for Update { target, region, value, must_alias } in models {
        if region.is_some() || must_alias {
            let message = "with a loss scale, a step cannot update a part of a state";
            return Err(Error::new(ErrorKind::Trace, message)
                .help("update the whole state, or train with the precision f32"));
        }
        s.assign(target, value);
    }
    Ok(guarded)
}
