//! The generalized matrix product. The cotangent of an operand is a product of `g` with the other operand.

use super::{Rule, Site, both};
use crate::collections::sort;
use crate::ir::{Builder, DotAxes, ValueId, inverse_permutation};
use std::ops::Range;

/// Returns the rule of a product. With batch axes B, free axes I of the left and J of the right operand, and
/// contracted axes K, the product is `y[B, I, J] = Σ_K l[B, I, K] · r[B, J, K]`, where the axes of the
/// operands are in any order. Therefore, again in any order,
///
/// - `dl[B, I, K] = Σ_J g[B, I, J] · r[B, J, K]`,
/// - `dr[B, J, K] = Σ_I g[B, I, J] · l[B, I, K]`.
pub(super) fn rule(axes: &DotAxes) -> Option<Rule<'_>> {
    both(
        |b, s| {
            let [lhs, rhs] = sides(b, s, axes);
            cotangent(b, s.g(), &lhs, &rhs)
        },
        |b, s| {
            let [lhs, rhs] = sides(b, s, axes);
            cotangent(b, s.g(), &rhs, &lhs)
        },
    )
}

/// An operand of the product and its axes.
struct Side<'a> {
    value: ValueId,
    batch: &'a [usize],
    contract: &'a [usize],
    /// Axes in neither list.
    free: Vec<usize>,
    /// Positions of the free axes in `g`.
    free_in_g: Range<usize>,
}

fn sides<'a>(b: &Builder<'_>, s: &Site<'_>, axes: &'a DotAxes) -> [Side<'a>; 2] {
    let side = |value, batch: &'a [usize], contract: &'a [usize], from: usize| {
        let free = DotAxes::free(b.graph.ty(value).shape.rank(), batch, contract);
        let free_in_g = from..from + free.len();
        Side { value, batch, contract, free, free_in_g }
    };
    let lhs = side(s.x(0), &axes.lhs_batch, &axes.lhs_contract, axes.lhs_batch.len());
    let rhs = side(s.x(1), &axes.rhs_batch, &axes.rhs_contract, lhs.free_in_g.end);
    [lhs, rhs]
}

/// Appends the cotangent of `target`, which is the product of `g` with `other` over the free axes of `other`.
fn cotangent(b: &mut Builder<'_>, g: ValueId, target: &Side<'_>, other: &Side<'_>) -> ValueId {
    let batch_of_g: Vec<_> = (0..target.batch.len()).collect();
    let free_of_other: Vec<_> = other.free_in_g.clone().collect();
    // The product keeps the contracted axes of `other` in ascending order. Each is paired with an axis of
    // `target`.
    let mut pairs: Vec<_> = other.contract.iter().zip(target.contract).collect();
    sort(&mut pairs);
    let contracted: Vec<_> = pairs.into_iter().map(|(_, &axis)| axis).collect();

    // The product of `other` and g returns the axes of `target` in this order. Prefer this product if it
    // needs no permutation.
    let other_first = [target.batch, &contracted, &target.free].concat();
    let (product, order) = if other_first.is_sorted() {
        let axes = DotAxes {
            lhs_batch: other.batch.to_vec(),
            rhs_batch: batch_of_g,
            lhs_contract: other.free.clone(),
            rhs_contract: free_of_other,
        };
        (b.dot(other.value, g, axes), other_first)
    } else {
        let axes = DotAxes {
            lhs_batch: batch_of_g,
            rhs_batch: other.batch.to_vec(),
            lhs_contract: free_of_other,
            rhs_contract: other.free.clone(),
        };
        (b.dot(g, other.value, axes), [target.batch, &target.free, &contracted].concat())
    };
    b.permute(product, &inverse_permutation(&order))
}
