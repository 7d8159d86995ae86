//! Generation with cached keys and values: each token is computed once.
//!
//! In: a session of GPT-2, tokens as they come. Out: the logits of what follows. Always holds: the logits are
//! those that the model gives for the whole text so far, up to rounding; a step that fails leaves the text as
//! it was. [`pages`] is the bookkeeping for many texts in the blocks of one memory.

mod cache;
mod decoder;
pub mod pages;

pub use cache::Gpt2Cache;
pub use decoder::Decoder;
