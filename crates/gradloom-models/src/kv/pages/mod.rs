//! Paged keys and values: the assignment of texts' tokens to blocks of the device's pools.
//!
//! In: the tokens of texts that grow, fork, shrink and end. Out: tables of blocks, and the blocks that must
//! be copied first. No tensor is touched here: [`PagedKeyValues`](super::PagedKeyValues) attends over the
//! pools by these tables, writes to them, and copies.
//!
//! A text is cut into blocks of `block_size` tokens. Texts that begin alike share the blocks of what they
//! have in common (Kwon et al., "Efficient Memory Management for Large Language Model Serving with
//! PagedAttention", SOSP 2023), and full blocks outlive their text in a tree of prefixes until their memory
//! is needed (Zheng et al., "SGLang: Efficient Execution of Structured Language Model Programs", NeurIPS
//! 2024).
//!
//! One step of a batch, a chunk of a prompt or one token for each row:
//!
//! 1. [`Pages::reserve`] for each row; the copies it returns are run in their order, or all at once after
//!    [`BlockCopy::at_once`].
//! 2. [`Pages::batch`] lays out the tables; the step runs.
//! 3. [`Pages::commit`] for each row, once the step has succeeded. After a failed one, [`Pages::truncate`]
//!    gives the room back.
//!
//! Always holds, after every operation, failed ones included:
//!
//! - `free + cached + used = capacity`. A block is *used* if the table of a sequence lists it, *cached* if
//!   only the tree does, and otherwise *free*. Block 0, which fills up tables, is none of the three.
//! - An operation that returns an error has changed nothing.
//! - No two sequences may write to one position, and none may write to what another, or the tree, reads.
//! - A block is evicted only if no sequence uses it, the least recently used first, and after every block
//!   that continues its text.

mod batch;
mod blocks;
mod check;
mod copies;
mod error;
mod memory;
mod prefixes;
mod sequence;
#[cfg(test)]
mod tests;

pub use batch::{Batch, BatchShape};
pub use blocks::{BlockId, Counts};
pub use copies::BlockCopy;
pub use error::PagesError;
pub use memory::{Begun, Pages};
pub use sequence::SequenceId;
