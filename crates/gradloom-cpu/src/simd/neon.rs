//! AArch64 vectors.
//!
//! In: the operations of [`Simd`]. Out: 128-bit instructions, which every AArch64 processor supports.

use super::{Simd, instructions};
use std::arch::aarch64::*;

/// Proof that the processor has NEON, as every AArch64 processor does. Vectors have 128 bits.
#[derive(Clone, Copy)]
pub(super) struct Neon;

// SAFETY: every AArch64 processor supports the instructions; vectors have 128 bits.
unsafe impl Simd for Neon {
    type F32s = float32x4_t;
    const LANES: usize = 4;
    const REGISTERS: usize = 32;

    instructions! {
        fn splat(value: f32) -> float32x4_t = vdupq_n_f32(value);
        fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t = vaddq_f32(a, b);
        fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t = vsubq_f32(a, b);
        fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmulq_f32(a, b);
        fn mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
        fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmaxq_f32(a, b);
        fn select_less(
            a: float32x4_t, b: float32x4_t, then: float32x4_t, otherwise: float32x4_t
        ) -> float32x4_t = vbslq_f32(vcltq_f32(a, b), then, otherwise);
        fn power_of_two(n: float32x4_t) -> float32x4_t = {
            let exponent = vshlq_n_s32::<23>(vreinterpretq_s32_f32(n));
            vreinterpretq_f32_s32(vaddq_s32(exponent, vdupq_n_s32(0x3f80_0000)))
        };
        fn sum(a: float32x4_t) -> f32 = vaddvq_f32(a);
        fn largest(a: float32x4_t) -> f32 = vmaxvq_f32(a);
    }

    #[inline(always)]
    unsafe fn load_first(self, count: usize, from: *const f32) -> float32x4_t {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match count {
                0 => vdupq_n_f32(0.0),
                1 => vld1q_lane_f32::<0>(from, vdupq_n_f32(0.0)),
                2 => vcombine_f32(vld1_f32(from), vdup_n_f32(0.0)),
                3 => vld1q_lane_f32::<2>(from.add(2), vcombine_f32(vld1_f32(from), vdup_n_f32(0.0))),
                _ => vld1q_f32(from),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, count: usize, to: *mut f32, value: float32x4_t) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match count {
                0 => {}
                1 => vst1q_lane_f32::<0>(to, value),
                2 => vst1_f32(to, vget_low_f32(value)),
                3 => {
                    vst1_f32(to, vget_low_f32(value));
                    vst1q_lane_f32::<2>(to.add(2), value);
                }
                _ => vst1q_f32(to, value),
            }
        }
    }
}
