//! Splitting of rows into attention heads, and merging of heads into rows.

use super::tensor::{placeholder, refused};
use super::{AttentionOptions, Tensor, op};
use crate::ir::{DType, Shape};

impl Tensor {
    /// Splits `[.., time, width]` into `[.., heads, time, width / heads]`; each head has adjacent columns.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).split_heads(2)), [1.0, 3.0, 2.0, 4.0]);
    /// ```
    #[op]
    pub fn split_heads(self, heads: usize) -> Tensor {
        let shape = self.shape();
        let [lead @ .., time, width] = &shape[..] else {
            let help = "it takes [.., time, width]";
            return refused("split_heads", format!("`split_heads` of {shape}"), help, self);
        };
        if heads == 0 || !width.is_multiple_of(heads) {
            let message =
                format!("`split_heads`: the last axis of {shape} does not divide into {heads} heads");
            return refused("split_heads", message, "the width must be a multiple of the heads", self);
        }
        self.reshape([lead, &[*time, heads, width / heads]].concat()).transpose(-2, -3)
    }

    /// Merges `[.., heads, time, depth]` into `[.., time, heads · depth]`, the inverse of
    /// [`Tensor::split_heads`].
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]).split_heads(2).merge_heads());
    /// assert_eq!(y, [1.0, 2.0, 3.0, 4.0]);
    /// ```
    #[op]
    pub fn merge_heads(self) -> Tensor {
        let shape = self.shape();
        let [lead @ .., heads, time, depth] = &shape[..] else {
            let help = "it takes [.., heads, time, depth]";
            return refused("merge_heads", format!("`merge_heads` of {shape}"), help, self);
        };
        self.transpose(-2, -3).reshape([lead, &[*time, heads.saturating_mul(*depth)]].concat())
    }

    /// Computes multi-head self-attention: `[batch, time, 3 · width]` becomes `[batch, time, width]`. Each
    /// row holds the queries of all heads, then the keys, then the values. See [`Tensor::attention`].
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| full(DType::F32, [1, 2, 3], 3.0).self_attention(1, AttentionOptions::full()));
    /// assert_eq!(y, [3.0, 3.0]);
    /// ```
    #[doc(alias = "MultiheadAttention")]
    #[op]
    pub fn self_attention(self, heads: usize, options: AttentionOptions) -> Tensor {
        let [q, k, v] = self.heads_of_three(heads, "self_attention");
        q.attention(k, v, options).merge_heads()
    }

    /// Splits `[batch, time, 3 · heads · depth]` into queries, keys and values `[batch, heads, time, depth]`.
    #[track_caller]
    pub(crate) fn heads_of_three(self, heads: usize, token: &str) -> [Tensor; 3] {
        let shape = self.shape();
        if shape.rank() != 3 || heads == 0 || !shape[2].is_multiple_of(heads.saturating_mul(3)) {
            let message = format!("`{token}` of {shape} with {heads} heads");
            let help = "it takes [batch, time, 3 width], with a width that is a multiple of the heads";
            return refused(token, message, help, [placeholder(DType::F32, Shape::from([1; 4])); 3]);
        }
        let width = shape[2] / 3;
        let mut parts = [self; 3];
        for (i, part) in parts.iter_mut().enumerate() {
            *part = self.slice(-1, i * width..(i + 1) * width).split_heads(heads);
        }
        parts
    }
}
