//! The memory of a store, as backends see it.

use crate::memory::{Memory, counted};
use std::sync::Arc;

/// The memory of a store: segments, each of one allocation. An address in it never changes.
#[derive(Clone, Debug, Default)]
pub struct StoreMemory {
    /// Each with the offset of its first byte in the store, ascending.
    segments: Vec<(u64, Arc<Memory>)>,
}

impl StoreMemory {
    /// The memory of these segments, each with the offset of its first byte, ascending.
    pub fn new(segments: impl IntoIterator<Item = (u64, Arc<Memory>)>) -> Self {
        Self { segments: segments.into_iter().collect() }
    }

    /// Returns the memory of the byte at this offset in the store, and the byte's offset in it; `None` in a
    /// store without memory.
    pub fn place(&self, offset: u64) -> Option<(Arc<Memory>, usize)> {
        let (start, memory) = self.segments.iter().rev().find(|(start, _)| *start <= offset)?;
        Some((Arc::clone(memory), counted(offset - start)))
    }
}
