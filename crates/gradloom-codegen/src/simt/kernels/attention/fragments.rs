//! Attention by matrix instructions on devices that specify which invocation holds which element of a matrix
//! sum: a single pass over the keys, with scores in registers. Dao, FlashAttention-2 (2023), algorithm 1.

use super::super::Value;
use super::block::Window;
use super::bounds::KeyRange;
use super::matrices::{Filled, Forward, Keys, Own, Place, SIDE, add, elements_of, product, sum_of_elements};
use super::{Attention, LOWEST};
use crate::narrow::narrow;
use crate::simt::Variable;
use gradloom_core::ir::ReduceOp;
use gradloom_core::kernel::AttentionMatrices;

/// Number of columns of scores per iteration.
const COLUMNS: u32 = 64;
/// Initial maximum. It is far above the replacement of masked scores, so that their weights are zero even if
/// a query sees no key, and below all scores in practice.
const LOW: f32 = -1.0e30;

impl<'k> Attention<'k, '_> {
    /// Appends the computation of the output and the log-sum-exp.
    pub(super) fn forward_by_fragments(&self, choice: AttentionMatrices) {
        let (k, problem) = (self.k, self.problem);
        let choice = AttentionMatrices { columns: COLUMNS as usize, ..choice };
        let Forward { place, own, of, visible, blocks, scores, lefts } = self.forward(choice, true);
        let [_, all_keys, all_values] = self.queries_keys_values();
        let [keys, values] = &blocks;
        let [scale, away] = [1.0, -1.0].map(|sign| k.f32(sign * self.scale_of_exponents()));
        let (maxima, totals) = self.softmax_state();
        let sums = self.matrix_sums(problem.value_depth);
        let Keys { ranges, begin, end } = visible;
        k.count(begin, end, k.u32(narrow(AttentionMatrices::ROWS)), |start| {
            let window = Window { first: start, end, count: problem.keys };
            let filled: [Filled<'_, 'k, '_>; 2] = [
                (keys, all_keys, &|key| self.key_row(1, of, key)),
                (values, all_values, &|key| self.key_row(2, of, key)),
            ];
            self.fill_blocks(place.threads, &window, &filled);
            for j in 0..COLUMNS / SIDE {
                scores.put(&place, j, product(&lefts, keys, k.u32(j * SIDE)));
            }
            let first = start + place.column;
            let factors = [0, 1].map(|which: u32| {
                let (maximum, total) = (maxima[which as usize], totals[which as usize]);
                let sees = ranges[which as usize].relative_to(first);
                let shown: Vec<[Value<'k>; 4]> = (0..COLUMNS / SIDE)
                    .map(|j| {
                        let four = scores.four(&place, j, which);
                        [0, 1, 2, 3].map(|i| sees(j * SIDE + place.columns[i]).select(four[i], k.f32(LOWEST)))
                    })
                    .collect();
                let before = maximum.get();
                let most = shown.iter().flatten().fold(before, |most, &score| most.native_max(score));
                let most = most.native_max(place.other(most, 2));
                let most = most.native_max(place.other(most, 1));
                let off = most * away;
                let factor = ((before - most) * scale).native_exp2();
                let mut sum = total.get() * factor;
                for (four, j) in shown.iter().zip(0..) {
                    let weights = four.map(|score| score.mul_add(scale, off).native_exp2());
                    sum = weights.into_iter().fold(sum, |sum, weight| sum + weight);
                    let keys = (first + j * SIDE, place.columns);
                    let shares = self.shares(own.of, own.first + place.rows[which as usize], keys, weights);
                    scores.set(&place, j, which, shares);
                }
                total.set(sum);
                maximum.set(most);
                factor
            });
            scaled(self, &sums, factors);
            for j in 0..COLUMNS / SIDE {
                add(&sums, scores.left(&place, j), values, k.u32(j * SIDE));
            }
            k.barrier();
        });

        let shares = self.store_log_sums(&place, &own, (maxima, totals, ranges));
        scaled(self, &sums, shares);
        self.store_sums(&place, &scores, &sums, (self.result(0), &own, problem.queries));
    }

    /// Returns variables for the maximum score and the sum of weights of each of the invocation's rows.
    pub(super) fn softmax_state(&self) -> ([Variable<'k>; 2], [Variable<'k>; 2]) {
        let k = self.k;
        ([0; 2].map(|_| k.var(k.f32(LOW))), [0; 2].map(|_| k.var(k.f32(0.0))))
    }

    /// Stores the log-sum-exp of the invocation's rows, and returns the factors that make the sums an output.
    pub(super) fn store_log_sums(
        &self,
        place: &Place<'k>,
        own: &Own<'k>,
        (maxima, totals, ranges): ([Variable<'k>; 2], [Variable<'k>; 2], [KeyRange<'k>; 2]),
    ) -> [Value<'k>; 2] {
        let (k, problem) = (self.k, self.problem);
        let log_sum = self.result(1);
        [0, 1].map(|which: usize| {
            let total = place.across(ReduceOp::Sum, totals[which].get());
            let sees = ranges[which].is_any();
            let most = maxima[which].get() * self.scale();
            let value = most + total.max(k.f32(f32::MIN_POSITIVE)).native_log();
            let value = sees.select(value, k.f32(f32::NEG_INFINITY));
            let row = own.first + place.rows[which];
            let is_first = (place.lane % 4).equals(k.u32(0));
            let there = row.below(narrow(problem.queries));
            k.guard([Some(is_first & there), self.views.gate(k)], || {
                log_sum.store_number(log_sum.start(own.of, row), value);
            });
            sees.select(k.f32(1.0) / total, k.f32(0.0))
        })
    }
}

/// Multiplies both rows of matrix sums by their factors.
pub(super) fn scaled<'k>(attention: &Attention<'k, '_>, sums: &[Variable<'k>], factors: [Value<'k>; 2]) {
    for sum in sums {
        let value = sum.get();
        let both = [0, 1].map(|which: u32| elements_of(value, which).map(|x| x * factors[which as usize]));
        sum.set(sum_of_elements(attention.k, both));
    }
}
