//! Multi-head self-attention.

use super::{Init, Linear, Module};
use crate::trace::{AttentionOptions, Tensor, within};

/// Causal multi-head self-attention as in GPT-2, with one projection to queries, keys and values, and an
/// output projection.
#[derive(Clone, Debug, Module)]
pub struct CausalSelfAttention {
    /// Input projection `[width, 3·width]`, with the columns of the queries, then of the keys, then of the
    /// values. In each of the three, the columns of a head are adjacent.
    pub c_attn: Linear,
    /// Output projection `[width, width]`.
    pub c_proj: Linear,
    heads: usize,
}

impl CausalSelfAttention {
    /// Creates a layer with the given width and number of heads.
    ///
    /// # Panics
    /// Panics if `heads` is 0 or `width` is not a multiple of `heads`.
    #[track_caller]
    pub fn new(width: usize, heads: usize) -> Self {
        assert!(
            heads > 0 && width.is_multiple_of(heads),
            "attention of width {width} does not divide into {heads} heads"
        );
        Self { c_attn: Linear::new(width, width.saturating_mul(3)), c_proj: Linear::new(width, width), heads }
    }

    /// Returns the layer with new initial weights for the input and output projections, and biases of zeros.
    #[must_use]
    pub fn init(self, c_attn: Init, c_proj: Init) -> Self {
        Self { c_attn: self.c_attn.init(c_attn), c_proj: self.c_proj.init(c_proj), heads: self.heads }
    }

    /// Applies the layer: `[batch, time, width] -> [batch, time, width]`.
    #[track_caller]
    pub fn forward(&self, x: Tensor) -> Tensor {
        self.c_proj.forward(self.c_attn.forward(x).self_attention(self.heads, AttentionOptions::causal()))
    }

    /// Applies the layer with a custom attention function, for example over a [`KeyValueCache`]. `attend`
    /// receives queries, keys and values `[batch, heads, time, depth]` and must return a tensor of the
    /// queries' shape.
    ///
    /// [`KeyValueCache`]: super::KeyValueCache
    #[track_caller]
    pub fn forward_by(&self, x: Tensor, attend: impl FnOnce([Tensor; 3]) -> Tensor) -> Tensor {
        let _place = within();
        let parts = self.c_attn.forward(x).heads_of_three(self.heads, "self_attention");
        self.c_proj.forward(attend(parts).merge_heads())
    }
}
