//! Conversions that LLVM does not find by itself, for AVX2 and AVX-512.
//!
//! In: addresses of integers or floats of 16 bits. Out: a vector of f32 for the instruction set `S`, or none
//! of others. Always holds: `S` is a proof that the processor has the instructions; which branch is taken is
//! known to the compiler.

use pulp::Simd;
use pulp::x86::{V3, V4};
use std::any::TypeId;
use std::arch::x86_64::*;

/// Whether the instruction set is `V`.
#[inline(always)]
fn is<S: Simd, V: 'static>() -> bool {
    TypeId::of::<S>() == TypeId::of::<V>()
}

/// The vector as the type that `S` has for it.
///
/// # Safety
/// `T` must be the register that `S::f32s` is.
#[inline(always)]
unsafe fn vector<S: Simd, T>(vector: T) -> S::f32s {
    debug_assert_eq!(size_of::<T>(), size_of::<S::f32s>());
    // SAFETY: as promised by the caller.
    unsafe { std::mem::transmute_copy(&vector) }
}

/// As many i8.
///
/// # Safety
/// They must be readable.
#[inline(always)]
pub(super) unsafe fn from_i8<S: Simd>(from: *const u8) -> Option<S::f32s> {
    // SAFETY: as promised by the caller; the processor has what `S` stands for.
    unsafe {
        if is::<S, V4>() {
            let wide = _mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()));
            return Some(vector::<S, _>(_mm512_cvtepi32_ps(wide)));
        }
        if is::<S, V3>() {
            let wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()));
            return Some(vector::<S, _>(_mm256_cvtepi32_ps(wide)));
        }
        None
    }
}

/// The low or the high four bits of as many bytes, less 8.
///
/// # Safety
/// They must be readable.
#[inline(always)]
pub(super) unsafe fn from_nibbles<S: Simd>(from: *const u8, high: bool) -> Option<S::f32s> {
    // SAFETY: as promised by the caller; the processor has what `S` stands for.
    unsafe {
        if is::<S, V4>() {
            // Of an index into 16 lanes, four bits count.
            let table = _mm512_setr_ps(
                -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0,
            );
            let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()));
            let bits = if high { _mm512_srli_epi32::<4>(bytes) } else { bytes };
            return Some(vector::<S, _>(_mm512_permutexvar_ps(bits, table)));
        }
        if is::<S, V3>() {
            let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()));
            let bits = if high { _mm256_srli_epi32::<4>(bytes) } else { bytes };
            let bits = _mm256_and_si256(bits, _mm256_set1_epi32(15));
            let less = _mm256_sub_epi32(bits, _mm256_set1_epi32(8));
            return Some(vector::<S, _>(_mm256_cvtepi32_ps(less)));
        }
        None
    }
}

/// An f16 in all lanes.
///
/// # Safety
/// None beyond `S`.
#[inline(always)]
pub(super) unsafe fn splat_f16<S: Simd>(bits: u16) -> Option<S::f32s> {
    // SAFETY: the processor has what `S` stands for.
    is::<S, V4>().then(|| unsafe { vector::<S, _>(_mm512_cvtph_ps(_mm256_set1_epi16(bits.cast_signed()))) })
}

/// As many f16.
///
/// # Safety
/// They must be readable.
#[inline(always)]
pub(super) unsafe fn from_f16<S: Simd>(from: *const u16) -> Option<S::f32s> {
    // SAFETY: as promised by the caller; the processor has what `S` stands for.
    unsafe {
        if is::<S, V4>() {
            return Some(vector::<S, _>(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))));
        }
        None
    }
}

/// As many bf16.
///
/// # Safety
/// They must be readable.
#[inline(always)]
pub(super) unsafe fn from_bf16<S: Simd>(from: *const u16) -> Option<S::f32s> {
    // SAFETY: as promised by the caller; the processor has what `S` stands for.
    unsafe {
        if is::<S, V4>() {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            return Some(vector::<S, _>(_mm512_slli_epi32::<16>(wide)));
        }
        if is::<S, V3>() {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            return Some(vector::<S, _>(_mm256_slli_epi32::<16>(wide)));
        }
        None
    }
}
