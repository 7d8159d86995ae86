//! Reductions.

use super::{BinaryOp, table};
use crate::ir::{DType, Number};

/// What the compiler knows of a reduction.
struct Row {
    name: &'static str,
    /// The function that combines two elements, or two partial results.
    combiner: BinaryOp,
    /// What no elements give.
    identity: fn(DType) -> Number,
    /// Whether long ones may be split among threads, so that the order of the elements depends on their
    /// number.
    splits: bool,
}

impl Row {
    const DEFAULT: Row =
        Row { name: "", combiner: BinaryOp::Add, identity: |dtype| Number::of(dtype, 0.0), splits: true };
}

table! {
    /// Reductions over axes of numbers. A NaN anywhere gives NaN.
    pub enum ReduceOp: Row {
        /// 0 for no elements.
        Sum { name: "sum" }
        /// 1 for no elements.
        Prod {
            name: "prod",
            combiner: BinaryOp::Mul,
            identity: |dtype| Number::of(dtype, 1.0),
            splits: false,
        }
        /// The least value for no elements: `-inf` for floats.
        Max { name: "reduce_max", combiner: BinaryOp::Max, identity: |dtype| dtype.range().0 }
        /// The greatest value for no elements: `inf` for floats.
        Min { name: "reduce_min", combiner: BinaryOp::Min, identity: |dtype| dtype.range().1 }
    }
}

impl ReduceOp {
    /// The function that combines two elements, or two partial results.
    pub fn combiner(self) -> BinaryOp {
        self.row().combiner
    }

    /// What a reduction of no elements gives.
    pub fn identity(self, dtype: DType) -> Number {
        (self.row().identity)(dtype)
    }

    /// Whether long ones may be split among threads.
    pub fn splits(self) -> bool {
        self.row().splits
    }
}
