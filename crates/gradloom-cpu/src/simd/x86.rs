//! AVX2 and AVX-512 vectors.
//!
//! In: the operations of [`Simd`]. Out: 256-bit or 512-bit instructions.

use super::{Simd, Vectorized, instructions};
use std::arch::x86_64::*;

/// Proof that the processor has AVX2 and FMA. Vectors have 256 bits.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The processor must have AVX2 and FMA.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// Returns a mask with all bits set in the first `count` lanes of eight.
#[inline(always)]
fn first_of_8(count: usize) -> __m256i {
    static LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    let from = &LANES[8 - count.min(8)..][..8];
    // SAFETY: `from` has eight integers.
    unsafe { from.as_ptr().cast::<__m256i>().read_unaligned() }
}

// SAFETY: the caller of `new` guarantees that the processor supports the instructions; vectors have 256 bits.
unsafe impl Simd for Avx2 {
    type F32s = __m256;
    const LANES: usize = 8;
    const REGISTERS: usize = 16;

    #[inline(always)]
    fn vectorize(self, code: impl Vectorized) {
        #[target_feature(enable = "avx2,fma")]
        fn run(simd: Avx2, code: impl Vectorized) {
            code.with_simd(simd);
        }
        // SAFETY: a value of this type proves that the processor supports the instructions.
        unsafe { run(self, code) };
    }

    instructions! {
        fn splat(value: f32) -> __m256 = _mm256_set1_ps(value);
        fn add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        fn sub(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        fn mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fn max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        fn select_less(a: __m256, b: __m256, then: __m256, otherwise: __m256) -> __m256 =
            _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
        fn power_of_two(n: __m256) -> __m256 = {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(n));
            _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f80_0000)))
        };
        fn sum(a: __m256) -> f32 = {
            let fours = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let twos = _mm_add_ps(fours, _mm_movehl_ps(fours, fours));
            _mm_cvtss_f32(_mm_add_ss(twos, _mm_shuffle_ps::<1>(twos, twos)))
        };
        fn largest(a: __m256) -> f32 = {
            let fours = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let twos = _mm_max_ps(fours, _mm_movehl_ps(fours, fours));
            _mm_cvtss_f32(_mm_max_ss(twos, _mm_shuffle_ps::<1>(twos, twos)))
        };
        fn first(count: usize, a: __m256, otherwise: __m256) -> __m256 =
            _mm256_blendv_ps(otherwise, a, _mm256_castsi256_ps(first_of_8(count)));
    }

    #[inline(always)]
    unsafe fn load_first(self, count: usize, from: *const f32) -> __m256 {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_maskload_ps(from, first_of_8(count)) }
    }

    #[inline(always)]
    unsafe fn store_first(self, count: usize, to: *mut f32, value: __m256) {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_maskstore_ps(to, first_of_8(count), value) }
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const u8) -> __m256 {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn load_nibbles(self, from: *const u8, high: bool) -> __m256 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()));
            let bits = if high { _mm256_srli_epi32::<4>(bytes) } else { bytes };
            let bits = _mm256_and_si256(bits, _mm256_set1_epi32(15));
            _mm256_cvtepi32_ps(_mm256_sub_epi32(bits, _mm256_set1_epi32(8)))
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u16) -> __m256 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }
}

/// Proof that the processor has AVX-512 F, BW, DQ and VL. Vectors have 512 bits.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The processor must have AVX-512 F, BW, DQ and VL, AVX2 and FMA.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// Returns a mask with a bit for each of the first `count` lanes of 16.
#[inline(always)]
fn first_of_16(count: usize) -> __mmask16 {
    ((1u32 << count.min(16)) - 1) as __mmask16
}

// SAFETY: the caller of `new` guarantees that the processor supports the instructions; vectors have 512 bits.
unsafe impl Simd for Avx512 {
    type F32s = __m512;
    const LANES: usize = 16;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn vectorize(self, code: impl Vectorized) {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
        fn run(simd: Avx512, code: impl Vectorized) {
            code.with_simd(simd);
        }
        // SAFETY: a value of this type proves that the processor supports the instructions.
        unsafe { run(self, code) };
    }

    instructions! {
        fn splat(value: f32) -> __m512 = _mm512_set1_ps(value);
        fn add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        fn sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        fn mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        fn max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        fn select_less(a: __m512, b: __m512, then: __m512, otherwise: __m512) -> __m512 =
            _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), otherwise, then);
        fn power_of_two(n: __m512) -> __m512 = {
            let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(n));
            _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f80_0000)))
        };
        fn sum(a: __m512) -> f32 = {
            let eights = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            Avx2(()).sum(eights)
        };
        fn largest(a: __m512) -> f32 = {
            let eights = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            Avx2(()).largest(eights)
        };
        fn first(count: usize, a: __m512, otherwise: __m512) -> __m512 =
            _mm512_mask_blend_ps(first_of_16(count), otherwise, a);
        fn splat_f16(bits: u16) -> __m512 = _mm512_cvtph_ps(_mm256_set1_epi16(bits.cast_signed()));
    }

    #[inline(always)]
    unsafe fn load_first(self, count: usize, from: *const f32) -> __m512 {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_maskz_loadu_ps(first_of_16(count), from) }
    }

    #[inline(always)]
    unsafe fn store_first(self, count: usize, to: *mut f32, value: __m512) {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_mask_storeu_ps(to, first_of_16(count), value) }
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const u8) -> __m512 {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn load_nibbles(self, from: *const u8, high: bool) -> __m512 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            // The permutation uses only the low four bits of each index, so the others need not be cleared.
            let table = _mm512_setr_ps(
                -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0,
            );
            let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()));
            let bits = if high { _mm512_srli_epi32::<4>(bytes) } else { bytes };
            _mm512_permutexvar_ps(bits, table)
        }
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> __m512 {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u16) -> __m512 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
}
