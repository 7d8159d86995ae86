//! Reductions.

use super::{BinaryOp, table};
use crate::ir::{DType, Number};

/// Properties of a reduction.
struct Properties {
    name: &'static str,
    /// The function that combines two elements, or two partial results.
    combiner: BinaryOp,
    /// Result of a reduction of no elements.
    identity: fn(DType) -> Number,
    /// True if long reductions may be split among threads, so that the order of the elements depends on the
    /// number of threads.
    splits: bool,
}

impl Properties {
    const DEFAULT: Properties = Properties {
        name: "",
        combiner: BinaryOp::Add,
        identity: |dtype| Number::of(dtype, 0.0),
        splits: true,
    };
}

table! {
    /// Reductions over axes of numbers. A NaN anywhere gives NaN.
    pub enum ReduceOp: Properties {
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
    /// Returns the function that combines two elements, or two partial results.
    pub fn combiner(self) -> BinaryOp {
        self.row().combiner
    }

    /// Returns the result of a reduction of no elements.
    pub fn identity(self, dtype: DType) -> Number {
        (self.row().identity)(dtype)
    }

    /// Returns whether long reductions may be split among threads.
    pub fn splits(self) -> bool {
        self.row().splits
    }
}
