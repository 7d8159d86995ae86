//! WebAssembly functions that are compiled at run time.
//!
//! In: a module. Out: its function in the table that this module's indirect calls use, for as long as the
//! value lives. Invariant: no value is created if the host refuses to compile the module.

use std::num::NonZero;

#[link(wasm_import_module = "loops")]
unsafe extern "C" {
    /// Compiles a module that shares this memory, and returns its function's index in the table, or 0 on
    /// failure.
    fn compile(code: *const u8, bytes: usize) -> usize;
    /// Frees an index.
    fn release(number: usize);
}

/// A callable function.
#[derive(Debug)]
pub(super) struct Executable {
    number: NonZero<usize>,
    #[cfg(target_os = "wasi")]
    code: threads::Code,
}

impl Executable {
    /// Returns the function of a module, or `None` if the host does not compile it.
    pub(super) fn new(code: &[u8]) -> Option<Self> {
        // SAFETY: the host reads the bytes before it returns.
        let number = NonZero::new(unsafe { compile(code.as_ptr(), code.len()) })?;
        Some(Self {
            number,
            #[cfg(target_os = "wasi")]
            code: threads::Code::new(code.to_vec(), number.get()),
        })
    }

    /// Calls the function.
    ///
    /// # Safety
    /// Same as [`super::Compiled::run`].
    #[inline]
    pub(super) unsafe fn call(&self, frame: *mut u8) {
        #[cfg(target_os = "wasi")]
        self.code.place(self.number.get());
        // SAFETY: a function's address is its index in the table, at which the host stored a function of this
        // type.
        unsafe {
            let code: unsafe extern "C" fn(*mut u8) = std::mem::transmute(self.number);
            code(frame);
        }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the function can no longer be called.
        unsafe { release(self.number.get()) };
    }
}

/// Function tables of threads. Each thread is an instance of the module with its own table, in which it
/// stores a function before its first call.
#[cfg(target_os = "wasi")]
mod threads {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[link(wasm_import_module = "loops")]
    unsafe extern "C" {
        /// Compiles a module that shares this memory, and stores its function in this thread's table.
        fn place(code: *const u8, bytes: usize, number: usize);
    }

    thread_local! {
        /// Id of the code at each index of this thread's table.
        static PLACED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }

    /// The module of a function.
    #[derive(Debug)]
    pub(super) struct Code {
        bytes: Vec<u8>,
        /// Id that is unique among all code, whereas an index in the table may be reused.
        id: u64,
    }

    impl Code {
        /// Creates the code of a function that this thread's table already contains.
        pub(super) fn new(bytes: Vec<u8>, number: usize) -> Self {
            static NEXT: AtomicU64 = AtomicU64::new(1);
            let code = Self { bytes, id: NEXT.fetch_add(1, Relaxed) };
            code.is_new(number);
            code
        }

        /// Stores the function in this thread's table, unless it is already there.
        pub(super) fn place(&self, number: usize) {
            if self.is_new(number) {
                // SAFETY: the host reads the bytes before it returns.
                unsafe { place(self.bytes.as_ptr(), self.bytes.len(), number) };
            }
        }

        /// Records that this thread's table contains the code at an index, and returns `true` if the table
        /// did not contain it before.
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
