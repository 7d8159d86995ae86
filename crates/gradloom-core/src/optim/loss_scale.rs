//! Adaptive loss scaling.
//!
//! In: a training graph whose backward pass began with the scale instead of 1, and whose gradients were
//! divided by it. Out: the graph in which a step with non-finite gradients changes only the scale. Invariant:
//! the scale is a power of two of at least 1, so multiplying by it does not round. If the scale is 1,
//! non-finite gradients are an error of the step, as without a scale.
//!
//! The rule is that of PyTorch's `torch.amp.GradScaler`: the scale is halved after a step that overflowed,
//! and doubled after 2,000 consecutive steps that did not. It starts below PyTorch's 65,536, so that the
//! first steps of a run are not skipped.

use super::{STATE_PREFIX, StepBuilder};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{BinaryOp, Builder, CompareOp, DType, Graph, Number, OpKind, Type, Update, ValueId};

/// Name of the f32 state by which the loss is multiplied before its gradient is computed.
pub const LOSS_SCALE: &str = "optim.loss_scale";
/// Scale of the first step. It is large enough that gradients of means over thousands of tokens keep their
/// bits in f16, and small enough that those of a single token are far below the largest f16.
const FIRST: f64 = 1024.0;
const LARGEST: f64 = 16_777_216.0;
/// Number of consecutive steps without overflow after which the scale grows.
const INTERVAL: f64 = 2000.0;

/// Adds the scale to the graph and returns its leaf.
pub fn loss_scale(b: &mut Builder<'_>) -> ValueId {
    state(b, "loss_scale", FIRST)
}

/// Returns the leaf of the loss scale, if the graph has a loss scale.
pub(super) fn of(graph: &Graph) -> Option<ValueId> {
    let is_scale = |kind: &OpKind| matches!(kind, OpKind::State { name, .. } if name == LOSS_SCALE);
    graph.entry_ops().find(|(_, op)| is_scale(&op.kind)).map(|(_, op)| op.results[0])
}

fn state(b: &mut Builder<'_>, name: &str, init: f64) -> ValueId {
    let (name, ty) = (format!("{STATE_PREFIX}{name}"), Type::scalar(DType::F32));
    b.op(OpKind::State { name, ty, init: Number::Float(init), whole: Vec::new() }, &[])
}

/// Adds the update of the scale, and makes the model's existing updates and all later updates take effect
/// only if the norm of the gradients is finite. Returns the value that must be finite for the step to commit.
///
/// # Errors
/// Returns an error if the model updates a part of a state or a state that must be updated in place.
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
    // If the scale is 1, it did not cause the overflow, so the step fails.
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
