//! Generation with cached keys and values: each token is computed once.
//!
//! In: a session of a language model, tokens as they come. Out: the logits of what follows. Always holds: the
//! logits are those that the model gives for the whole text so far, up to rounding; a step that fails leaves
//! the text as it was. [`pages`] is the bookkeeping for many texts in the blocks of one memory.

mod cache;
mod decoder;
mod paged;
pub mod pages;

pub use cache::TextCache;
pub use decoder::Decoder;
pub use paged::{PagedBatch, PagedKeyValues};
