//! Attention, kept whole: targets run it without a matrix of all scores.

use super::Tensor;
use super::tensor::{emit_all, fail, placeholder};
use crate::ir::{AttentionSpec, DType, OpKind};

/// What [`Tensor::attention`] can vary.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions {
    causal: bool,
    scale: Option<f64>,
    query_offset: Option<Tensor>,
    key_length: Option<Tensor>,
    block_table: Option<Tensor>,
}

impl AttentionOptions {
    /// Every query sees every key.
    pub fn full() -> Self {
        Self::default()
    }

    /// A query sees the keys at and before its own position.
    pub fn causal() -> Self {
        Self { causal: true, ..Self::default() }
    }

    /// Factor on the scores; `1 / sqrt(depth)` if not given.
    pub fn scale(mut self, scale: f64) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Position of the first query among the keys (i32 scalar): generation with cached keys.
    pub fn query_offset(mut self, offset: Tensor) -> Self {
        self.query_offset = Some(offset);
        self
    }

    /// Number of keys that are there (i32 scalar), at most the keys' extent.
    pub fn key_length(mut self, length: Tensor) -> Self {
        self.key_length = Some(length);
        self
    }

    /// Keys and values lie in a pool of blocks; row b lists the blocks of sequence b (i32 `[batch, blocks]`).
    pub fn block_table(mut self, table: Tensor) -> Self {
        self.block_table = Some(table);
        self
    }
}

impl Tensor {
    /// softmax(scale · q kᵀ) v: `self` is q `[batch, heads, queries, depth]`, k and v are
    /// `[batch, kv_heads, keys, depth]`; gives `[batch, heads, queries, value depth]`. Query head h reads key
    /// head `h / (heads / kv_heads)`. A query that sees no key gives 0. See [`AttentionSpec`].
    #[track_caller]
    pub fn attention(self, keys: Tensor, values: Tensor, options: AttentionOptions) -> Tensor {
        self.attention_with_log_sum(keys, values, options).0
    }

    /// [`attention`](Tensor::attention), and the logarithm of each query's sum of exponentials of scaled
    /// scores, `[batch, heads, queries]`: with it, attentions over parts of the keys can be put together. A
    /// query that sees no key has `-inf`. No gradient flows through the logarithm: a loss that depends on it
    /// is an error.
    #[track_caller]
    pub fn attention_with_log_sum(
        self,
        keys: Tensor,
        values: Tensor,
        options: AttentionOptions,
    ) -> (Tensor, Tensor) {
        let shape = self.shape();
        if shape.rank() != 4 {
            fail(
                "attention",
                format!("`attention`: q is {shape}"),
                Some("q, k and v are [batch, heads, length, depth]".into()),
            );
            return (placeholder(DType::F32, shape.clone()), placeholder(DType::F32, shape));
        }
        let spec = AttentionSpec {
            causal: options.causal,
            scale: options.scale.unwrap_or(1.0 / (shape[3] as f64).sqrt()),
            query_offset: options.query_offset.is_some(),
            key_length: options.key_length.is_some(),
            block_table: options.block_table.is_some(),
        };
        let extra = [options.query_offset, options.key_length, options.block_table].into_iter().flatten();
        let operands: Vec<Tensor> = [self, keys, values].into_iter().chain(extra).collect();
        let results = emit_all(OpKind::Attention(spec), &operands, "attention", 2);
        (results[0], results[1])
    }
}
