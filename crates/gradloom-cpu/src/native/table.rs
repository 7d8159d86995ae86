//! WebAssembly functions that are made at run time.
//!
//! In: a routine. Out: its function in the table that this module's own functions are called through, for as
//! long as the value lives. Always holds: there is none if the host refuses to compile it.

use gradloom_codegen::cpu::machine::{Routine, wasm::assemble};
use std::num::NonZero;

#[link(wasm_import_module = "loops")]
unsafe extern "C" {
    /// Compiles a module over this memory, and gives its function's number in the table; 0 if it cannot.
    fn compile(code: *const u8, bytes: usize) -> usize;
    /// Frees a number.
    fn release(number: usize);
}

/// A function that can be called.
#[derive(Debug)]
pub(super) struct Executable {
    number: NonZero<usize>,
    #[cfg(target_os = "wasi")]
    code: threads::Code,
}

impl Executable {
    /// Returns a routine's function, and the bytes of the frame that it wants. None if it is too long, or
    /// the host does not compile it.
    pub(super) fn new(routine: &Routine) -> Option<(Self, usize)> {
        let (code, frame_bytes) = assemble(routine)?;
        // SAFETY: the host reads the bytes before it returns.
        let number = NonZero::new(unsafe { compile(code.as_ptr(), code.len()) })?;
        let executable = Self {
            number,
            #[cfg(target_os = "wasi")]
            code: threads::Code::new(code, number.get()),
        };
        Some((executable, frame_bytes))
    }

    /// Calls the function.
    ///
    /// # Safety
    /// As [`super::Compiled::run`].
    #[inline]
    pub(super) unsafe fn call(&self, frame: *mut u8) {
        #[cfg(target_os = "wasi")]
        self.code.place(self.number.get());
        // SAFETY: a function's address is its number in the table, where the host has put one of this type.
        unsafe {
            let code: unsafe extern "C" fn(*mut u8) = std::mem::transmute(self.number);
            code(frame);
        }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: nothing calls it any more.
        unsafe { release(self.number.get()) };
    }
}

/// The tables of threads: each is an instance of the module with a table of its own, into which it puts the
/// functions that it comes to call.
#[cfg(target_os = "wasi")]
mod threads {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[link(wasm_import_module = "loops")]
    unsafe extern "C" {
        /// Compiles a module over this memory, and puts its function into the table of this thread.
        fn place(code: *const u8, bytes: usize, number: usize);
    }

    thread_local! {
        /// The code that each number of this thread's table stands for, by its id.
        static PLACED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }

    /// A function's module.
    #[derive(Debug)]
    pub(super) struct Code {
        bytes: Vec<u8>,
        /// The only one of all code, while a number in the table may be used again.
        id: u64,
    }

    impl Code {
        /// Code that this thread's table has.
        pub(super) fn new(bytes: Vec<u8>, number: usize) -> Self {
            static NEXT: AtomicU64 = AtomicU64::new(1);
            let code = Self { bytes, id: NEXT.fetch_add(1, Relaxed) };
            code.is_new(number);
            code
        }

        /// Puts the function into this thread's table, if it is not there.
        pub(super) fn place(&self, number: usize) {
            if self.is_new(number) {
                // SAFETY: the host reads the bytes before it returns.
                unsafe { place(self.bytes.as_ptr(), self.bytes.len(), number) };
            }
        }

        /// Notes that this thread's table has the code under a number; whether it had not.
        fn is_new(&self, number: usize) -> bool {
            PLACED.with_borrow_mut(|placed| {
                if placed.len() <= number {
                    placed.resize(number + 1, 0);
                }
                std::mem::replace(&mut placed[number], self.id) != self.id
            })
        }
    }
}
