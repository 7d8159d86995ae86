//! The elementwise parts of attention: the online softmax over rows of scores, and its derivative.
//!
//! In: rows of raw scores, padded to whole vectors. Out: the same rows as probabilities (not yet divided by
//! their sum) or as cotangents. Milakov and Gimelshein, Online normalizer calculation for softmax (2018);
//! Dao, FlashAttention-2 (2023), section 3.1.

use crate::simd::Simd;

/// State of one query's online softmax: the largest scaled score so far, and the sum of the exponentials
/// relative to it.
#[derive(Clone, Copy)]
pub(super) struct Online {
    pub(super) maximum: f32,
    pub(super) sum: f32,
}

impl Online {
    /// The state before any key has been processed.
    pub(super) const EMPTY: Online = Online { maximum: f32::NEG_INFINITY, sum: 0.0 };
}

/// Replaces `count` scores by `exp(scale·score - maximum)` and the rest of `width` by 0, and updates the
/// state. Returns the factor for sums accumulated under the old maximum.
///
/// # Safety
/// `row` must be valid for reads and writes of `width` elements, a whole number of vectors, of which the
/// first `count` are scores.
#[inline(always)]
pub(super) unsafe fn online_softmax<S: Simd>(
    simd: S,
    row: *mut f32,
    count: usize,
    width: usize,
    scale: f32,
    state: &mut Online,
) -> f32 {
    let lanes = S::LANES;
    let factor = simd.splat(scale);
    let whole = count / lanes * lanes;
    let lowest = simd.splat(f32::NEG_INFINITY);
    let mut maxima = lowest;
    for at in (0..whole).step_by(lanes) {
        // SAFETY: the vector lies within the row's `width` elements.
        maxima = simd.max(simd.mul(unsafe { simd.load(row.add(at)) }, factor), maxima);
    }
    if whole < count {
        // SAFETY: the vector lies within `width`, a whole number of vectors.
        let scaled = simd.mul(unsafe { simd.load(row.add(whole)) }, factor);
        maxima = simd.max(simd.first(count - whole, scaled, lowest), maxima);
    }
    let maximum = state.maximum.max(simd.largest(maxima));
    // The product is rounded before the shift is added, as it was for the maximum, so the exponent is never
    // above 0.
    let shift = simd.splat(-maximum);
    let mut sums = simd.splat(0.0);
    for at in (0..whole).step_by(lanes) {
        // SAFETY: as above.
        unsafe {
            let value = exp(simd, simd.add(simd.mul(simd.load(row.add(at)), factor), shift));
            sums = simd.add(sums, value);
            simd.store(row.add(at), value);
        }
    }
    let mut end = whole;
    if whole < count {
        // SAFETY: as above.
        unsafe {
            let value = exp(simd, simd.add(simd.mul(simd.load(row.add(whole)), factor), shift));
            let value = simd.first(count - whole, value, simd.splat(0.0));
            sums = simd.add(sums, value);
            simd.store(row.add(whole), value);
        }
        end += lanes;
    }
    // SAFETY: as above.
    unsafe { clear(simd, row, end, width) };
    let rescale = if state.maximum == f32::NEG_INFINITY { 0.0 } else { libm::expf(state.maximum - maximum) };
    *state = Online { maximum, sum: state.sum * rescale + simd.sum(sums) };
    rescale
}

/// Replaces a row of scores by the probabilities `p = exp(scale·score - log_sum)`, and the row of the
/// probabilities' cotangents by the cotangents `scale·p·(cotangent - mean)` of the raw scores. Elements from
/// `count` to `width` become 0.
///
/// # Safety
/// `scores` and `cotangents` must be valid for reads and writes of `width` elements, a whole number of
/// vectors.
#[inline(always)]
pub(super) unsafe fn softmax_gradient<S: Simd>(
    simd: S,
    scores: *mut f32,
    cotangents: *mut f32,
    count: usize,
    width: usize,
    row: &RowConstants,
) {
    let lanes = S::LANES;
    let factor = simd.splat(row.scale);
    let shift = simd.splat(-row.log_sum);
    let mean = simd.splat(row.mean);
    let zero = simd.splat(0.0);
    for at in (0..count).step_by(lanes) {
        // SAFETY: the vector lies within `width`, a whole number of vectors.
        unsafe {
            let (scores, cotangents) = (scores.add(at), cotangents.add(at));
            let mut p = exp(simd, simd.add(simd.mul(simd.load(scores), factor), shift));
            let mut d = simd.mul(simd.mul(p, factor), simd.sub(simd.load(cotangents), mean));
            if at + lanes > count {
                p = simd.first(count - at, p, zero);
                d = simd.first(count - at, d, zero);
            }
            simd.store(scores, p);
            simd.store(cotangents, d);
        }
    }
    // SAFETY: as above.
    unsafe {
        clear(simd, scores, count.next_multiple_of(lanes), width);
        clear(simd, cotangents, count.next_multiple_of(lanes), width);
    }
}

/// Per-row constants of [`softmax_gradient`].
pub(super) struct RowConstants {
    /// Factor applied to the scores.
    pub(super) scale: f32,
    /// Logarithm of the sum of the exponentials of the scaled scores.
    pub(super) log_sum: f32,
    /// Mean of the probabilities' cotangents, weighted by the probabilities; equal to the dot product of the
    /// output and its cotangent.
    pub(super) mean: f32,
}

/// Zeroes the elements from `start` to `end`, both multiples of the vector length.
///
/// # Safety
/// `row` must be valid for writes of `end` elements.
#[inline(always)]
unsafe fn clear<S: Simd>(simd: S, row: *mut f32, start: usize, end: usize) {
    for at in (start..end).step_by(S::LANES) {
        // SAFETY: guaranteed by the caller.
        unsafe { simd.store(row.add(at), simd.splat(0.0)) };
    }
}

/// Returns `e^x` for `-87 <= x <= 88`, within 2 units in the last place. Returns 0 for smaller `x`, and NaN
/// for NaN.
///
/// Uses Cody and Waite's reduction to `|r| <= ln(2) / 2`, then the Taylor polynomial of degree 7, whose
/// truncation error is 2e-9.
#[inline(always)]
fn exp<S: Simd>(simd: S, x: S::F32s) -> S::F32s {
    /// Adding this constant to a number rounds the number to an integer and leaves that integer in the low
    /// bits, which are 0 in the constant.
    const ROUND: f32 = 12_582_912.0;
    /// ln(2) in two parts. The first has few enough bits that its products with exponents are exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    /// Lower bound of `x` that keeps `2^n` a normal number.
    const LOWEST: f32 = -87.0;
    let constant = |value| simd.splat(value);
    // `max` returns its second operand if that is NaN, so `bounded` is NaN if `x` is.
    let bounded = simd.max(constant(LOWEST), x);
    let shifted = simd.mul_add(bounded, constant(std::f32::consts::LOG2_E), constant(ROUND));
    let n = simd.sub(shifted, constant(ROUND));
    let r = simd.mul_add(n, constant(-LN_2[0]), bounded);
    let r = simd.mul_add(n, constant(-LN_2[1]), r);
    let mut polynomial = constant(1.0 / 5040.0);
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        polynomial = simd.mul_add(polynomial, r, constant(coefficient));
    }
    let power = simd.mul(polynomial, simd.power_of_two(shifted));
    simd.select_less(x, constant(LOWEST), constant(0.0), power)
}
