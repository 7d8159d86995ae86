//! Attention for few query rows per key/value head, as in token-by-token generation. Packing is not
//! worthwhile because each key and value is used only once or twice, and operands are not rounded.
//!
//! In: a query, and the addresses of contiguous keys or values, stored as f32 or as 16-bit floats. Out:
//! scores, or sums of values weighted by probabilities.

use crate::matrix::stored::Stored;
use crate::simd::Simd;

/// Returns the dot product of `a` and `b`, which have `depth` elements with strides `steps`.
///
/// # Safety
/// `a` and `b` must be valid for reads of those elements.
#[inline(always)]
pub(super) unsafe fn dot<S: Simd, E: Stored>(
    simd: S,
    a: *const f32,
    b: *const E,
    steps: [usize; 2],
    depth: usize,
) -> f32 {
    let lanes = S::LANES;
    let whole = if steps == [1, 1] { depth / lanes * lanes } else { 0 };
    // Use two partial sums, which hide half of the addition latency. More would not pay off, because a row is
    // only a few vectors long.
    let mut sums = [simd.splat(0.0); 2];
    let mut sum = 0.0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        for (turn, at) in (0..whole).step_by(lanes).enumerate() {
            sums[turn % 2] = simd.mul_add(simd.load(a.add(at)), E::load(simd, b.add(at)), sums[turn % 2]);
        }
        for at in whole..depth {
            sum += *a.add(at * steps[0]) * (*b.add(at * steps[1])).widen();
        }
    }
    sum + simd.sum(simd.add(sums[0], sums[1]))
}

/// Computes `to = rescale·to + sum of weights[i]·value(i)` for `count` values of `columns` elements. Without
/// `rescale`, overwrites `to`.
///
/// # Safety
/// `value(i)` must be valid for reads of `columns` contiguous elements for `i < count`, and `weights` for
/// reads of `count` elements. `to` must be valid for reads and writes of `columns` elements, which nothing
/// else may access.
#[inline(always)]
pub(super) unsafe fn weighted_sum<S: Simd, E: Stored>(
    simd: S,
    weights: *const f32,
    count: usize,
    value: impl Fn(usize) -> *const E,
    to: *mut f32,
    columns: usize,
    rescale: Option<f32>,
) {
    /// Number of vectors of sums held in registers.
    const WIDE: usize = 4;
    let lanes = S::LANES;
    let mut start = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while start + WIDE * lanes <= columns {
            let mut sums = [simd.splat(0.0); WIDE];
            for i in 0..count {
                let weight = simd.splat(*weights.add(i));
                let value = value(i).add(start);
                for v in 0..WIDE {
                    sums[v] = simd.mul_add(weight, E::load(simd, value.add(v * lanes)), sums[v]);
                }
            }
            for v in 0..WIDE {
                let to = to.add(start + v * lanes);
                let sum = match rescale {
                    Some(factor) => simd.mul_add(simd.splat(factor), simd.load(to), sums[v]),
                    None => sums[v],
                };
                simd.store(to, sum);
            }
            start += WIDE * lanes;
        }
        while start < columns {
            let used = (columns - start).min(lanes);
            let mut sum = simd.splat(0.0);
            for i in 0..count {
                let value = E::load_up_to(simd, used, value(i).add(start));
                sum = simd.mul_add(simd.splat(*weights.add(i)), value, sum);
            }
            let to = to.add(start);
            if let Some(factor) = rescale {
                sum = simd.mul_add(simd.splat(factor), simd.load_first(used, to), sum);
            }
            simd.store_first(used, to, sum);
            start += lanes;
        }
    }
}
