//! Reductions over axes. `spread` broadcasts a reduced value along the removed axes.

use super::rows::others;
use super::{Rule, Site, refusal, rest_none, spread, sum, zeros_like};
use crate::error::Result;
use crate::ir::{Builder, CompareOp, ReduceOp, ValueId, inverse_permutation};

/// Returns the rule of a reduction over `axes`.
pub(super) fn rule(op: ReduceOp, axes: &[usize]) -> Rule<'_> {
    Box::new(move |b, s| {
        let dx = match op {
            // dx = spread(g)
            ReduceOp::Sum => {
                let shape = b.shape(s.x(0));
                spread(b, s.g(), &shape, axes)
            }
            ReduceOp::Prod => prod(b, s, axes)?,
            ReduceOp::Max | ReduceOp::Min => extreme(b, s, axes),
        };
        Ok(rest_none(s, [Some(dx)]))
    })
}

/// Appends dx = spread(g / n) where x = y, with n the number of such elements, and 0 elsewhere. If y is NaN,
/// dx is 0 everywhere.
fn extreme(b: &mut Builder<'_>, s: &Site<'_>, axes: &[usize]) -> ValueId {
    let x = s.x(0);
    let shape = b.shape(x);
    let best = spread(b, s.y(), &shape, axes);
    let ties = b.compare(CompareOp::Eq, x, best);
    let (ones, zeros) = (b.splat_like(x, 1.0), zeros_like(b, x));
    let counted = b.select(ties, ones, zeros);
    let count = sum(b, counted, axes);
    let share = b.div(s.g(), count);
    let share = spread(b, share, &shape, axes);
    b.select(ties, share, zeros)
}

/// Appends dx_i = g · (product of the elements before x_i) · (product of the elements after x_i). Without
/// divisions and selections, this and its derivatives are also valid at zeros.
fn prod(b: &mut Builder<'_>, s: &Site<'_>, axes: &[usize]) -> Result<ValueId> {
    let x = s.x(0);
    let shape = b.shape(x);
    if shape.elements() == 0 {
        return Ok(zeros_like(b, x));
    }
    let factors: usize = axes.iter().map(|&axis| shape[axis]).product();
    if i32::try_from(factors).is_err() {
        let message = format!("a product of {factors} elements has too many to be differentiated");
        return Err(refusal(b.graph, s.op, &message, "multiply over one axis at a time"));
    }
    // Convert x to rows over the reduced axes.
    let (mut order, reduced): (Vec<usize>, Vec<usize>) =
        (0..shape.rank()).partition(|axis| !axes.contains(axis));
    let extents = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).collect::<Vec<_>>();
    let flat = [extents(&order), vec![factors]].concat();
    order.extend(reduced);
    let rows = b.permute(x, &order);
    let rows = b.reshape(rows, flat);
    let (before, behind) = (others(b, rows, false), others(b, rows, true));
    let others = b.mul(before, behind);
    let others = b.reshape(others, extents(&order));
    let others = b.permute(others, &inverse_permutation(&order));
    let g = spread(b, s.g(), &shape, axes);
    Ok(b.mul(g, others))
}
