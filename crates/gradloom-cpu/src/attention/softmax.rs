//! The elementwise parts of attention: the online softmax over rows of scores, and its derivative.
//!
//! In: rows of raw scores, padded to whole vectors. Out: the same rows as probabilities (not yet divided by
//! their sum) or as cotangents. Milakov and Gimelshein, Online normalizer calculation for softmax (2018);
//! Dao, FlashAttention-2 (2023), section 3.1.

use crate::simd::Simd;
use std::ops::Range;

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

/// Replaces the scores of the keys that are `seen` by `exp(scale·score - maximum)` and the rest of `width` by
/// 0, and updates the state. Returns the factor for sums accumulated under the old maximum.
///
/// # Safety
/// `row` must be valid for reads and writes of `width` elements, a whole number of vectors.
#[inline(always)]
pub(super) unsafe fn online_softmax<S: Simd>(
    simd: S,
    row: *mut f32,
    seen: Range<usize>,
    width: usize,
    scale: f32,
    state: &mut Online,
) -> f32 {
    let vectors = Vectors::new::<S>(seen);
    let factor = simd.splat(scale);
    let lowest = simd.splat(f32::NEG_INFINITY);
    let mut maxima = lowest;
    for at in vectors.starts::<S>() {
        // SAFETY: the vector lies within `width`, a whole number of vectors.
        let scaled = simd.mul(unsafe { simd.load(row.add(at)) }, factor);
        maxima = simd.max(vectors.seen(simd, at, scaled, lowest), maxima);
    }
    let maximum = state.maximum.max(simd.largest(maxima));
    // The product is rounded before the shift is added, as it was for the maximum, so the exponent is never
    // above 0.
    let shift = simd.splat(-maximum);
    let zero = simd.splat(0.0);
    let mut sums = zero;
    for at in vectors.starts::<S>() {
        // SAFETY: as above.
        unsafe {
            let value = exp(simd, simd.add(simd.mul(simd.load(row.add(at)), factor), shift));
            let value = vectors.seen(simd, at, value, zero);
            sums = simd.add(sums, value);
            simd.store(row.add(at), value);
        }
    }
    // SAFETY: as above.
    unsafe { vectors.clear_rest(simd, row, width) };
    let rescale = if state.maximum == f32::NEG_INFINITY { 0.0 } else { libm::expf(state.maximum - maximum) };
    *state = Online { maximum, sum: state.sum * rescale + simd.sum(sums) };
    rescale
}

/// Replaces a row of scores by the probabilities `p = exp(scale·score - log_sum)`, and the row of the
/// probabilities' cotangents by the cotangents `scale·p·(cotangent - mean)` of the raw scores. Elements of
/// `width` that are not `seen` become 0.
///
/// # Safety
/// `scores` and `cotangents` must be valid for reads and writes of `width` elements, a whole number of
/// vectors.
#[inline(always)]
pub(super) unsafe fn softmax_gradient<S: Simd>(
    simd: S,
    scores: *mut f32,
    cotangents: *mut f32,
    seen: Range<usize>,
    width: usize,
    row: &RowConstants,
) {
    let vectors = Vectors::new::<S>(seen);
    let factor = simd.splat(row.scale);
    let shift = simd.splat(-row.log_sum);
    let mean = simd.splat(row.mean);
    let zero = simd.splat(0.0);
    for at in vectors.starts::<S>() {
        // SAFETY: the vector lies within `width`, a whole number of vectors.
        unsafe {
            let (scores, cotangents) = (scores.add(at), cotangents.add(at));
            let p = exp(simd, simd.add(simd.mul(simd.load(scores), factor), shift));
            let d = simd.mul(simd.mul(p, factor), simd.sub(simd.load(cotangents), mean));
            simd.store(scores, vectors.seen(simd, at, p, zero));
            simd.store(cotangents, vectors.seen(simd, at, d, zero));
        }
    }
    // SAFETY: as above.
    unsafe {
        vectors.clear_rest(simd, scores, width);
        vectors.clear_rest(simd, cotangents, width);
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

/// The vectors of a row that contain keys that a query sees.
struct Vectors {
    seen: Range<usize>,
    /// Start of the first vector.
    start: usize,
    /// End of the last vector.
    end: usize,
}

impl Vectors {
    #[inline(always)]
    fn new<S: Simd>(seen: Range<usize>) -> Self {
        let start = seen.start / S::LANES * S::LANES;
        Self { start, end: seen.end.next_multiple_of(S::LANES).max(start), seen }
    }

    /// Returns the indices of the vectors' first elements.
    #[inline(always)]
    fn starts<S: Simd>(&self) -> impl Iterator<Item = usize> + use<S> {
        (self.start..self.end).step_by(S::LANES)
    }

    /// Replaces the elements of the vector at index `at` that are not seen by those of `otherwise`.
    #[inline(always)]
    fn seen<S: Simd>(&self, simd: S, at: usize, value: S::F32s, otherwise: S::F32s) -> S::F32s {
        let Range { start, end } = self.seen;
        let value = if at < start { simd.first(start - at, otherwise, value) } else { value };
        if end < at + S::LANES { simd.first(end - at, value, otherwise) } else { value }
    }

    /// Zeroes the elements of `width` that are outside of the vectors.
    ///
    /// # Safety
    /// `row` must be valid for writes of `width` elements, a whole number of vectors.
    #[inline(always)]
    unsafe fn clear_rest<S: Simd>(&self, simd: S, row: *mut f32, width: usize) {
        for at in (0..self.start).step_by(S::LANES).chain((self.end..width).step_by(S::LANES)) {
            // SAFETY: guaranteed by the caller.
            unsafe { simd.store(row.add(at), simd.splat(0.0)) };
        }
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
