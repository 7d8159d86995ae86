//! Reductions.

use super::{BinaryOp, table};
use crate::ir::{DType, Number};

struct Properties {
    name: &'static str,
    /// Function that combines two elements or two partial results.
    combiner: BinaryOp,
    /// Result of a reduction over no elements.
    identity: fn(DType) -> Number,
    /// True if a long reduction may be split among threads, so that the order of combination depends on the
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
    /// Reductions over axes of numeric tensors. The result is NaN if any element is NaN.
    pub enum ReduceOp: Properties {
        /// Returns 0 for no elements.
        Sum { name: "sum" }
        /// Returns 1 for no elements.
        Prod {
            name: "prod",
            combiner: BinaryOp::Mul,
            identity: |dtype| Number::of(dtype, 1.0),
            splits: false,
        }
        /// Returns the least value of the dtype for no elements: `-inf` for floats.
        Max { name: "reduce_max", combiner: BinaryOp::Max, identity: |dtype| dtype.range().0 }
        /// Returns the greatest value of the dtype for no elements: `inf` for floats.
        Min { name: "reduce_min", combiner: BinaryOp::Min, identity: |dtype| dtype.range().1 }
    }
}

impl ReduceOp {
    /// Returns the function that combines two elements or two partial results.
    pub fn combiner(self) -> BinaryOp {
        self.row().combiner
    }

    /// Returns the result of a reduction over no elements.
    pub fn identity(self, dtype: DType) -> Number {
        (self.row().identity)(dtype)
    }

    /// Returns `true` if a long reduction may be split among threads.
    pub fn splits(self) -> bool {
        self.row().splits
    }
}
