//! The memory of a store, as seen by backends.

use crate::memory::{Memory, counted};
use std::sync::Arc;

/// The memory of a store, in segments of one allocation each. Addresses in it never change.
#[derive(Clone, Debug, Default)]
pub struct StoreMemory {
    /// Segments, each with the offset of its first byte in the store, in ascending order.
    segments: Vec<(u64, Arc<Memory>)>,
}

impl StoreMemory {
    /// Creates the memory from segments, each with the offset of its first byte in the store, in ascending
    /// order.
    pub fn new(segments: impl IntoIterator<Item = (u64, Arc<Memory>)>) -> Self {
        Self { segments: segments.into_iter().collect() }
    }

    /// Returns the segment that contains the byte at `offset`, and the byte's offset in the segment; `None`
    /// if the store has no memory.
    pub fn place(&self, offset: u64) -> Option<(Arc<Memory>, usize)> {
        let (start, memory) = self.segments.iter().rev().find(|(start, _)| *start <= offset)?;
        Some((Arc::clone(memory), counted(offset - start)))
    }
}
