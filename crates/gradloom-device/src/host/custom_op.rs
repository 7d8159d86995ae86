//! Calls a custom op on elements in host memory.
//!
//! In: the dtype, address and number of elements of each operand and result. Out: the elements written by
//! [`CustomOp::run_on_host`].

use gradloom_core::ir::{CustomOp, DType, Slice, SliceMut};
use std::ptr::NonNull;

/// # Safety
/// `from` and `count` must meet the requirements of [`std::slice::from_raw_parts`], except that `from` may be
/// invalid if `count` is 0.
unsafe fn slice<'a, T>(from: *const T, count: usize) -> &'a [T] {
    let from = if count == 0 { NonNull::dangling().as_ptr() } else { from };
    // SAFETY: guaranteed by the caller, or an aligned pointer and no elements.
    unsafe { std::slice::from_raw_parts(from, count) }
}

/// # Safety
/// `to` and `count` must meet the requirements of [`std::slice::from_raw_parts_mut`], except that `to` may be
/// invalid if `count` is 0.
unsafe fn slice_mut<'a, T>(to: *mut T, count: usize) -> &'a mut [T] {
    let to = if count == 0 { NonNull::dangling().as_ptr() } else { to };
    // SAFETY: guaranteed by the caller, or an aligned pointer and no elements.
    unsafe { std::slice::from_raw_parts_mut(to, count) }
}

/// Runs an op on operands and results, each given as a dtype, an address, and a number of elements.
///
/// # Errors
/// Returns the op's message, prefixed with the op's name, if the op fails.
///
/// # Safety
/// Each address in `reads` and `writes` must be aligned for its dtype and point to the given number of
/// initialized elements. During the call, nothing else may access the elements of `writes`, which must not
/// overlap each other or the elements of `reads`.
pub unsafe fn run_on_host(
    op: &dyn CustomOp,
    reads: impl Iterator<Item = (DType, *const u8, usize)>,
    writes: impl Iterator<Item = (DType, *mut u8, usize)>,
) -> Result<(), String> {
    // Converts each `(dtype, address, count)` of `$list` to a `$slice` (`Slice` or `SliceMut`) of that dtype;
    // `$elements` creates the slice of elements.
    macro_rules! by_dtype {
        ($slice:ident, $elements:ident, $list:ident) => {
            $list
                .map(|(dtype, address, count)| {
                    // SAFETY: guaranteed by the caller; a bool is a byte.
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
