//! Copies of whole blocks, by which a sequence gets its own copy of a shared block.

use super::BlockId;
use std::collections::BTreeMap;

/// A copy of a block's keys and values in all layers, to be run before anything else is written to the pools.
///
/// Copies must be run in the order in which [`Pages::reserve`](super::Pages::reserve) returned them, because
/// a later copy may read a block that an earlier one wrote, or overwrite a block that an earlier one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCopy {
    /// Source block.
    pub from: BlockId,
    /// Destination block.
    pub to: BlockId,
}

impl BlockCopy {
    /// Returns copies with the same effect as `copies` that can be run in parallel: all sources are read
    /// before any destination is written, as by a gather and a scatter.
    ///
    /// Destinations are distinct and in ascending order.
    pub fn at_once(copies: &[Self]) -> Vec<Self> {
        // Original source of the contents of each written block.
        let mut sources = BTreeMap::new();
        for copy in copies {
            let source = *sources.get(&copy.from).unwrap_or(&copy.from);
            sources.insert(copy.to, source);
        }
        sources.into_iter().filter(|(to, from)| to != from).map(|(to, from)| Self { from, to }).collect()
    }
}
