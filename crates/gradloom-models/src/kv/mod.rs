//! Paged cache of keys and values, so that each token of a text is computed only once.
//!
//! In: new tokens of some texts, and the blocks of each text. Out: hidden states of the new tokens.
//! Invariant: up to rounding, the hidden states are those of the model applied to the whole texts; a failed
//! step writes nothing. [`pages`] tracks the owners of the blocks.

mod paged;
pub mod pages;

pub use paged::{PagedBatch, PagedKeyValues};
