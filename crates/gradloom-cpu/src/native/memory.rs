//! Executable memory.
//!
//! In: machine code. Out: the code at an address that is valid for as long as the value lives. Always
//! holds: memory is writable, then executable, never both; no value is created if the system refuses
//! executable memory.

use memmap2::{Mmap, MmapMut};

/// Callable machine code.
#[derive(Debug)]
pub(super) struct Executable(Mmap);

impl Executable {
    /// Maps a copy of the code, or returns `None` if the system does not allow it.
    pub(super) fn new(code: &[u8]) -> Option<Self> {
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
