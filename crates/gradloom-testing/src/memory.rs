//! Measures memory allocations per thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// System allocator that counts allocations. A test program enables it with `#[global_allocator]`.
pub struct Counting;

thread_local! {
    // The counters are constant-initialized and have no destructors, so that counting never allocates and
    // works while a thread exits.
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

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        one(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        one(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        one(size);
        add(-(layout.size() as isize));
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Sizes of allocations in bytes; 0 in a program that uses another allocator.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// Size of the largest block.
    pub largest: usize,
    /// Peak size of all blocks together, beyond those that existed before.
    pub most: usize,
    /// Total size of all blocks, freed or not.
    pub all: usize,
}

/// Runs a function, and returns its result and the allocations of its thread.
pub fn measured<T>(run: impl FnOnce() -> T) -> (T, Bytes) {
    let (before, all) = (NOW.get(), ALL.get());
    MOST.set(before);
    LARGEST.set(0);
    let result = run();
    let most = (MOST.get() - before).max(0) as usize;
    (result, Bytes { largest: LARGEST.get(), most, all: ALL.get() - all })
}
