//! Executable memory.
//!
//! In: finished machine code. Out: its address, for as long as the value lives. Always holds: memory is
//! writable, then executable, never both; there is none if the system refuses it.

use memmap2::{Mmap, MmapMut};

/// Machine code that can be called.
#[derive(Debug)]
pub(super) struct Executable(Mmap);

impl Executable {
    /// Maps a copy of the code; none if the system does not allow it.
    pub(super) fn new(code: &[u8]) -> Option<Self> {
        let mut writable = MmapMut::map_anon(code.len().max(1)).ok()?;
        writable[..code.len()].copy_from_slice(code);
        Some(Self(writable.make_exec().ok()?))
    }

    /// The first instruction.
    pub(super) fn start(&self) -> *const u8 {
        self.0.as_ptr()
    }
}
