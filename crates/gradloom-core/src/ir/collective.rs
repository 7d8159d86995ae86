//! Ops over the values of all ranks of a world.

use super::{DType, Type, TypeError, named};

named! {
    /// Combines the operands of all ranks. A rank is one of the processes that run the same graph.
    ///
    /// Each operand is combined on its own; an op has several so that a device can move them together. Each
    /// rank gets the result for its own number. The names are those of MPI.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum CollectiveOp {
        /// x -> the sum over the ranks.
        AllReduce = "all_reduce",
        /// As `AllReduce`, but no rank commits a step in which an op before it, in the order of the graph,
        /// has trapped on any rank: there is no result, or the first element of the first result is NaN. That
        /// element must have a guard.
        CheckedAllReduce = "checked_all_reduce",
        /// x `[ranks * n, ..]` -> slice `rank` of the sum over the ranks, `[n, ..]`.
        ReduceScatter = "reduce_scatter",
        /// x `[n, ..]` -> the operands of all ranks, concatenated along axis 0 in the order of the ranks.
        AllGather = "all_gather",
    }
}

impl CollectiveOp {
    /// Returns the op with this name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Returns `true` if a result has the type of its operand.
    pub fn keeps_types(self) -> bool {
        matches!(self, Self::AllReduce | Self::CheckedAllReduce)
    }

    /// Returns the op that computes the gradient of this one, for a loss that is the sum of the losses of all
    /// ranks.
    pub fn transposed(self) -> Self {
        match self {
            Self::AllReduce | Self::CheckedAllReduce => Self::AllReduce,
            Self::ReduceScatter => Self::AllGather,
            Self::AllGather => Self::ReduceScatter,
        }
    }

    /// Returns the type of the result for one operand.
    ///
    /// # Errors
    /// Returns an error if the operand is not f32, if there are no ranks, or if the first axis does not have
    /// the required extent.
    pub(super) fn result(self, ranks: usize, operand: &Type) -> Result<Type, TypeError> {
        let name = self.name();
        if ranks == 0 {
            return Err(TypeError::new(format!("{name} over 0 ranks")));
        }
        if operand.dtype != DType::F32 {
            let message = format!("{name} takes f32 elements, not {operand}");
            return Err(TypeError::new(message).help("convert with .cast(DType::F32)"));
        }
        if self.keeps_types() {
            return Ok(operand.clone());
        }
        let mut shape = operand.shape.to_vec();
        let Some(first) = shape.first_mut() else {
            return Err(TypeError::new(format!("{name} takes tensors with an axis, not {operand}")));
        };
        *first = match self {
            Self::AllGather => first.checked_mul(ranks).ok_or_else(|| {
                TypeError::new(format!("{name} of {operand} over {ranks} ranks has too many elements"))
            })?,
            _ if first.is_multiple_of(ranks) => *first / ranks,
            _ => {
                let message = format!(
                    "{name} over {ranks} ranks: axis 0 of {operand} does not divide into {ranks} parts"
                );
                return Err(TypeError::new(message).help("pad the axis to a multiple of the number of ranks"));
            }
        };
        Ok(Type::new(operand.dtype, shape))
    }
}
