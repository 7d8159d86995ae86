//! Numbers as memory has them, which become f32 in registers: f32 as it is, and floats of 16 bits.
//!
//! In: addresses of stored numbers. Out: vectors of f32, or packed panels. Always holds: what a number
//! becomes is exact.

use super::pack::{pack_transposed, panels};
use super::tile::{load, store};
#[cfg(target_arch = "x86_64")]
use super::x86;
use gradloom_core::ir::half::{from_bf16, from_f16};
use pulp::Simd;

/// A number that is loaded as f32.
pub(in crate::cpu) trait Stored: Copy {
    /// # Safety
    /// A vector's numbers must be readable there.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::f32s;

    /// Reads a vector, or zeros after the first `count` numbers.
    ///
    /// # Safety
    /// So many numbers must be readable.
    unsafe fn load_up_to<S: Simd>(simd: S, count: usize, from: *const Self) -> S::f32s;
}

impl Stored for f32 {
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const f32) -> S::f32s {
        // SAFETY: as promised by the caller.
        unsafe { load(simd, from) }
    }

    #[inline(always)]
    unsafe fn load_up_to<S: Simd>(simd: S, count: usize, from: *const f32) -> S::f32s {
        // SAFETY: as promised by the caller.
        unsafe {
            if count >= S::F32_LANES {
                load(simd, from)
            } else {
                simd.mask_load_ptr_f32s(simd.mask_between_m32s(0, count as u32), from)
            }
        }
    }
}

/// Lanes of the widest vectors.
pub(super) const WIDEST: usize = 16;
/// Contracted indices that are packed together.
const SQUARE: usize = 32;

macro_rules! half {
    ($(#[$doc:meta])* $name:ident, $from:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub(in crate::cpu) struct $name(u16);

        impl Stored for $name {
            #[inline(always)]
            unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::f32s {
                // SAFETY: as promised by the caller; the vectors' types are those of the instruction sets.
                unsafe {
                    #[cfg(target_arch = "x86_64")]
                    if let Some(vector) = x86::$from::<S>(from.cast()) {
                        return vector;
                    }
                    let mut lanes = [0.0; WIDEST];
                    for i in 0..S::F32_LANES {
                        lanes[i] = $from((*from.add(i)).0);
                    }
                    load(simd, lanes.as_ptr())
                }
            }

            #[inline(always)]
            unsafe fn load_up_to<S: Simd>(simd: S, count: usize, from: *const Self) -> S::f32s {
                // SAFETY: as promised by the caller.
                unsafe {
                    if count >= S::F32_LANES {
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
    /// An f16.
    F16, from_f16
}
half! {
    /// A bf16.
    Bf16, from_bf16
}

/// Packs columns of floats of 16 bits, as [`pack_transposed`] does, or rows of them, as `pack_rows` does: the
/// element of column j and contracted index p is at `right + j·free_stride + p·contract_stride`.
///
/// # Safety
/// There must be `depth` elements in each of the columns; `to` must have room for `depth` times the padded
/// columns.
#[inline(always)]
pub(in crate::cpu) unsafe fn pack_stored<S: Simd, E: Stored>(
    simd: S,
    columns: usize,
    depth: usize,
    right: *const E,
    [free_stride, contract_stride]: [usize; 2],
    to: *mut f32,
) {
    let lanes = S::F32_LANES;
    let mut square = [0.0; 2 * WIDEST * SQUARE];
    let from = square.as_mut_ptr();
    let row = |j: usize| from.wrapping_add(j * SQUARE).cast_const();
    for (start, width) in panels(columns, lanes) {
        let used = width.min(columns - start);
        let to = to.wrapping_add(start * depth);
        let right = right.wrapping_add(start * free_stride);
        // SAFETY: as promised by the caller.
        unsafe {
            if free_stride == 1 {
                for p in 0..depth {
                    let (right, to) = (right.wrapping_add(p * contract_stride), to.wrapping_add(p * width));
                    let mut j = 0;
                    while j < width {
                        let count = used.saturating_sub(j);
                        store(simd, to.add(j), E::load_up_to(simd, count, right.wrapping_add(j)));
                        j += lanes;
                    }
                }
                continue;
            }
            let mut p = 0;
            while p < depth {
                let count = SQUARE.min(depth - p);
                for j in 0..used {
                    let right = right.wrapping_add(j * free_stride + p * contract_stride);
                    let mut i = 0;
                    while i < count {
                        let vector = match contract_stride {
                            1 => E::load_up_to(simd, count - i, right.wrapping_add(i)),
                            _ => gather(
                                simd,
                                count - i,
                                right.wrapping_add(i * contract_stride),
                                contract_stride,
                            ),
                        };
                        store(simd, from.wrapping_add(j * SQUARE + i), vector);
                        i += lanes;
                    }
                }
                pack_transposed(simd, used, count, row, 1, to.wrapping_add(p * width));
                p += SQUARE;
            }
        }
    }
}

/// A vector of numbers `step` apart, or zeros after the first `count`.
///
/// # Safety
/// So many numbers must be readable.
#[inline(always)]
unsafe fn gather<S: Simd, E: Stored>(simd: S, count: usize, from: *const E, step: usize) -> S::f32s {
    // SAFETY: as promised by the caller.
    unsafe {
        let mut some = [*from; WIDEST];
        for i in 0..count.min(S::F32_LANES) {
            some[i] = *from.wrapping_add(i * step);
        }
        E::load_up_to(simd, count, some.as_ptr())
    }
}
