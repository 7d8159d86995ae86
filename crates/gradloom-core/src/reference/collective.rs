//! Ops over the values of all ranks, as rank 0 sees them in a world whose ranks all have the same operands.

use super::HostTensor;
use crate::ir::{CollectiveOp, Type};

/// Returns the result of a collective op for one operand.
pub(super) fn combine(op: CollectiveOp, ranks: usize, x: &HostTensor, ty: &Type) -> HostTensor {
    let floats = x.floats();
    let sums = floats.iter().map(|value| value * ranks as f64);
    match op {
        CollectiveOp::AllGather => {
            HostTensor::from_f64(ty.clone(), (0..ranks).flat_map(|_| floats.iter().copied()))
        }
        CollectiveOp::AllReduce | CollectiveOp::CheckedAllReduce | CollectiveOp::ReduceScatter => {
            HostTensor::from_f64(ty.clone(), sums.take(ty.elements()))
        }
    }
}
