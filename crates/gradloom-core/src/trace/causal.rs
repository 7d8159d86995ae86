//! Causal masks over pairs of positions: a query attends to the keys up to and including its own position.

use super::tensor::refused;
use super::{Tensor, iota, op};
use crate::ir::{DType, Shape};

impl Tensor {
    /// Replaces elements by `fill` where the key (last axis) is after the query (second-to-last axis), in
    /// `[.., T, T]`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).where_causal(0.0)), [1.0, 0.0, 3.0, 4.0]);
    /// ```
    #[op]
    pub fn where_causal(self, fill: f64) -> Tensor {
        match self.not_after("where_causal") {
            Some(mask) => mask.select(self, fill),
            None => self,
        }
    }

    /// Computes the softmax over the keys (last axis) that are not after the query (second-to-last axis), in
    /// f32 `[.., T, T]`. The result is 0 for later keys.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// assert_eq!(eval(|| full(DType::F32, [2, 2], 3.0).softmax_causal()), [1.0, 0.0, 0.5, 0.5]);
    /// ```
    #[doc(alias = "causal_softmax")]
    #[op]
    pub fn softmax_causal(self) -> Tensor {
        match self.not_after("softmax_causal") {
            Some(mask) => mask.select(self, f64::NEG_INFINITY).softmax(-1),
            None => self,
        }
    }

    /// Returns a mask `[T, T]` that is true where the column is not after the row; `None` after an error of
    /// the op `token`.
    #[track_caller]
    fn not_after(self, token: &str) -> Option<Tensor> {
        let shape = self.shape();
        match shape[..] {
            [.., queries, keys] if queries == keys => {
                let pairs = Shape::from([queries, keys]);
                Some(iota(DType::I32, pairs.clone(), 0).ge(iota(DType::I32, pairs, 1)))
            }
            _ => {
                let help = "the last two axes are queries and keys, equally many";
                refused(token, format!("`{token}` of {shape}"), help, None)
            }
        }
    }
}
