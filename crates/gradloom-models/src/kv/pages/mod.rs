//! Paged keys and values: assignment of tokens to blocks of the device's pools.
//!
//! In: the tokens of texts that grow, fork, shrink and end. Out: tables of blocks, and blocks that must be
//! copied first. This module accesses no tensors: [`PagedKeyValues`](super::PagedKeyValues) attends over the
//! pools by these tables, writes to them, and copies blocks.
//!
//! A text is divided into blocks of `block_size` tokens. Texts share the blocks of common prefixes (Kwon et
//! al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", SOSP 2023). After
//! a text has ended, its full blocks remain in a tree of prefixes until their memory is needed (Zheng et al.,
//! "SGLang: Efficient Execution of Structured Language Model Programs", NeurIPS 2024).
//!
//! A step computes a chunk of a prompt or one token in each row of a batch:
//!
//! 1. Call [`Pages::reserve`] for each row. Run the copies that it returns in order, or in parallel after
//!    [`BlockCopy::at_once`].
//! 2. Lay out the tables with [`Pages::batch`], and run the step.
//! 3. Call [`Pages::commit`] for each row once the step has succeeded. After a failed step, release the space
//!    with [`Pages::truncate`].
//!
//! Invariants, which hold even after a failed operation:
//!
//! - `free + cached + used = capacity`. A block is *used* if the table of a sequence lists it, *cached* if
//!   only the tree does, and otherwise *free*. Block 0, which pads tables, is none of the three.
//! - An operation that returned an error has had no effect.
//! - No two sequences may write to the same position, and none may write to a position that another one, or
//!   the tree, reads.
//! - A block is evicted only if no sequence uses it. The least recently used one is evicted first, and only
//!   after all blocks that continue its text.

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
