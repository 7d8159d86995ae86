//! Multi-head attention with projections, and transformer blocks.

use super::{Dropout, LayerNorm, Linear};
use crate::nn::Module;
use crate::trace::{AttentionOptions, Tensor, within};

/// Multi-head attention with separate projections for queries, keys, values and the output. Vaswani et
/// al., 2017.
#[derive(Clone, Debug, Module)]
pub struct MultiHeadAttention {
    /// Projection of the queries, `[width, width]`.
    pub query: Linear,
    /// Projection of the keys, `[context width, key heads · depth]`.
    pub key: Linear,
    /// Projection of the values, `[context width, key heads · depth]`.
    pub value: Linear,
    /// Projection of the output, `[width, width]`.
    pub output: Linear,
    heads: usize,
    key_heads: usize,
    dropout: f64,
}

impl MultiHeadAttention {
    /// Creates a layer with equal numbers of query and key heads, over a context whose width is that of the
    /// queries.
    ///
    /// # Panics
    /// Panics if `heads` is 0 or `width` is not a multiple of `heads`.
    #[track_caller]
    pub fn new(width: usize, heads: usize) -> Self {
        Self::with_context(width, heads, width, heads)
    }

    /// Creates a layer with `key_heads` heads of keys and values, each of which is shared by
    /// `heads / key_heads` query heads, over a context of width `context`.
    ///
    /// # Panics
    /// Panics if `heads` or `key_heads` is 0, `width` is not a multiple of `heads`, or `heads` is not a
    /// multiple of `key_heads`.
    #[track_caller]
    pub fn with_context(width: usize, heads: usize, context: usize, key_heads: usize) -> Self {
        assert!(
            heads > 0 && width.is_multiple_of(heads),
            "attention of width {width} does not divide into {heads} heads"
        );
        assert!(
            key_heads > 0 && heads.is_multiple_of(key_heads),
            "{heads} heads of queries do not share {key_heads} heads of keys evenly"
        );
        let key_width = width / heads * key_heads;
        Self {
            query: Linear::new(width, width),
            key: Linear::new(context, key_width),
            value: Linear::new(context, key_width),
            output: Linear::new(width, width),
            heads,
            key_heads,
            dropout: 0.0,
        }
    }

    /// Returns the layer with dropout of attention weights in training. See [`AttentionOptions::dropout`].
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }

    /// Applies self-attention to `x` `[batch, time, width]`; the result has the same shape.
    #[track_caller]
    pub fn forward(&self, x: Tensor, options: AttentionOptions) -> Tensor {
        self.over(x, x, options)
    }

    /// Applies attention of `x` `[batch, time, width]` over a context `[batch, length, context width]`; the
    /// result has the shape of `x`.
    #[track_caller]
    pub fn over(&self, x: Tensor, context: Tensor, options: AttentionOptions) -> Tensor {
        let q = self.query.forward(x).split_heads(self.heads);
        let k = self.key.forward(context).split_heads(self.key_heads);
        let v = self.value.forward(context).split_heads(self.key_heads);
        let options = if self.dropout == 0.0 { options } else { options.dropout(self.dropout) };
        self.output.forward(q.attention(k, v, options).merge_heads())
    }
}

/// A transformer block: self-attention, then two linear layers with GELU between them. Each part is applied
/// to the layer-normalized input, and its result is added to the input: `x + attention(norm(x))`,
/// `x + mlp(norm(x))`. Xiong et al., 2020.
#[derive(Clone, Debug, Module)]
pub struct TransformerBlock {
    /// Normalization before attention.
    pub norm1: LayerNorm,
    /// Self-attention.
    pub attention: MultiHeadAttention,
    /// Normalization before the linear layers.
    pub norm2: LayerNorm,
    /// First linear layer `[width, hidden]`.
    pub linear1: Linear,
    /// Second linear layer `[hidden, width]`.
    pub linear2: Linear,
    dropout: Dropout,
    causal: bool,
    norm_last: bool,
}

impl TransformerBlock {
    /// Creates a block in which the hidden layer is four times as wide as the input, and every position
    /// attends to all positions.
    ///
    /// # Panics
    /// Panics if `heads` is 0 or `width` is not a multiple of `heads`.
    #[track_caller]
    pub fn new(width: usize, heads: usize) -> Self {
        Self {
            norm1: LayerNorm::new(width),
            attention: MultiHeadAttention::new(width, heads),
            norm2: LayerNorm::new(width),
            linear1: Linear::new(width, width.saturating_mul(4)),
            linear2: Linear::new(width.saturating_mul(4), width),
            dropout: Dropout::new(0.0),
            causal: false,
            norm_last: false,
        }
    }

    /// Returns the block with another hidden width.
    #[must_use]
    pub fn hidden(mut self, hidden: usize) -> Self {
        let width = self.linear1.weight.shape()[0];
        (self.linear1, self.linear2) = (Linear::new(width, hidden), Linear::new(hidden, width));
        self
    }

    /// Returns the block with causal attention, in which a position attends only to itself and earlier
    /// positions.
    #[must_use]
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self
    }

    /// Returns the block with dropout in training. It applies to the attention weights, to the hidden layer,
    /// and to the outputs of both parts before they are added.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = Dropout::new(p);
        self.attention = self.attention.dropout(p);
        self
    }

    /// Returns the block with each normalization after the addition, as in Vaswani et al.
    #[must_use]
    pub fn norm_last(mut self) -> Self {
        self.norm_last = true;
        self
    }

    /// Applies the block to `[batch, time, width]`; the result has the same shape.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        let _place = within();
        let options = if self.causal { AttentionOptions::causal() } else { AttentionOptions::full() };
        let attended = |x: Tensor| self.dropout.forward(self.attention.forward(x, options));
        let hidden = |x: Tensor| self.dropout.forward(self.linear1.forward(x).gelu());
        let computed = |x: Tensor| self.dropout.forward(self.linear2.forward(hidden(x)));
        if self.norm_last {
            let x = self.norm1.forward(x + attended(x));
            return self.norm2.forward(x + computed(x));
        }
        let x = x + attended(self.norm1.forward(x));
        x + computed(self.norm2.forward(x))
    }
}
