//! Attention without shared memory: each invocation processes separate queries.
//!
//! It is used on devices on which barriers cost more than they save, for few keys, and for rows that do not
//! fit in shared memory. Long output rows are split among invocations, which all compute the scores. If loads
//! are expensive, an invocation processes several queries, so that it loads each key once for all of them.
//! Milakov and Gimelshein, Online normalizer calculation for softmax (2018).

use super::super::Value;
use super::part::AttentionPart;
use super::shares::Shares;
use super::{Attention, LOWEST};
use gradloom_core::ir::UnaryOp;

impl<'k> Attention<'k, '_> {
    /// Appends the computation of the output and the log-sum-exp.
    pub(super) fn forward_by_rows(&self, shares: &Shares) {
        let k = self.k;
        let [q, keys, values] = self.queries_keys_values();
        let [output, log_sum] = [self.result(0), self.result(1)];
        let zero = k.u32(0);
        self.own_rows(shares, |place| {
            let bounds = self.bounds(place.of[0]);
            let of_keys = [place.of[0], self.key_head(place.of[1])];
            // A single invocation checks the table of its sequence.
            let is_first = [place.of[1], place.rows[0], place.part].map(|number| number.equals(zero));
            let is_first = is_first.into_iter().reduce(|a, b| a & b).expect("there are three");
            self.check_table(&bounds, place.of[0], is_first, [zero, k.u32(1)]);
            let (ranges, [begin, end]) = place.keys(&bounds);
            let own = self.own(q, place);
            let part = AttentionPart::new(k, place, self.problem.value_depth);
            let numbers = |first: f32| -> Vec<_> { ranges.iter().map(|_| k.var(k.f32(first))).collect() };
            let (maximum, sum) = (numbers(LOWEST), numbers(0.0));
            if self.problem.keys > 0 {
                k.count(begin, end, k.u32(1), |key| {
                    let (from, value) = (self.key_row(1, of_keys, key), self.key_row(2, of_keys, key));
                    let products = self.products(&own, keys, from);
                    let weigh = |(r, &product): (usize, &Value<'k>)| {
                        let (score, before) = (product * self.scale(), maximum[r].get());
                        let next = before.native_max(place.shown(key, &ranges[r], score, LOWEST));
                        let keep = (before - next).unary(UnaryOp::Exp);
                        maximum[r].set(next);
                        let weight = (score - next).unary(UnaryOp::Exp);
                        let weight = place.shown(key, &ranges[r], weight, 0.0);
                        sum[r].set(sum[r].get() * keep + weight);
                        (keep, weight)
                    };
                    let (keep, weights): (Vec<_>, Vec<_>) =
                        products.sums.iter().enumerate().map(weigh).unzip();
                    let share = |(&query, weight)| self.share(place.of, query, key, weight);
                    let shares: Vec<_> = place.there.iter().zip(weights).map(share).collect();
                    part.add(Some(&keep), &shares, (values, value));
                });
            }
            place.each_row(|r, query| {
                let sees_any = ranges[r].is_any();
                let total = sum[r].get();
                let factor = sees_any.select(k.f32(1.0) / total, k.f32(0.0));
                part.store(output, output.start(place.of, query), r, Some(factor));
                place.in_first_part(|| {
                    let value = maximum[r].get() + total.native_log();
                    let value = sees_any.select(value, k.f32(f32::NEG_INFINITY));
                    log_sum.store_number(log_sum.start(place.of, query), value);
                });
            });
        });
    }
}
