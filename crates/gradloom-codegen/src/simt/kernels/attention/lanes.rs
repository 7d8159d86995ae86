//! Attention of few queries over many keys, as in generation with cached keys: what counts is to read keys
//! and values once, in long runs, with many on their way.
//!
//! A workgroup has a query of the heads that share a key head. A few lanes have a key together, each four of
//! its elements; so many keys are taken at a time. At the end the lanes' sums are put together as the blocks
//! of one attention are: Dao, FlashAttention-2 (2023), section 2.3.

use super::super::Value;
use super::{Attention, LOWEST};
use crate::limits::CUDA_IS_POSSIBLE;
use crate::narrow::narrow;
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::AttentionLanes;

/// Keys that lanes have on their way at the same time.
const AHEAD: usize = 4;

impl<'k> Attention<'k, '_> {
    /// Output and log-sum-exp.
    pub(super) fn forward_by_lanes(&self, choice: AttentionLanes) {
        let (k, problem) = (self.k, self.problem);
        let [lanes, slots] = [AttentionLanes::lanes(problem), choice.slots(problem)].map(narrow);
        let (sharing, queries) = (narrow(problem.sharing()), narrow(problem.queries));
        k.uses_subgroups(AttentionLanes::SUBGROUP);
        let (lane, slot) = (k.local() % lanes, k.local() / lanes);
        let (query, pair) = (k.group() % queries, k.group() / queries);
        let key_heads = narrow(problem.key_heads);
        let of_keys = [pair / key_heads, pair % key_heads];
        let of = |r: Value<'k>| [of_keys[0], of_keys[1] * sharing + r];
        let zero = k.u32(0);
        let bounds = self.shared_bounds(of_keys[0]);
        let is_first = of_keys[1].equals(zero) & query.equals(zero);
        self.check_table(&bounds, of_keys[0], is_first, [k.local(), k.u32(narrow(choice.threads))]);
        let limit = bounds.limit(query);

        let [all_queries, all_keys, all_values] = self.queries_keys_values();
        let column = lane * 4;
        let load = |start: Value<'k>| -> [(Value<'k>, Value<'k>, Value<'k>); AHEAD] {
            [0, 1, 2, 3].map(|turn| {
                let key = start + slot + turn * slots;
                let row = key.min(limit.max(k.u32(1)) - 1);
                let four = |read: usize, rows: super::Rows<'k, '_>| {
                    rows.four(self.key_row(read, of_keys, row), column)
                };
                (key.less(limit), four(1, all_keys), four(2, all_values))
            })
        };
        // Keys that are there before the queries are on their way before these.
        let first = (CUDA_IS_POSSIBLE && self.views.reads[1].is_early).then(|| load(zero));
        let scale = k.f32(self.scale_of_exponents()).splat();
        let own: Vec<_> = (0..sharing)
            .map(|r| all_queries.four(all_queries.start(of(k.u32(r)), query), column) * scale)
            .collect();
        let numbers = |first: f32| -> Vec<_> { own.iter().map(|_| k.var(k.f32(first))).collect() };
        let (maxima, totals) = (numbers(LOWEST), numbers(0.0));
        let sums: Vec<_> = own.iter().map(|_| k.var(k.f32(0.0).splat())).collect();
        let take = |loaded: [(Value<'k>, Value<'k>, Value<'k>); AHEAD]| {
            for (r, own) in own.iter().enumerate() {
                let score = |(is_there, key, _): (Value<'k>, Value<'k>, Value<'k>)| {
                    let product =
                        (0..4).fold(k.f32(0.0), |sum, i| own.component(i).mul_add(key.component(i), sum));
                    let product = across(product, lanes);
                    is_there.select(product, k.f32(LOWEST))
                };
                let scores = loaded.map(score);
                let before = maxima[r].get();
                let most = scores.iter().fold(before, |most, &score| most.native_max(score));
                let keep = (before - most).native_exp2();
                let mut total = totals[r].get() * keep;
                let mut sum = sums[r].get() * keep.splat();
                for (score, (is_there, _, value)) in scores.into_iter().zip(loaded) {
                    let weight = is_there.select((score - most).native_exp2(), k.f32(0.0));
                    total = total + weight;
                    sum = weight.splat().mul_add(value, sum);
                }
                maxima[r].set(most);
                totals[r].set(total);
                sums[r].set(sum);
            }
        };
        let step = k.u32(slots * narrow(AHEAD));
        let from = if first.is_some() { step } else { zero };
        first.into_iter().for_each(take);
        k.count(from, limit, step, |start| take(load(start)));

        let [shared_maxima, shared_totals] = [(); 2].map(|()| k.shared(DType::F32, sharing * slots));
        let shared_sums = k.shared(crate::simt::ValueType::Vector(4), sharing * slots * lanes);
        for r in 0..sharing {
            let (place, of_row) = (slot + r * slots, r as usize);
            k.when(lane.equals(zero), || {
                k.set_element(shared_maxima, place, maxima[of_row].get());
                k.set_element(shared_totals, place, totals[of_row].get());
            });
            k.set_element(shared_sums, place * lanes + lane, sums[of_row].get());
        }
        k.barrier();
        k.guard([self.views.gate(k), Some(k.local().below(sharing * lanes))], || {
            // The first invocations have a head's row each, as many as there are lanes.
            let first = slot * slots;
            let most = k.var(k.f32(LOWEST));
            k.count(zero, k.u32(slots), k.u32(1), |other| {
                most.set(most.get().native_max(k.element(shared_maxima, first + other)));
            });
            let (total, sum) = (k.var(k.f32(0.0)), k.var(k.f32(0.0).splat()));
            k.count(zero, k.u32(slots), k.u32(1), |other| {
                let place = first + other;
                let share = (k.element(shared_maxima, place) - most.get()).native_exp2();
                total.set(total.get() + share * k.element(shared_totals, place));
                let part = k.element(shared_sums, place * lanes + lane);
                sum.set(share.splat().mul_add(part, sum.get()));
            });
            let sees_any = zero.less(limit);
            let factor = k.f32(1.0) / total.get();
            let [output, log_sum] = [self.result(0), self.result(1)];
            let start = output.start(of(slot), query);
            for i in 0..4 {
                let at = column + i;
                k.when(at.below(narrow(problem.value_depth)), || {
                    // Where the query sees no key, a first turn by itself took one all the same.
                    let value = sees_any.select(sum.get().component(i) * factor, k.f32(0.0));
                    output.store(start, at, value);
                });
            }
            k.when(lane.equals(zero), || {
                let value = most.get().mul_add(k.f32(std::f32::consts::LN_2), total.get().native_log());
                let value = sees_any.select(value, k.f32(f32::NEG_INFINITY));
                log_sum.store_number(log_sum.start(of(slot), query), value);
            });
        });
    }
}

/// The sum over neighbouring lanes, which all of them get.
fn across(value: Value<'_>, lanes: u32) -> Value<'_> {
    value.across_subgroup(ReduceOp::Sum, lanes as usize, AttentionLanes::SUBGROUP)
}
