//! Calls a user's op on elements in the host's memory.
//!
//! In: dtypes, addresses and numbers of elements. Out: what [`CustomOp::run_on_host`] writes.

use gradloom_core::ir::{CustomOp, DType, Slice, SliceMut};
use std::ptr::NonNull;

/// # Safety
/// As `std::slice::from_raw_parts`, but any pointer will do for no elements.
unsafe fn slice<'a, T>(from: *const T, count: usize) -> &'a [T] {
    let from = if count == 0 { NonNull::dangling().as_ptr() } else { from };
    // SAFETY: the caller's promise, or a well-aligned pointer for no elements.
    unsafe { std::slice::from_raw_parts(from, count) }
}

/// # Safety
/// As `std::slice::from_raw_parts_mut`, but any pointer will do for no elements.
unsafe fn slice_mut<'a, T>(to: *mut T, count: usize) -> &'a mut [T] {
    let to = if count == 0 { NonNull::dangling().as_ptr() } else { to };
    // SAFETY: the caller's promise, or a well-aligned pointer for no elements.
    unsafe { std::slice::from_raw_parts_mut(to, count) }
}

/// Runs an op over operands and results: each a dtype, an address, and a number of elements.
///
/// # Errors
/// The op's message, behind its name.
///
/// # Safety
/// The addresses are aligned to elements of the dtypes, with so many initialised ones behind them; those of
/// results are the caller's alone, and overlap nothing else.
pub unsafe fn run_on_host(
    op: &dyn CustomOp,
    reads: impl Iterator<Item = (DType, *const u8, usize)>,
    writes: impl Iterator<Item = (DType, *mut u8, usize)>,
) -> Result<(), String> {
    // Turns each `(dtype, address, count)` of `$list` into a `$slice` (`Slice` or `SliceMut`) of that dtype;
    // `$elements` makes the slice of elements.
    macro_rules! by_dtype {
        ($slice:ident, $elements:ident, $list:ident) => {
            $list
                .map(|(dtype, address, count)| {
                    // SAFETY: the caller's promise; a bool is a byte.
                    unsafe {
                        match dtype {
                            DType::F32 => $slice::F32($elements(address.cast(), count)),
                            DType::I32 => $slice::I32($elements(address.cast(), count)),
                            DType::U32 => $slice::U32($elements(address.cast(), count)),
                            DType::Bool => $slice::Bool($elements(address, count)),
                            DType::U8 => $slice::U8($elements(address, count)),
                            DType::I64 => unreachable!("inference refuses them"),
                            DType::F16 | DType::BF16 => $slice::Half(dtype, $elements(address.cast(), count)),
                        }
                    }
                })
                .collect()
        };
    }
    let operands: Vec<Slice<'_>> = by_dtype!(Slice, slice, reads);
    let mut results: Vec<SliceMut<'_>> = by_dtype!(SliceMut, slice_mut, writes);
    op.run_on_host(&operands, &mut results).map_err(|message| format!("{}: {message}", op.name()))
}
