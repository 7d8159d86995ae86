//! Aligned host memory whose address never changes.

use gradloom_core::plan::ALIGNMENT;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Gives memory, or `None` when there is not that much.
pub(crate) type Allocate<'a> = &'a dyn Fn(usize) -> Option<Memory>;

/// Zeroed bytes, aligned as the plan demands.
///
/// Programs keep raw addresses into it and read and write through them; who may do so when is governed by the locks of the
/// [`Store`](crate::Store) and by `&mut` on the program.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What the system gave.
    allocated: NonNull<u8>,
    /// The first aligned byte in it.
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is plain bytes; access through raw pointers is synchronised by its owners as said above.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `None` when the system has not that much memory.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let layout = Self::layout(bytes)?;
        // SAFETY: the layout has at least one byte.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let before = allocated.align_offset(ALIGNMENT);
        // SAFETY: the layout has room for as many bytes before the first aligned one.
        let start = unsafe { allocated.add(before) };
        Some(Self { allocated, start, bytes })
    }

    /// The same bytes at an address of their own. Nobody may write them meanwhile.
    pub(crate) fn duplicate(&self, allocate: Allocate<'_>) -> Option<Self> {
        let copy = allocate(self.bytes)?;
        // SAFETY: both have that many bytes, and they are different allocations.
        unsafe { std::ptr::copy_nonoverlapping(self.at(0), copy.at(0), self.bytes) };
        Some(copy)
    }

    /// Has room to align what is in it. The system is not asked to: it has zeroed pages, which cost nothing before they are used, but
    /// of aligned memory, the standard library writes every byte to make it 0.
    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.checked_add(ALIGNMENT)?, 1).ok()
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Address of a byte; `offset` may be one past the end.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.bytes, "offset {offset} in {} bytes", self.bytes);
        // SAFETY: inside the allocation, as just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let layout = Self::layout(self.bytes).expect("it was allocated with this layout");
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.allocated.as_ptr(), layout) };
    }
}
