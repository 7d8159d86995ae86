//! Copies of whole blocks, which let a sequence write where it has shared before.

use super::BlockId;
use std::collections::BTreeMap;

/// Keys and values of all layers that must be copied from block to block, before anything else is written to
/// the pools.
///
/// Copies run in the order in which [`Pages::reserve`](super::Pages::reserve) returned them: a later one may
/// read what an earlier one wrote, or write to a block that an earlier one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCopy {
    /// The block that is read.
    pub from: BlockId,
    /// The block that is written.
    pub to: BlockId,
}

impl BlockCopy {
    /// Copies that have the effect of `copies` when all are read before the first is written, as a gather
    /// and a scatter do. Each block is written at most once; the order is by that block.
    pub fn at_once(copies: &[Self]) -> Vec<Self> {
        // For each block that was written, the block that had the content at first.
        let mut sources = BTreeMap::new();
        for copy in copies {
            let source = *sources.get(&copy.from).unwrap_or(&copy.from);
            sources.insert(copy.to, source);
        }
        sources.into_iter().filter(|(to, from)| to != from).map(|(to, from)| Self { from, to }).collect()
    }
}
