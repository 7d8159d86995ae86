//! Memory between guard pages, for tests: an access to a byte before or behind it ends the process.
//!
//! Always holds: the memory ends where a page begins that cannot be touched, and starts at a multiple of 64
//! or 256 bytes if its size is one.

use std::ptr::NonNull;

/// Zeroed bytes.
#[derive(Debug)]
pub struct Guarded {
    mapping: NonNull<u8>,
    pages: usize,
    start: NonNull<u8>,
}

// SAFETY: plain bytes, reached through raw pointers whose owners say who may use them.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// Allocates `bytes` bytes; returns `None` if the system has not that many.
    pub fn new(bytes: usize) -> Option<Self> {
        let page = page();
        let inner = bytes.checked_next_multiple_of(page)?;
        let pages = inner.checked_add(2 * page)?;
        // SAFETY: a new mapping, at an address that the system chooses.
        let mapping = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), pages, libc::PROT_NONE, flags, -1, 0)
        };
        let mapping = (mapping != libc::MAP_FAILED).then(|| NonNull::new(mapping.cast::<u8>()))??;
        // SAFETY: the pages between the first and the last of the mapping. The system counts them as memory
        // now, and refuses more than it has.
        let (start, refused) = unsafe {
            let inside = mapping.add(page);
            let writable = libc::PROT_READ | libc::PROT_WRITE;
            (inside.add(inner - bytes), libc::mprotect(inside.as_ptr().cast(), inner, writable) != 0)
        };
        let memory = Self { mapping, pages, start };
        (!refused).then_some(memory)
    }

    /// Returns the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.pages) };
    }
}

fn page() -> usize {
    // SAFETY: asks for a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("pages have a size")
}
