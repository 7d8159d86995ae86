//! Gradient of attention without shared memory.
//!
//! In the first kernel, each invocation processes separate queries; in the second, separate keys. The first
//! kernel also stores the dot product of each query's output and its cotangent, which the second needs. Dao,
//! FlashAttention-2 (2023), section 3.1.2.

use super::super::Value;
use super::Attention;
use super::bounds::QueryRange;
use super::part::AttentionPart;
use super::shares::Shares;
use crate::narrow::narrow;
use gradloom_core::ir::UnaryOp;

impl<'k> Attention<'k, '_> {
    /// Appends the computation of dq and, for the kernel of the keys, of each query's mean.
    pub(super) fn query_gradient_by_rows(&self, shares: &Shares) {
        let k = self.k;
        let [q, keys, values] = self.queries_keys_values();
        let [output, log_sum, cotangent] = self.output_and_cotangent();
        let (write, scratch) = (self.result(0), self.means());
        self.own_rows(shares, |place| {
            let bounds = self.bounds(place.of[0]);
            let of_keys = [place.of[0], self.key_head(place.of[1])];
            let (ranges, [begin, end]) = place.keys(&bounds);
            let (own_queries, own_slopes) = (self.own(q, place), self.own(cotangent, place));
            let known = self.known_means(place.of, &place.there);
            let is_known = known.is_some();
            let means = known.unwrap_or_else(|| self.products_by_row(&own_slopes, output, place));
            let part = AttentionPart::new(k, place, self.problem.depth);
            if !is_known {
                place.each_row(|r, query| {
                    place.in_first_part(|| k.store(scratch, self.query_number(place.of, query), means[r]));
                });
            }
            let log_sum = |&query: &Value<'k>| log_sum.number(log_sum.start(place.of, query));
            let log_sums: Vec<_> = place.there.iter().map(log_sum).collect();
            if self.problem.keys > 0 {
                k.count(begin, end, k.u32(1), |key| {
                    let (from, value) = (self.key_row(1, of_keys, key), self.key_row(2, of_keys, key));
                    let products = self.products(&own_queries, keys, from);
                    let slopes = self.products(&own_slopes, values, value);
                    let slope = |r: usize| {
                        let weight = (products.sums[r] * self.scale() - log_sums[r]).unary(UnaryOp::Exp);
                        let product = self.share(place.of, place.there[r], key, slopes.sums[r]);
                        let slope = weight * (product - means[r]) * self.scale();
                        place.shown(key, &ranges[r], slope, 0.0)
                    };
                    let slopes: Vec<_> = (0..ranges.len()).map(slope).collect();
                    part.add_known(products.with.as_deref(), &slopes, (keys, from));
                });
            }
            place.each_row(|r, query| part.store(write, write.start(place.of, query), r, None));
        });
    }

    /// Appends the computation of dk and dv.
    pub(super) fn key_gradient_by_rows(&self, shares: &Shares) {
        let (k, problem) = (self.k, self.problem);
        let [q, keys, values] = self.queries_keys_values();
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        let (results, scratch) = ([self.result(1), self.result(2)], self.means());
        self.own_rows(shares, |place| {
            let bounds = self.bounds(place.of[0]);
            let (own_keys, own_values) = (self.own(keys, place), self.own(values, place));
            let parts = [problem.depth, problem.value_depth].map(|width| AttentionPart::new(k, place, width));
            let ranges: Vec<_> = place.there.iter().map(|&key| bounds.queries(key)).collect();
            let (begin, end) = (bounds.begin_of_queries(place.first), bounds.query_end(place.last));
            let end = end.unwrap_or(k.u32(narrow(problem.queries)));
            let (key_head, sharing) = (place.of[1], narrow(problem.sharing()));
            k.count(key_head * sharing, (key_head + 1) * sharing, k.u32(1), |head| {
                let of = [place.of[0], head];
                k.count(begin, end, k.u32(1), |query| {
                    let (from, slope) = (q.start(of, query), cotangent.start(of, query));
                    let log_sum = log_sum.number(log_sum.start(of, query));
                    let mean = k.load(scratch, self.query_number(of, query));
                    let products = self.products(&own_keys, q, from);
                    let slopes = self.products(&own_values, cotangent, slope);
                    let weigh = |(r, range): (usize, &QueryRange<'k>)| {
                        // Mask both the weight and its slope: the elements of a key that no query sees may be
                        // NaN.
                        let is_seen = range.contains(query);
                        let weight = (products.sums[r] * self.scale() - log_sum).unary(UnaryOp::Exp);
                        let weight = is_seen.select(weight, k.f32(0.0));
                        let share = |share| self.share(of, query, place.there[r], share);
                        let slope = weight * (share(slopes.sums[r]) - mean) * self.scale();
                        (share(weight), is_seen.select(slope, k.f32(0.0)))
                    };
                    let weighed = ranges.iter().enumerate().map(weigh);
                    let (weights, slopes_of_scores): (Vec<_>, Vec<_>) = weighed.unzip();
                    parts[1].add_known(slopes.with.as_deref(), &weights, (cotangent, slope));
                    parts[0].add_known(products.with.as_deref(), &slopes_of_scores, (q, from));
                });
            });
            place.each_row(|r, key| {
                for (&write, part) in results.iter().zip(&parts) {
                    part.store(write, write.start(place.of, key), r, None);
                }
            });
        });
    }
}
