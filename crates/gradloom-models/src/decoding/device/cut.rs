//! Top-k, top-p and min-p truncation of a row by thresholds, without sorting.
//!
//! In: the distance of each logit below the row's maximum, and temperatures. Out: weights, 0 for excluded
//! tokens. Invariant: of the tokens exactly at the threshold, those with the lowest ids are kept.
//!
//! Tokens are compared by integer distances from the maximum, in units that map the largest distance to about
//! 2^30. This is finer than the resolution of f32 for logits of typical size. A logit of -10^9, which some
//! models produce instead of `-inf`, must not make the unit as large as 1, so tokens at a distance of 32
//! temperatures or more count as equal; with weights of at most e^-32, it is irrelevant which of them are
//! kept. Units are coarse (above 10^-5) only if such a logit is combined with a temperature above 300.

use super::search::{bits, greatest};
use gradloom_core::ir::DType;
use gradloom_core::trace::Tensor;

/// Number of bits of a distance.
const BITS: u32 = 30;
/// Distance, in temperatures, from which on tokens count as equal.
const FAR: f64 = 32.0;
/// Distance of tokens beyond the range or excluded: the largest f32 below 2^30.
const FARTHEST: f64 = ((1 << BITS) - 64) as f64;
/// Number of units in the range; less than [`FARTHEST`] even after rounding.
const UNITS: f64 = ((1 << BITS) - 512) as f64;
/// Minimum range of a row's distances, for which 2^30 divided by the range still fits in an f32.
const LEAST_RANGE: f64 = 1e-20;

/// Truncation settings of each row, as tensors `[rows, 1]`. Absent settings are not traced.
pub(super) struct Cut {
    /// Number of tokens kept, u32.
    pub(super) top_k: Option<Tensor>,
    /// Fraction of the probability kept, f32.
    pub(super) top_p: Option<Tensor>,
    /// Minimum probability relative to the most likely token, f32.
    pub(super) min_p: Option<Tensor>,
}

/// Threshold of each row, as tensors `[rows, 1]`. All tokens at smaller distances are kept, and the first
/// `room` tokens at this distance.
#[derive(Clone, Copy)]
struct Bound {
    /// Distance of the threshold, i32.
    distance: Tensor,
    /// Number of tokens kept at the distance, u32.
    room: Tensor,
}

/// Distances and weights of the tokens in each row.
struct Tokens {
    /// Integer distances, i32 `[rows, vocabulary]`.
    distances: Tensor,
    /// Unnormalized probabilities, f32 `[rows, vocabulary]`.
    weights: Tensor,
}

impl Cut {
    /// Returns the weights to draw from, f32 `[rows, vocabulary]`: 1 for the most likely token, 0 for
    /// excluded ones. `behind`, `[rows, vocabulary]`, contains the row's largest logit minus each logit.
    /// `temperature`, `[rows, 1]`, is positive.
    #[track_caller]
    pub(super) fn weights(&self, behind: Tensor, temperature: Tensor, ids: Tensor) -> Tensor {
        let range = behind.is_finite().select(behind, 0.0).max_keep(1).minimum(temperature * FAR);
        let units = range.maximum(LEAST_RANGE).reciprocal() * UNITS;
        let distances = (behind * units).minimum(FARTHEST).cast(DType::I32);
        let tokens = Tokens { distances, weights: (behind * -temperature.reciprocal()).exp() };
        let by_count = self.top_k.map(|k| tokens.most(k));
        let by_mass = self.top_p.map(|p| tokens.nucleus(p, by_count));
        let mut weights = tokens.weights;
        if let Some(bound) = by_mass.or(by_count) {
            let at_bound = distances.eq(bound.distance);
            let [_, vocabulary] = ids.dims();
            let last = greatest(bits(vocabulary), bound.distance, |id| {
                count(at_bound.logical_and(ids.lt(id))).lt(bound.room)
            });
            let kept = distances.lt(bound.distance).logical_or(at_bound.logical_and(ids.le(last)));
            weights = kept.select(weights, 0.0);
        }
        self.min_p.map_or(weights, |p| weights.ge(p).select(weights, 0.0))
    }
}

impl Tokens {
    /// Returns the threshold of the `k` most likely tokens.
    #[track_caller]
    fn most(&self, k: Tensor) -> Bound {
        let nearer = |distance: Tensor| count(self.distances.lt(distance));
        let distance = greatest(BITS, k, |distance| nearer(distance).lt(k));
        Bound { distance, room: k - nearer(distance) }
    }

    /// Returns the threshold of the most likely tokens that together have the fraction `p` of the weight
    /// within `first`.
    #[track_caller]
    fn nucleus(&self, p: Tensor, first: Option<Bound>) -> Bound {
        let mass = |which: Tensor| which.select(self.weights, 0.0).sum_keep(1);
        let at = |bound: Tensor| {
            let at_bound = self.distances.eq(bound);
            (mass(self.distances.lt(bound)), mass(at_bound), count(at_bound))
        };
        let all = match first {
            None => self.weights.sum_keep(1),
            Some(Bound { distance, room }) => {
                let (nearer, here, ties) = at(distance);
                nearer + here * room.minimum(ties).cast(DType::F32) / ties.maximum(1).cast(DType::F32)
            }
        };
        let enough = all * p;
        // At p = 1, keep every token, because rounding could exclude some.
        let everything = p.ge(1.0);
        let distance =
            greatest(BITS, p, |distance| mass(self.distances.lt(distance)).lt(enough).logical_or(everything));
        let (nearer, here, ties) = at(distance);
        let missing = ((enough - nearer) * ties.cast(DType::F32) / here).ceil();
        let room = missing.cast(DType::U32).maximum(1);
        match first {
            None => Bound { distance, room },
            Some(first) => {
                let both = first.room.minimum(room);
                let farther = distance.gt(first.distance).select(first.room, both);
                let room = distance.lt(first.distance).select(room, farther);
                Bound { distance: distance.minimum(first.distance), room }
            }
        }
    }
}

/// Returns the number of true elements in each row, u32 `[rows, 1]`.
#[track_caller]
fn count(which: Tensor) -> Tensor {
    which.cast(DType::U32).sum_keep(1)
}
