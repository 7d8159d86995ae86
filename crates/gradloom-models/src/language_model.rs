//! Interface of language models for generation and evaluation, independent of their architecture.
//!
//! In: tokens, their positions, and an attention function. Out: hidden states and logits. Invariant:
//! positions interact only through attention, so plain training and caches, paged or not, differ only in the
//! attention function, and share the model and its parameters.

use gradloom_core::ir::DType;
use gradloom_core::nn::Module;
use gradloom_core::trace::{AttentionOptions, Tensor, iota};

/// Sizes of a model that determine the shapes of its caches and batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Size of the vocabulary.
    pub vocabulary: usize,
    /// Context length: the maximum number of tokens that the model can read.
    pub context: usize,
    /// Number of layers, each of which attends once.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key heads and of value heads; must divide the number of query heads.
    pub key_heads: usize,
    /// Width of a query, key or value.
    pub depth: usize,
    /// Number of positions that a query attends to, its own included; `None` if it attends to all before it.
    pub window: Option<usize>,
}

/// Attention function of a model: takes the layer's index, its queries `[batch, heads, time, depth]`, and its
/// keys and values `[batch, key_heads, time, depth]`. The result has the shape of the queries.
pub type Attend<'a> = dyn FnMut(usize, [Tensor; 3]) -> Tensor + 'a;

/// A decoder-only transformer: each position attends to itself and those before it, and predicts the next
/// token.
pub trait LanguageModel: Module {
    /// Returns the sizes of the model.
    fn sizes(&self) -> Sizes;

    /// Returns the normalized output of the last layer, `[batch, time, width]`, for i32 ids `[batch, time]`
    /// at i32 positions `[time]` or `[batch, time]`, which are below the context length.
    fn hidden(&self, ids: Tensor, positions: Tensor, attend: &mut Attend<'_>) -> Tensor;

    /// Returns the logits of the next token, `[.., vocabulary]`, for hidden states `[.., width]`.
    fn logits(&self, hidden: Tensor) -> Tensor;

    /// Returns the logits of the token after each position, `[batch, time, vocabulary]`, for i32 ids
    /// `[batch, time]` of texts that begin at position 0. `time` is at most the context length.
    #[track_caller]
    fn forward(&self, ids: Tensor) -> Tensor {
        let [_, time] = ids.dims();
        let hidden = self.hidden(ids, iota(DType::I32, [time], 0), &mut causal(self.sizes().window, 0.0));
        self.logits(hidden)
    }
}

/// Returns the causal attention function of texts without a cache, with a window if there is one, and with
/// dropout of the attention weights in training.
pub(crate) fn causal(window: Option<usize>, dropout: f64) -> impl FnMut(usize, [Tensor; 3]) -> Tensor {
    let options = AttentionOptions::causal().dropout(dropout);
    let options = window.map_or(options, |window| options.window(window));
    move |_, [q, k, v]| q.attention(k, v, options)
}
