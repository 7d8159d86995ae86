//! Turns the limits that a system sets a process into errors.
//!
//! In: nothing; `main` begins with it. Out: the effects on the process. Always holds: memory that the system
//! refuses (`ulimit -v`), a file that may not grow (`ulimit -f`) and a small stack (`ulimit -s`) end in a
//! message and exit code 1 at most, and not in a signal.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of stack that the command has, whatever the shell grants: what is common.
const STACK: usize = 8 << 20;

/// Blocks that nothing can be done without. What depends on the user's sizes is larger, and asked for in ways
/// that can fail with an error that knows more.
const SMALL: usize = 1 << 20;

/// True once the system has refused a block of more than [`SMALL`] bytes.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// The system's allocator, which ends the command in its own way when there is no memory.
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

// SAFETY: everything is the system allocator's; what it returns is returned.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the system allocator's condition, here and below.
        noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        noted(unsafe { System.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Runs the command under these rules.
pub(crate) fn run(command: fn() -> ExitCode) -> ExitCode {
    #[cfg(unix)]
    handle_signals();
    if has_stack() {
        return command();
    }
    let thread = std::thread::Builder::new().name("main".to_string()).stack_size(STACK);
    match thread.spawn(command) {
        // A panic has told what it had to tell; its exit code is the usual one.
        Ok(thread) => thread.join().unwrap_or_else(|_| ExitCode::from(101)),
        // Where no thread can be had, this one has to do.
        Err(_) => command(),
    }
}

/// Returns whether the first thread may use as much stack as the command is made for.
#[cfg(unix)]
fn has_stack() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is written to a value of its type.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    known && limit.rlim_cur >= STACK as libc::rlim_t
}

/// Returns true: on other systems, the program's file sets the size of the stack.
#[cfg(not(unix))]
fn has_stack() -> bool {
    true
}

#[cfg(unix)]
fn handle_signals() {
    let handler = aborted as extern "C" fn(libc::c_int);
    // SAFETY: the handler does only what handlers may do; a signal that is ignored calls nothing.
    unsafe {
        // Writing beyond the limit of a file's size is then an error of the write.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::signal(libc::SIGABRT, handler as libc::sighandler_t);
    }
}

/// Called when the process aborts itself, as it does where a block was refused that cannot be done without.
/// Any other reason is a defect, whose signal is left to end the process.
#[cfg(unix)]
extern "C" fn aborted(_: libc::c_int) {
    if REFUSED.load(Ordering::Relaxed) {
        end();
    }
}

/// Elsewhere the standard library ends the process, which is all that can be done there without memory.
#[cfg(not(unix))]
fn end() {}

/// Ends the process for want of memory.
#[cfg(unix)]
fn end() -> ! {
    const MESSAGE: &[u8] = b"error: the system has no more memory for this process\n  \
        help: take a smaller model or a smaller --batch, end other programs, \
        or raise the limit (ulimit -v)\n";
    // SAFETY: neither call needs memory, both may be made in a handler, and the bytes are static.
    unsafe {
        libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(1)
    }
}
