//! Draws ops on whole rows.

use super::{Instance, any_shape, signed};
use crate::random::Random;
use gradloom_core::ir::{DType, OpKind, ReduceOp, Type};

/// Draws a shape with a non-empty last axis.
fn shape(r: &mut Random) -> Vec<usize> {
    [any_shape(r), vec![1 + r.below(5)]].concat()
}

/// Draws a cumulative reduction. Operands of sums and products are away from 0, and occasionally 0; operands
/// of maxima and minima are distinct.
pub(super) fn cumulate(r: &mut Random, op: ReduceOp) -> Instance {
    let ty = Type::new(DType::F32, shape(r));
    let order = r.order(ty.elements());
    let values = order.into_iter().map(|rank| match op {
        ReduceOp::Sum | ReduceOp::Prod => {
            if r.below(9) == 0 {
                0.0
            } else {
                signed(r)
            }
        }
        ReduceOp::Max | ReduceOp::Min => rank as f64 * 0.1,
    });
    let operands = vec![(ty.clone(), values.collect())];
    Instance { kind: OpKind::Cumulate { op, reverse: r.below(2) == 0 }, operands }
}

/// Draws a sort of distinct numbers.
pub(super) fn sort(r: &mut Random) -> Instance {
    let ty = Type::new(DType::F32, shape(r));
    let count = r.below(ty.shape[ty.shape.rank() - 1] + 1);
    let values = r.order(ty.elements()).into_iter().map(|rank| rank as f64 * 0.1).collect();
    Instance { kind: OpKind::Sort { count, descending: r.below(2) == 0 }, operands: vec![(ty, values)] }
}
