//! WebAssembly vectors.
//!
//! In: the operations of [`Simd`]. Out: 128-bit instructions. Invariant: products are rounded before they are
//! added, unless the module is compiled with relaxed SIMD. In that case, rounding depends on the machine but
//! is the same for all products.

use super::{Simd, instructions};
use std::arch::wasm32::*;

/// Computes `a · b + c`, rounded once if the machine has an instruction for it.
#[cfg(target_feature = "relaxed-simd")]
use std::arch::wasm32::f32x4_relaxed_madd as multiply_add;

/// Computes `a · b + c`, rounded twice.
#[cfg(not(target_feature = "relaxed-simd"))]
#[inline(always)]
fn multiply_add(a: v128, b: v128, c: v128) -> v128 {
    f32x4_add(f32x4_mul(a, b), c)
}

/// Proof that the engine has SIMD: it rejects a module with instructions that it lacks. Vectors have 128
/// bits.
#[derive(Clone, Copy)]
pub(super) struct Wasm;

// SAFETY: an engine rejects a module with instructions that it does not support; vectors have 128 bits.
unsafe impl Simd for Wasm {
    type F32s = v128;
    const LANES: usize = 4;
    const REGISTERS: usize = 16;

    instructions! {
        fn splat(value: f32) -> v128 = f32x4_splat(value);
        fn add(a: v128, b: v128) -> v128 = f32x4_add(a, b);
        fn sub(a: v128, b: v128) -> v128 = f32x4_sub(a, b);
        fn mul(a: v128, b: v128) -> v128 = f32x4_mul(a, b);
        fn mul_add(a: v128, b: v128, c: v128) -> v128 = multiply_add(a, b, c);
        fn max(a: v128, b: v128) -> v128 = f32x4_max(a, b);
        fn select_less(a: v128, b: v128, then: v128, otherwise: v128) -> v128 =
            v128_bitselect(then, otherwise, f32x4_lt(a, b));
        fn power_of_two(n: v128) -> v128 = i32x4_add(i32x4_shl(n, 23), i32x4_splat(0x3f80_0000));
        fn sum(a: v128) -> f32 = {
            let pairs = f32x4_add(a, i32x4_shuffle::<2, 3, 0, 1>(a, a));
            f32x4_extract_lane::<0>(pairs) + f32x4_extract_lane::<1>(pairs)
        };
        fn largest(a: v128) -> f32 = {
            let pairs = f32x4_max(a, i32x4_shuffle::<2, 3, 0, 1>(a, a));
            f32x4_extract_lane::<0>(pairs).max(f32x4_extract_lane::<1>(pairs))
        };
    }

    #[inline(always)]
    unsafe fn load_first(self, count: usize, from: *const f32) -> v128 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match count {
                0 => f32x4_splat(0.0),
                1 => v128_load32_zero(from.cast()),
                2 => v128_load64_zero(from.cast()),
                3 => v128_load32_lane::<2>(v128_load64_zero(from.cast()), from.add(2).cast()),
                _ => self.load(from),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, count: usize, to: *mut f32, value: v128) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match count {
                0 => {}
                1 => v128_store32_lane::<0>(value, to.cast()),
                2 => v128_store64_lane::<0>(value, to.cast()),
                3 => {
                    v128_store64_lane::<0>(value, to.cast());
                    v128_store32_lane::<2>(value, to.add(2).cast());
                }
                _ => self.store(to, value),
            }
        }
    }
}
