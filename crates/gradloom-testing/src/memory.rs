//! Memory that something takes, thread by thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts; a test program makes it its own with `#[global_allocator]`.
pub struct Counting;

thread_local! {
    // Constant and without a destructor: to count allocates nothing, and works while a thread ends.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    static ALL: Cell<usize> = const { Cell::new(0) };
}

fn one(bytes: usize) {
    LARGEST.set(LARGEST.get().max(bytes));
    ALL.set(ALL.get() + bytes);
    add(bytes as isize);
}

fn add(bytes: isize) {
    NOW.set(NOW.get() + bytes);
    MOST.set(MOST.get().max(NOW.get()));
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        one(layout.size());
        // SAFETY: as asked by the caller, here and below.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        one(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        one(size);
        add(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Bytes that something took; 0 in a program whose allocator is another one.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// Bytes of the largest block.
    pub largest: usize,
    /// Bytes of all blocks at one time, beyond those that there were before.
    pub most: usize,
    /// Bytes of all blocks together, whether they were given back or not.
    pub all: usize,
}

/// Runs a function; returns its result, and the bytes that its thread allocated for it.
pub fn measured<T>(run: impl FnOnce() -> T) -> (T, Bytes) {
    let (before, all) = (NOW.get(), ALL.get());
    MOST.set(before);
    LARGEST.set(0);
    let result = run();
    let most = (MOST.get() - before).max(0) as usize;
    (result, Bytes { largest: LARGEST.get(), most, all: ALL.get() - all })
}
