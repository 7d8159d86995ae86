//! Interface of language models for generation and evaluation, whatever the architecture.
//!
//! In: tokens, their positions, and a way to attend. Out: hidden states and logits. Always holds: attention
//! is the only place where positions meet, so that caches, pages and plain training are ways to attend over
//! one model and share its parameters.

use gradloom_core::ir::DType;
use gradloom_core::nn::Module;
use gradloom_core::trace::{AttentionOptions, Tensor, iota};

/// The sizes that a memory of keys and values, or a batch of tokens, must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Number of different tokens.
    pub vocabulary: usize,
    /// Number of positions: the longest text that the model can read.
    pub context: usize,
    /// Number of blocks, each of which attends once.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and of values; a divisor of the heads of queries.
    pub key_heads: usize,
    /// Length of a query, key or value.
    pub depth: usize,
}

/// Attention of a block: a function of the block's number, its queries `[batch, heads, time, depth]`, and
/// keys and values `[batch, key_heads, time, depth]`; the result has the shape of the queries.
pub type Attend<'a> = dyn FnMut(usize, [Tensor; 3]) -> Tensor + 'a;

/// A decoder-only transformer: each position sees those before it, and tells the token after it.
pub trait LanguageModel: Module {
    /// Returns the sizes of the model.
    fn sizes(&self) -> Sizes;

    /// Returns the normalised output of the last block: i32 ids `[batch, time]`, at positions i32 `[time]`
    /// or `[batch, time]` below the context, give `[batch, time, width]`.
    fn hidden(&self, ids: Tensor, positions: Tensor, attend: &mut Attend<'_>) -> Tensor;

    /// Returns the logits of the next token: `[.., width]` gives `[.., vocabulary]`.
    fn logits(&self, hidden: Tensor) -> Tensor;

    /// Returns the logits of the token after each position of texts that begin at position 0: i32
    /// `[batch, time]` gives `[batch, time, vocabulary]`, with `time` up to the context.
    #[track_caller]
    fn forward(&self, ids: Tensor) -> Tensor {
        let [_, time] = ids.dims();
        let hidden = self.hidden(ids, iota(DType::I32, [time], 0), &mut causal);
        self.logits(hidden)
    }
}

/// Attends causally over texts that are present as a whole.
pub(crate) fn causal(_: usize, [q, k, v]: [Tensor; 3]) -> Tensor {
    q.attention(k, v, AttentionOptions::causal())
}
