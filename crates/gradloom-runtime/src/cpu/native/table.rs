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
pub(super) struct Executable(NonZero<usize>);

impl Executable {
    /// A routine's function, and the bytes of the frame that it wants. None if it is too long, or the host
    /// does not compile it.
    pub(super) fn new(routine: &Routine) -> Option<(Self, usize)> {
        let (code, frame_bytes) = assemble(routine)?;
        // SAFETY: the host reads the bytes before it returns.
        let number = unsafe { compile(code.as_ptr(), code.len()) };
        Some((Self(NonZero::new(number)?), frame_bytes))
    }

    /// Calls the function.
    ///
    /// # Safety
    /// As [`super::Compiled::run`].
    #[inline]
    pub(super) unsafe fn call(&self, frame: *mut u8) {
        // SAFETY: a function's address is its number in the table, where the host has put one of this type.
        unsafe {
            let code: unsafe extern "C" fn(*mut u8) = std::mem::transmute(self.0);
            code(frame);
        }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: nothing calls it any more.
        unsafe { release(self.0.get()) };
    }
}
