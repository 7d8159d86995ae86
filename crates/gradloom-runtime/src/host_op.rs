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
pub(crate) unsafe fn run_on_host(
    op: &dyn CustomOp,
    reads: impl Iterator<Item = (DType, *const u8, usize)>,
    writes: impl Iterator<Item = (DType, *mut u8, usize)>,
) -> Result<(), String> {
    // SAFETY: the caller's promise; a bool is a byte.
    let operands: Vec<Slice<'_>> = reads
        .map(|(dtype, from, elements)| unsafe {
            match dtype {
                DType::F32 => Slice::F32(slice(from.cast(), elements)),
                DType::I32 => Slice::I32(slice(from.cast(), elements)),
                DType::U32 => Slice::U32(slice(from.cast(), elements)),
                DType::Bool => Slice::Bool(slice(from, elements)),
                DType::U8 => Slice::U8(slice(from, elements)),
                DType::I64 => unreachable!("inference refuses them"),
                DType::F16 | DType::BF16 => Slice::Half(dtype, slice(from.cast(), elements)),
            }
        })
        .collect();
    // SAFETY: as above.
    let mut results: Vec<SliceMut<'_>> = writes
        .map(|(dtype, to, elements)| unsafe {
            match dtype {
                DType::F32 => SliceMut::F32(slice_mut(to.cast(), elements)),
                DType::I32 => SliceMut::I32(slice_mut(to.cast(), elements)),
                DType::U32 => SliceMut::U32(slice_mut(to.cast(), elements)),
                DType::Bool => SliceMut::Bool(slice_mut(to, elements)),
                DType::U8 => SliceMut::U8(slice_mut(to, elements)),
                DType::I64 => unreachable!("inference refuses them"),
                DType::F16 | DType::BF16 => SliceMut::Half(dtype, slice_mut(to.cast(), elements)),
            }
        })
        .collect();
    op.run_on_host(&operands, &mut results).map_err(|message| format!("{}: {message}", op.name()))
}
