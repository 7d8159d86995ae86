//! Executable memory.
//!
//! In: a routine. Out: its machine code at an address, for as long as the value lives. Always holds: memory
//! is writable, then executable, never both; there is none if the system refuses it.

use gradloom_codegen::cpu::machine::{Routine, assemble};
use memmap2::{Mmap, MmapMut};

/// Machine code that can be called.
#[derive(Debug)]
pub(super) struct Executable(Mmap);

impl Executable {
    /// Returns a routine's code, and the bytes of the frame that it wants. None if it needs more mask
    /// registers than there are, or the system allows no machine code.
    pub(super) fn new(routine: &Routine) -> Option<(Self, usize)> {
        match assemble(routine)? {
            Ok((code, frame_bytes)) => Some((Self::of(&code)?, frame_bytes)),
            // A mistake of this compiler: what it made is not run.
            Err(what) => {
                debug_assert!(false, "machine code that is wrong: {what}\n{routine:?}");
                None
            }
        }
    }

    /// Maps a copy of the code; none if the system does not allow it.
    fn of(code: &[u8]) -> Option<Self> {
        let mut writable = MmapMut::map_anon(code.len().max(1)).ok()?;
        writable[..code.len()].copy_from_slice(code);
        Some(Self(writable.make_exec().ok()?))
    }

    /// Calls the code.
    ///
    /// # Safety
    /// As [`super::Compiled::run`].
    #[inline]
    pub(super) unsafe fn call(&self, frame: *mut u8) {
        // SAFETY: the mapping has a function of this type, which lives as long as `self`.
        unsafe {
            let code: unsafe extern "sysv64" fn(*mut u8) = std::mem::transmute(self.0.as_ptr());
            code(frame);
        }
    }
}
