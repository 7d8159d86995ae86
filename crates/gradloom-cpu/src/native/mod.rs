//! Calls compiled code: executable memory on x86-64, functions in the table in a browser, and the frame of
//! addresses that a call fills in.
//!
//! In: a [`Routine`] of the compiler. Out: [`Compiled`] code. Invariant: equal routines are compiled once.

#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "wasm32")]
#[path = "table.rs"]
mod memory;
#[cfg(all(test, unix, not(miri)))]
mod tests;

use gradloom_codegen::cpu::machine::{Frame, MachineCode, OperandNumber, VECTOR};
use memory::Executable;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A routine that can be called.
#[derive(Debug)]
pub(crate) struct Compiled {
    code: Executable,
    frame_bytes: usize,
}

/// Arguments of a call, which the caller fills in at the start of a frame: [`Compiled::frame_bytes`] bytes,
/// aligned to 64.
pub(crate) struct Call {
    frame: *mut u8,
}

impl Compiled {
    /// Loads machine code, or finds equal code that is loaded. Returns `None` if the system does not allow
    /// it.
    pub(crate) fn new(code: &Arc<MachineCode>) -> Option<Arc<Self>> {
        static KNOWN: OnceLock<Mutex<HashMap<Arc<MachineCode>, Weak<Compiled>>>> = OnceLock::new();
        let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known.get(code).and_then(Weak::upgrade) {
            return Some(compiled);
        }
        let compiled = Arc::new(Self { code: Executable::new(&code.bytes)?, frame_bytes: code.frame_bytes });
        known.retain(|_, compiled| compiled.strong_count() > 0);
        known.insert(Arc::clone(code), Arc::downgrade(&compiled));
        Some(compiled)
    }

    /// Returns the number of bytes of memory that a call needs.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Runs the code.
    ///
    /// # Safety
    /// The machine has the instruction set that the code was assembled for. The call's frame has
    /// [`Compiled::frame_bytes`] bytes and was filled in: at least one row, and an address and a stride for
    /// each operand of the routine, which has its elements at all rows and columns. A result overlaps no
    /// element of an operand but the one at its own position.
    #[inline]
    pub(crate) unsafe fn run(&self, call: &Call) {
        // SAFETY: the caller's promise.
        unsafe { self.code.call(call.frame) };
    }
}

impl Call {
    /// # Safety
    /// `frame` can be written, for as many bytes as what is called wants.
    #[inline]
    pub(crate) unsafe fn new(frame: *mut u8, rows: usize, columns: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            frame.add(Frame::ROWS).cast::<usize>().write(rows);
            frame.add(Frame::COLUMNS).cast::<usize>().write(columns);
        }
        Self { frame }
    }

    /// Sets the address of an operand's first element, and the bytes from a row to the next.
    ///
    /// # Safety
    /// The routine has an operand of this number.
    #[inline]
    pub(crate) unsafe fn operand(&self, number: OperandNumber, start: *const u8, row_stride: usize) {
        // SAFETY: the caller's promise: the frame has room for it.
        unsafe {
            let place = self.frame.add(Frame::operand(number));
            place.cast::<*const u8>().write(start);
            place.add(8).cast::<usize>().write(row_stride);
        }
    }

    /// Returns whether all rows of an operand start at addresses aligned to a vector.
    ///
    /// # Safety
    /// The operand was filled in.
    #[inline]
    pub(crate) unsafe fn starts_at_vectors(&self, number: OperandNumber, rows: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let place = self.frame.add(Frame::operand(number)).cast::<usize>();
            let (start, row_stride) = (place.read(), place.add(1).read());
            start.is_multiple_of(VECTOR) && (rows == 1 || row_stride.is_multiple_of(VECTOR))
        }
    }

    /// Sets the number of the first column, for routines that count columns.
    ///
    /// # Safety
    /// As [`Call::new`].
    #[inline]
    pub(crate) unsafe fn first_column(&self, column: usize) {
        // Longer rows have no machine code that counts columns; only lanes behind a row's end get here.
        let numbers: [i32; 16] = std::array::from_fn(|lane| i32::try_from(column + lane).unwrap_or(i32::MIN));
        // SAFETY: every frame has room for them.
        unsafe { self.frame.add(Frame::NUMBERS).cast::<[i32; 16]>().write(numbers) };
    }
}
