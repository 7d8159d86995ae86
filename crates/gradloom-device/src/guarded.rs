//! Memory between guard pages, for tests: an out-of-bounds access before or after it crashes the process.
//!
//! Invariant: the memory ends at the start of an inaccessible page, and is aligned to 64 or 256 bytes if
//! its size is a multiple of that.

use std::ptr::NonNull;

/// Zeroed bytes between guard pages.
#[derive(Debug)]
pub struct Guarded {
    mapping: NonNull<u8>,
    pages: usize,
    start: NonNull<u8>,
}

// SAFETY: plain bytes, accessed through raw pointers whose owners synchronize the accesses.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// Allocates `bytes` bytes; returns `None` if there is not enough memory.
    pub fn new(bytes: usize) -> Option<Self> {
        let page = page();
        let inner = bytes.checked_next_multiple_of(page)?;
        let pages = inner.checked_add(2 * page)?;
        // SAFETY: creates a new mapping at an address chosen by the system.
        let mapping = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), pages, libc::PROT_NONE, flags, -1, 0)
        };
        let mapping = (mapping != libc::MAP_FAILED).then(|| NonNull::new(mapping.cast::<u8>()))??;
        // SAFETY: the pages between the first and the last belong to the mapping. The system commits their
        // memory here, so this call fails if there is not enough.
        let (start, refused) = unsafe {
            let inside = mapping.add(page);
            let writable = libc::PROT_READ | libc::PROT_WRITE;
            // QEMU refuses to change the protection of no bytes.
            let refused = inner > 0 && libc::mprotect(inside.as_ptr().cast(), inner, writable) != 0;
            (inside.add(inner - bytes), refused)
        };
        let memory = Self { mapping, pages, start };
        (!refused).then_some(memory)
    }

    /// Returns a pointer to the first byte.
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
    // SAFETY: `sysconf` only returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("pages have a size")
}
