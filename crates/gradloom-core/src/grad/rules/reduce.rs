//! Reductions over axes. `spread` repeats a reduced value along the axes that it lost.

use super::{Rule, Site, rest_none, spread, sum, zeros_like};
use crate::ir::{Builder, CompareOp, ReduceOp, ValueId};

/// The rule of a reduction over `axes`.
pub(super) fn rule(op: ReduceOp, axes: &[usize]) -> Rule<'_> {
    Box::new(move |b, s| {
        let dx = match op {
            // dx = spread(g)
            ReduceOp::Sum => {
                let shape = b.shape(s.x(0));
                spread(b, s.g(), &shape, axes)
            }
            ReduceOp::Prod => prod(b, s, axes),
            ReduceOp::Max | ReduceOp::Min => extreme(b, s, axes),
        };
        Ok(rest_none(s, [Some(dx)]))
    })
}

/// dx = spread(g / n) where x = y, n being the number of such elements; 0 elsewhere (everywhere, if y is
/// NaN).
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

/// dx_i = g · (product of the other elements), by the number of zeros among them:
///
/// - none: `p / x_i`, with `p` the product of the elements that are not 0;
/// - one: `p` at the zero, and 0 at the others;
/// - several: 0.
fn prod(b: &mut Builder<'_>, s: &Site<'_>, axes: &[usize]) -> ValueId {
    let x = s.x(0);
    let shape = b.shape(x);
    let (ones, zeros) = (b.splat_like(x, 1.0), zeros_like(b, x));
    let is_zero = b.compare(CompareOp::Eq, x, zeros);
    let nonzero = b.select(is_zero, ones, x);
    let product = b.reduce(ReduceOp::Prod, nonzero, axes);
    let counted = b.select(is_zero, ones, zeros);
    let count = sum(b, counted, axes);

    let product = b.mul(s.g(), product);
    let no_product = zeros_like(b, product);
    let one = b.splat_like(count, 1.0);
    let no_zero = b.compare(CompareOp::Lt, count, one);
    let one_zero = b.compare(CompareOp::Eq, count, one);
    let at_numbers = b.select(no_zero, product, no_product);
    let at_zeros = b.select(one_zero, product, no_product);

    let at_numbers = spread(b, at_numbers, &shape, axes);
    let at_numbers = b.div(at_numbers, nonzero);
    let at_zeros = spread(b, at_zeros, &shape, axes);
    b.select(is_zero, at_zeros, at_numbers)
}
