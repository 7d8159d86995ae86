//! Keys and values of many texts in the blocks of one memory, so that each token is computed once.
//!
//! In: new tokens of some texts, and the blocks that each has. Out: hidden states of the new tokens. Always
//! holds: they are those that the model gives for the whole texts, up to rounding; a step that fails writes
//! nothing. [`pages`] is the bookkeeping: which block is whose.

mod paged;
pub mod pages;

pub use paged::{PagedBatch, PagedKeyValues};
