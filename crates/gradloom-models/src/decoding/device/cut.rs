//! The tokens of a row that can be drawn: top-k, top-p and min-p by bounds, without a sort.
//!
//! In: the distances of logits behind the likeliest one of their row, and temperatures. Out: weights, 0 for
//! excluded tokens. Always holds: of the tokens at the distance of a bound, those with the lowest ids are
//! kept.
//!
//! Tokens are compared by whole numbers: their distance behind the likeliest, in units of which the farthest
//! token has about 2^30. That is finer than f32 tells logits of usual sizes apart. So that a logit of -10^9,
//! which some models give instead of `-inf`, does not make units of 1, tokens that are 32 temperatures or
//! more behind count as equal: at their weight of e^-32 it does not matter which are kept. Units are coarse
//! (above 10^-5) only where both such a logit and a temperature above 300 are given.

use super::search::{bits, greatest};
use gradloom_core::ir::DType;
use gradloom_core::trace::Tensor;

/// Bits of a distance.
const BITS: u32 = 30;
/// Temperatures from which on tokens are as far behind as any.
const FAR: f64 = 32.0;
/// The distance of tokens that are farther behind than the range, or excluded: the greatest f32 below 2^30.
const FARTHEST: f64 = ((1 << BITS) - 64) as f64;
/// Units of the range: less than [`FARTHEST`], also after rounding.
const UNITS: f64 = ((1 << BITS) - 512) as f64;
/// The least range of a row's distances. 2^30 units for it are still an f32.
const LEAST_RANGE: f64 = 1e-20;

/// The settings of rows that may ask for them, each `[rows, 1]`.
pub(super) struct Cut {
    /// u32.
    pub(super) top_k: Option<Tensor>,
    /// f32.
    pub(super) top_p: Option<Tensor>,
    /// f32.
    pub(super) min_p: Option<Tensor>,
}

/// A bound of each row, as tensors `[rows, 1]`: nearer tokens are kept, and the first few at this distance.
#[derive(Clone, Copy)]
struct Bound {
    /// i32.
    distance: Tensor,
    /// Number of tokens at the distance that are kept, u32.
    room: Tensor,
}

/// The tokens of rows.
struct Tokens {
    /// i32 `[rows, vocabulary]`.
    distances: Tensor,
    /// f32 `[rows, vocabulary]`.
    weights: Tensor,
}

impl Cut {
    /// Returns the weights that are drawn from, f32 `[rows, vocabulary]`: 1 for the likeliest token, 0 for
    /// excluded ones. `behind` has the logits of the row's likeliest token less those of each,
    /// `[rows, vocabulary]`; `temperature` `[rows, 1]` is above 0.
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
    /// Returns the bound of the `k` likeliest tokens.
    #[track_caller]
    fn most(&self, k: Tensor) -> Bound {
        let nearer = |distance: Tensor| count(self.distances.lt(distance));
        let distance = greatest(BITS, k, |distance| nearer(distance).lt(k));
        Bound { distance, room: k - nearer(distance) }
    }

    /// Returns the bound of the likeliest tokens that have the part `p` of the weight that the first bound
    /// keeps.
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
        // Rounding must not cut where everything is wanted.
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

/// Returns the number of elements of each row that are true, u32 `[rows, 1]`.
#[track_caller]
fn count(which: Tensor) -> Tensor {
    which.cast(DType::U32).sum_keep(1)
}
