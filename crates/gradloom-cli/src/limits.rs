//! Turns the system's limits on the process into errors.
//!
//! In: nothing; `main` begins with it. Out: the effects on the process. Invariant: memory that the system
//! refuses (`ulimit -v`), a file that may not grow (`ulimit -f`) and a small stack (`ulimit -s`) cause at
//! most a message and exit code 1, never a signal.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size of the command's stack in bytes, independent of the limit of the shell: the usual default.
const STACK: usize = 8 << 20;

/// Maximum size in bytes of allocations whose failure ends the process here. Allocations that depend on the
/// user's sizes are larger and fallible, and their errors are more specific.
const SMALL: usize = 1 << 20;

/// True once the system has refused an allocation of more than [`SMALL`] bytes.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// The system's allocator, which ends the command with a message if memory is exhausted.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn noted(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        refused(size);
    }
    block
}

#[cold]
fn refused(size: usize) {
    if size <= SMALL {
        end();
    }
    REFUSED.store(true, Ordering::Relaxed);
}

// SAFETY: all calls are passed to the system allocator, and its results are returned unchanged.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, which is that of the system allocator.
        noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, which is that of the system allocator.
        noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`. All blocks are from the system allocator.
        noted(unsafe { System.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`. All blocks are from the system allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Runs the command with the limits handled, on a thread with a larger stack if necessary.
pub(crate) fn run(command: fn() -> ExitCode) -> ExitCode {
    #[cfg(unix)]
    handle_signals();
    if has_stack() {
        return command();
    }
    let thread = std::thread::Builder::new().name("main".to_string()).stack_size(STACK);
    match thread.spawn(command) {
        // The panic was already reported; 101 is the usual exit code.
        Ok(thread) => thread.join().unwrap_or_else(|_| ExitCode::from(101)),
        // If no thread can be started, run the command on this one.
        Err(_) => command(),
    }
}

/// Returns `true` if the stack of the first thread is as large as the command requires.
#[cfg(unix)]
fn has_stack() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for a write of an `rlimit`.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    known && limit.rlim_cur >= STACK as libc::rlim_t
}

/// Returns `true`, since on other systems the executable sets the size of the stack.
#[cfg(not(unix))]
fn has_stack() -> bool {
    true
}

#[cfg(unix)]
fn handle_signals() {
    let handler = aborted as extern "C" fn(libc::c_int);
    // SAFETY: the handler is async-signal-safe, and an ignored signal calls nothing.
    unsafe {
        // Let a write beyond the file size limit return an error instead of ending the process.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::signal(libc::SIGABRT, handler as libc::sighandler_t);
    }
}

/// Handles SIGABRT, which is expected after a refused allocation. An abort for any other reason is a bug,
/// and its signal ends the process as usual.
#[cfg(unix)]
extern "C" fn aborted(_: libc::c_int) {
    if REFUSED.load(Ordering::Relaxed) {
        end();
    }
}

/// Does nothing: on other systems the standard library ends the process, and nothing more is possible without
/// memory.
#[cfg(not(unix))]
fn end() {}

/// Ends the process because memory is exhausted.
#[cfg(unix)]
fn end() -> ! {
    const MESSAGE: &[u8] = b"error: the system has no more memory for this process\n  \
        help: take a smaller model or a smaller --batch, end other programs, \
        or raise the limit (ulimit -v)\n";
    // SAFETY: both calls are async-signal-safe and allocate nothing, and the bytes are static.
    unsafe {
        libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(1)
    }
}
