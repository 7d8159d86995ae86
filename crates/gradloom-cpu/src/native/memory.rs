//! Executable memory.
//!
//! In: a routine. Out: its machine code at an address that is valid for as long as the value lives. Always
//! holds: memory is writable, then executable, never both; no value is created if the system refuses
//! executable memory.

use gradloom_codegen::cpu::machine::{Routine, assemble};
use memmap2::{Mmap, MmapMut};

/// Callable machine code.
#[derive(Debug)]
pub(super) struct Executable(Mmap);

impl Executable {
    /// Returns a routine's code and the size in bytes of the frame that it requires. Returns `None` if the
    /// routine needs more mask registers than exist, or if the system refuses executable memory.
    pub(super) fn new(routine: &Routine) -> Option<(Self, usize)> {
        match assemble(routine)? {
            Ok((code, frame_bytes)) => Some((Self::of(&code)?, frame_bytes)),
            // The checks found a bug in this compiler, so the code is not run.
            Err(what) => {
                debug_assert!(false, "machine code that is wrong: {what}\n{routine:?}");
                None
            }
        }
    }

    /// Maps a copy of the code, or returns `None` if the system does not allow it.
    fn of(code: &[u8]) -> Option<Self> {
        let mut writable = MmapMut::map_anon(code.len().max(1)).ok()?;
        writable[..code.len()].copy_from_slice(code);
        Some(Self(writable.make_exec().ok()?))
    }

    /// Calls the code.
    ///
    /// # Safety
    /// Same as [`super::Compiled::run`].
    #[inline]
    pub(super) unsafe fn call(&self, frame: *mut u8) {
        // SAFETY: the mapping contains a function of this type, which lives as long as `self`.
        unsafe {
            let code: unsafe extern "sysv64" fn(*mut u8) = std::mem::transmute(self.0.as_ptr());
            code(frame);
        }
    }
}
