//! Attention with projections, and the block of a transformer.

use super::{Dropout, LayerNorm, Linear};
use crate::nn::{Module, Visitor};
use crate::trace::{AttentionOptions, Tensor, within};

/// Multi-head attention with a projection each for queries, keys, values and the output. Vaswani et al.,
/// 2017.
#[derive(Clone, Debug)]
pub struct MultiHeadAttention {
    /// `[width, width]`.
    pub query: Linear,
    /// `[context width, key heads · depth]`.
    pub key: Linear,
    /// `[context width, key heads · depth]`.
    pub value: Linear,
    /// `[width, width]`.
    pub output: Linear,
    heads: usize,
    key_heads: usize,
    dropout: f64,
}

impl MultiHeadAttention {
    /// Creates a layer with as many heads of keys and values as of queries, over a context of the queries'
    /// width.
    ///
    /// # Panics
    /// When `width` is not a multiple of `heads`.
    #[track_caller]
    pub fn new(width: usize, heads: usize) -> Self {
        Self::with_context(width, heads, width, heads)
    }

    /// Creates a layer with fewer heads of keys and values, each of which several heads of queries share,
    /// over a context of another width.
    ///
    /// # Panics
    /// When `width` is not a multiple of `heads`, or `heads` not of `key_heads`.
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

    /// Returns the layer with dropout of probabilities in training: see [`AttentionOptions::dropout`].
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }

    /// Applies attention of `x` over itself: `[batch, time, width]`, of the same shape.
    #[track_caller]
    pub fn forward(&self, x: Tensor, options: AttentionOptions) -> Tensor {
        self.over(x, x, options)
    }

    /// Applies attention of `x` `[batch, time, width]` over a context `[batch, length, context width]`: of
    /// the shape of `x`.
    #[track_caller]
    pub fn over(&self, x: Tensor, context: Tensor, options: AttentionOptions) -> Tensor {
        let q = self.query.forward(x).split_heads(self.heads);
        let k = self.key.forward(context).split_heads(self.key_heads);
        let v = self.value.forward(context).split_heads(self.key_heads);
        let options = if self.dropout == 0.0 { options } else { options.dropout(self.dropout) };
        self.output.forward(q.attention(k, v, options).merge_heads())
    }
}

impl Module for MultiHeadAttention {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("query", &self.query);
        visitor.field("key", &self.key);
        visitor.field("value", &self.value);
        visitor.field("output", &self.output);
    }
}

/// A block of a transformer: attention, and two linear layers with GELU between them, each after a layer
/// normalisation and added to what it is made of: `x + attention(norm(x))`, `x + mlp(norm(x))`. Xiong et al.,
/// 2020.
#[derive(Clone, Debug)]
pub struct TransformerBlock {
    /// Normalisation before attention.
    pub norm1: LayerNorm,
    /// Attention over the block's own positions.
    pub attention: MultiHeadAttention,
    /// Normalisation before the linear layers.
    pub norm2: LayerNorm,
    /// `[width, hidden]`.
    pub linear1: Linear,
    /// `[hidden, width]`.
    pub linear2: Linear,
    dropout: Dropout,
    causal: bool,
    norm_last: bool,
}

impl TransformerBlock {
    /// Creates a block with a hidden width of four times the width, in which every position sees all
    /// others.
    ///
    /// # Panics
    /// When `width` is not a multiple of `heads`.
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

    /// Returns the block in which a position sees itself and those before it.
    #[must_use]
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self
    }

    /// Returns the block with dropout, in training, of attention's probabilities, of the hidden layer, and
    /// of what is added.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = Dropout::new(p);
        self.attention = self.attention.dropout(p);
        self
    }

    /// Returns the block with normalisations behind the additions, as Vaswani et al. had them.
    #[must_use]
    pub fn norm_last(mut self) -> Self {
        self.norm_last = true;
        self
    }

    /// Applies the block: `[batch, time, width]`, of the same shape.
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

impl Module for TransformerBlock {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("norm1", &self.norm1);
        visitor.field("attention", &self.attention);
        visitor.field("norm2", &self.norm2);
        visitor.field("linear1", &self.linear1);
        visitor.field("linear2", &self.linear2);
    }
}
