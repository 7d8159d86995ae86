//! Numbers in their storage form, which are converted to f32 in registers: f32 itself, and 16-bit floats.
//!
//! In: addresses of stored numbers. Out: vectors of f32, or packed panels. Invariant: the conversion is
//! exact.

use super::pack::{pack_transposed, panels};
use super::tile::Panels;
use crate::simd::{Simd, WIDEST};
use gradloom_core::ir::half::{from_bf16, from_f16};

/// A number that is loaded as f32.
pub(crate) trait Stored: Copy {
    /// # Safety
    /// A whole vector of numbers must be readable at `from`.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::F32s;

    /// Reads a vector, with zeros after the first `count` numbers.
    ///
    /// # Safety
    /// `count` numbers, at most a vector of them, must be readable at `from`.
    unsafe fn load_up_to<S: Simd>(simd: S, count: usize, from: *const Self) -> S::F32s;

    /// Returns the number as f32.
    fn widen(self) -> f32;
}

impl Stored for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const f32) -> S::F32s {
        // SAFETY: guaranteed by the caller.
        unsafe { simd.load(from) }
    }

    #[inline(always)]
    unsafe fn load_up_to<S: Simd>(simd: S, count: usize, from: *const f32) -> S::F32s {
        // SAFETY: guaranteed by the caller.
        unsafe { if count >= S::LANES { simd.load(from) } else { simd.load_first(count, from) } }
    }
}

/// Number of contracted indices packed together.
const SQUARE: usize = 32;

macro_rules! half {
    ($(#[$doc:meta])* $name:ident, $widen:ident, $load:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub(crate) struct $name(u16);

        impl Stored for $name {
            #[inline(always)]
            fn widen(self) -> f32 {
                $widen(self.0)
            }

            #[inline(always)]
            unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::F32s {
                // SAFETY: guaranteed by the caller.
                unsafe { simd.$load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn load_up_to<S: Simd>(simd: S, count: usize, from: *const Self) -> S::F32s {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    if count >= S::LANES {
                        return Self::load(simd, from);
                    }
                    let mut some = [Self(0); WIDEST];
                    from.copy_to_nonoverlapping(some.as_mut_ptr(), count);
                    Self::load(simd, some.as_ptr())
                }
            }
        }
    };
}
half! {
    /// A float in the f16 format.
    F16, from_f16, load_f16
}
half! {
    /// A float in the bf16 format.
    Bf16, from_bf16, load_bf16
}

/// Packs columns of 16-bit floats as [`pack_transposed`] does, or rows of them as `pack_rows` does. The
/// element of column j and contracted index p is at `right + j·free_stride + p·contract_stride`.
///
/// # Safety
/// Each column of `right` must be valid for reads of `depth` elements, and `to` for writes of `depth` times
/// the padded number of columns.
#[inline(always)]
pub(crate) unsafe fn pack_stored<S: Simd, E: Stored>(
    simd: S,
    columns: usize,
    depth: usize,
    right: *const E,
    [free_stride, contract_stride]: [usize; 2],
    to: *mut f32,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if free_stride == 1 {
            let row = |p: usize| right.wrapping_add(p * contract_stride);
            pack_stored_rows(simd, depth, columns, row, 1, to);
        } else {
            let row = |j: usize| right.wrapping_add(j * free_stride);
            pack_stored_transposed(simd, columns, depth, row, contract_stride, to);
        }
    }
}

/// Packs stored numbers as [`pack_rows`](super::pack::pack_rows) does.
///
/// # Safety
/// Same as [`pack_rows`](super::pack::pack_rows).
#[inline(always)]
pub(crate) unsafe fn pack_stored_rows<S: Simd, E: Stored>(
    simd: S,
    rows: usize,
    columns: usize,
    row: impl Fn(usize) -> *const E,
    step: usize,
    to: *mut f32,
) -> Panels {
    let lanes = S::LANES;
    for (start, width) in panels(columns, lanes) {
        let used = width.min(columns - start);
        for p in 0..rows {
            let from = row(p).wrapping_add(start * step);
            let to = to.wrapping_add(start * rows + p * width);
            let mut j = 0;
            while j < width {
                let count = used.saturating_sub(j);
                // SAFETY: guaranteed by the caller.
                unsafe { simd.store(to.add(j), some(simd, count, from.wrapping_add(j * step), step)) };
                j += lanes;
            }
        }
    }
    Panels { start: to, depth: rows, columns }
}

/// Packs stored numbers as [`pack_transposed`] does.
///
/// # Safety
/// Same as [`pack_transposed`].
#[inline(always)]
pub(crate) unsafe fn pack_stored_transposed<S: Simd, E: Stored>(
    simd: S,
    rows: usize,
    depth: usize,
    row: impl Fn(usize) -> *const E,
    step: usize,
    to: *mut f32,
) -> Panels {
    let lanes = S::LANES;
    let mut square = [0.0; 2 * WIDEST * SQUARE];
    let wide = square.as_mut_ptr();
    let wide_row = |j: usize| wide.wrapping_add(j * SQUARE).cast_const();
    for (start, width) in panels(rows, lanes) {
        let used = width.min(rows - start);
        let to = to.wrapping_add(start * depth);
        let mut p = 0;
        while p < depth {
            let count = SQUARE.min(depth - p);
            // SAFETY: guaranteed by the caller.
            unsafe {
                for j in 0..used {
                    let from = row(start + j).wrapping_add(p * step);
                    let mut i = 0;
                    while i < count {
                        let vector = some(simd, count - i, from.wrapping_add(i * step), step);
                        simd.store(wide.wrapping_add(j * SQUARE + i), vector);
                        i += lanes;
                    }
                }
                pack_transposed(simd, used, count, wide_row, 1, to.wrapping_add(p * width));
            }
            p += SQUARE;
        }
    }
    Panels { start: to, depth, columns: rows }
}

/// Returns a vector of up to `count` numbers with stride `step`; the remaining lanes are 0.
///
/// # Safety
/// `from` must be valid for reads of the returned numbers, and of the first one even if `count` is 0.
#[inline(always)]
unsafe fn some<S: Simd, E: Stored>(simd: S, count: usize, from: *const E, step: usize) -> S::F32s {
    // SAFETY: guaranteed by the caller.
    unsafe { if step == 1 { E::load_up_to(simd, count, from) } else { gather(simd, count, from, step) } }
}

/// Returns a vector of numbers with stride `step`, with zeros after the first `count`.
///
/// # Safety
/// `from` must be valid for reads of `count` numbers with stride `step`, and of the first one even if `count`
/// is 0.
#[inline(always)]
unsafe fn gather<S: Simd, E: Stored>(simd: S, count: usize, from: *const E, step: usize) -> S::F32s {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut found = [*from; WIDEST];
        for i in 0..count.min(S::LANES) {
            found[i] = *from.wrapping_add(i * step);
        }
        E::load_up_to(simd, count, found.as_ptr())
    }
}
