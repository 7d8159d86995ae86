//! Attention of few queries over many keys, as in generation with a KV cache. Performance depends on loading
//! keys and values once, contiguously, with many loads in flight.
//!
//! A workgroup processes one query of all heads that share a key head. Several lanes process a key together,
//! each with four or eight of its elements, and the workgroup processes several keys concurrently. Finally,
//! the partial results of lanes with different keys are combined like those of different blocks, first within
//! subgroups: Dao, FlashAttention-2 (2023), section 2.3.

use super::super::Value;
use super::epilogue::Epilogue;
use super::{Attention, LOWEST};
use crate::narrow::narrow;
use crate::product::rows_are_groups;
use crate::simt::{Role, ValueType, Variable};
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::{AttentionLanes, Body};

const SUBGROUP: u32 = AttentionLanes::SUBGROUP;

/// Elements of a key and its value that a lane has loaded.
struct Loaded<'k> {
    /// True if the key is visible to the query.
    is_seen: Value<'k>,
    /// Elements of the key, in vectors of four.
    key: Vec<Value<'k>>,
    /// Elements of the value, in vectors of four.
    value: Vec<Value<'k>>,
}

/// Partial results of a lane for a query head.
struct Sums<'k> {
    /// Maximum score.
    most: Variable<'k>,
    /// Sum of the weights, relative to the maximum.
    total: Variable<'k>,
    /// Sums of the weighted values, in vectors of four.
    values: Vec<Variable<'k>>,
}

impl<'k, 'b> Attention<'k, 'b> {
    /// Appends the computation of the output and the log-sum-exp, or of the epilogue's results.
    pub(super) fn forward_by_lanes(&self, choice: AttentionLanes, epilogue: Option<&Body>) {
        let (k, problem) = (self.k, self.problem);
        let [lanes, slots, each] = [choice.lanes(problem), choice.slots(problem), choice.each].map(narrow);
        let (sharing, queries) = (narrow(problem.sharing()), narrow(problem.queries));
        k.uses_subgroups(SUBGROUP);
        let (lane, slot) = (k.local() % lanes, k.local() / lanes);
        let (query, pair) = (k.group() % queries, k.group() / queries);
        let key_heads = narrow(problem.key_heads);
        let of_keys = [pair / key_heads, pair % key_heads];
        let of = |r: Value<'k>| [of_keys[0], of_keys[1] * sharing + r];
        let zero = k.u32(0);
        let bounds = self.shared_bounds(of_keys[0]);
        let is_first = of_keys[1].equals(zero) & query.equals(zero);
        self.check_table(&bounds, of_keys[0], is_first, [k.local(), k.u32(narrow(choice.threads))]);
        let range = bounds.keys(query);
        let (begin, limit) = (bounds.begin_of_keys(query), range.end);

        let column = lane * each;
        let (fours, ahead) = (choice.each / AttentionLanes::FOUR, narrow(choice.ahead(problem)));
        let load = |start: Value<'k>| -> Vec<Loaded<'k>> {
            let one = |turn: u32| {
                let key = start + slot + turn * slots;
                let row = key.min(limit.max(k.u32(1)) - 1);
                let of = |read| self.fours(read, self.key_row(read, of_keys, row), column, choice.each);
                Loaded { is_seen: key.less(limit), key: of(1), value: of(2) }
            };
            (0..ahead).map(one).collect()
        };
        // Load the first keys early if they are available before the queries.
        let first = self.views.reads[1].is_early.then(|| load(begin));
        let scale = k.f32(self.scale_of_exponents()).splat();
        let own_query = |r: u32| -> Vec<_> {
            let start = self.operand(0).start(of(k.u32(r)), query);
            self.fours(0, start, column, choice.each).into_iter().map(|four| four * scale).collect()
        };
        let own: Vec<_> = (0..sharing).map(own_query).collect();
        let empty = || Sums {
            most: k.var(k.f32(LOWEST)),
            total: k.var(k.f32(0.0)),
            values: (0..fours).map(|_| k.var(k.f32(0.0).splat())).collect(),
        };
        let sums: Vec<_> = own.iter().map(|_| empty()).collect();
        let take = |loaded: Vec<Loaded<'k>>| {
            for (own, sums) in own.iter().zip(&sums) {
                let score = |loaded: &Loaded<'k>| {
                    let terms = own
                        .iter()
                        .zip(&loaded.key)
                        .flat_map(|(&own, &key)| (0..4).map(move |i| (own.component(i), key.component(i))));
                    let product = terms.fold(k.f32(0.0), |sum, (own, key)| own.mul_add(key, sum));
                    let product = product.across_subgroup(ReduceOp::Sum, lanes as usize, SUBGROUP);
                    loaded.is_seen.select(product, k.f32(LOWEST))
                };
                let scores: Vec<_> = loaded.iter().map(score).collect();
                let before = sums.most.get();
                let most = scores.iter().fold(before, |most, &score| most.native_max(score));
                let keep = (before - most).native_exp2();
                let mut total = sums.total.get() * keep;
                let mut values: Vec<_> = sums.values.iter().map(|sum| sum.get() * keep.splat()).collect();
                for (score, loaded) in scores.into_iter().zip(&loaded) {
                    let weight = loaded.is_seen.select((score - most).native_exp2(), k.f32(0.0));
                    total = total + weight;
                    for (sum, &value) in values.iter_mut().zip(&loaded.value) {
                        *sum = weight.splat().mul_add(value, *sum);
                    }
                }
                sums.most.set(most);
                sums.total.set(total);
                sums.values.iter().zip(values).for_each(|(sum, value)| sum.set(value));
            }
        };
        let step = k.u32(slots * ahead);
        let from = if first.is_some() { begin + step } else { begin };
        first.into_iter().for_each(take);
        k.count(from, limit, step, |start| take(load(start)));

        // The first invocations store the results, `lanes` invocations for each head.
        let (row, is_own) = (slot.min(k.u32(sharing - 1)), k.local().below(sharing * lanes));
        let epilogue = epilogue.map(|body| {
            let at = [self.query_number(of(row), query), column, is_own];
            Epilogue::new(k, self.views, body, at, [lanes as usize, choice.each])
        });
        let subgroups = narrow(choice.threads) / SUBGROUP;
        let [shared_maxima, shared_totals] = [(); 2].map(|()| k.shared(DType::F32, sharing * subgroups));
        let items = subgroups * narrow(fours) * lanes;
        let shared_values = k.shared(ValueType::Vector(4), sharing * items);
        let (number, subgroup) = (k.local() % SUBGROUP, k.local() / SUBGROUP);
        let item =
            |subgroup: Value<'k>, four: usize| (subgroup * narrow(fours) + narrow(four)) * lanes + lane;
        for (r, sums) in (0..sharing).zip(&sums) {
            let (most, total, values) = self.of_subgroup(sums, lanes);
            let place = subgroup + r * subgroups;
            k.when(number.equals(zero), || {
                k.set_element(shared_maxima, place, most);
                k.set_element(shared_totals, place, total);
            });
            k.when(number.below(lanes), || {
                for (four, value) in values.into_iter().enumerate() {
                    k.set_element(shared_values, item(place, four), value);
                }
            });
        }
        k.barrier();
        let whole = |row: Value<'k>| -> (Vec<Value<'k>>, Value<'k>) {
            let first = row * subgroups;
            let most = k.var(k.f32(LOWEST));
            k.count(zero, k.u32(subgroups), k.u32(1), |other| {
                most.set(most.get().native_max(k.element(shared_maxima, first + other)));
            });
            let all = empty();
            k.count(zero, k.u32(subgroups), k.u32(1), |other| {
                let place = first + other;
                let share = (k.element(shared_maxima, place) - most.get()).native_exp2();
                all.total.set(all.total.get() + share * k.element(shared_totals, place));
                for (four, sum) in all.values.iter().enumerate() {
                    let part = k.element(shared_values, item(place, four));
                    sum.set(share.splat().mul_add(part, sum.get()));
                }
            });
            // Discard the sums of a query that sees no key: a peeled first iteration processes keys
            // nevertheless.
            let sees_any = range.is_any();
            let factor = k.f32(1.0) / all.total.get();
            let value = |i: u32| {
                let four = all.values[i as usize / 4].get();
                sees_any.select(four.component(i % 4) * factor, k.f32(0.0))
            };
            let log_sum = most.get().mul_add(k.f32(std::f32::consts::LN_2), all.total.get().native_log());
            ((0..each).map(value).collect(), sees_any.select(log_sum, k.f32(f32::NEG_INFINITY)))
        };
        if let Some(epilogue) = epilogue {
            let (values, log) = whole(row);
            return epilogue.finish(&values, log);
        }
        k.guard([self.views.gate(k), Some(is_own)], || {
            let (values, log) = whole(slot);
            let [output, log_sum] = [self.result(0), self.result(1)];
            let start = output.start(of(slot), query);
            for (i, value) in (0..).zip(values) {
                let at = column + i;
                k.when(at.below(narrow(problem.value_depth)), || output.store(start, at, value));
            }
            k.when(lane.equals(zero), || {
                log_sum.store_number(log_sum.start(of(slot), query), log);
            });
        });
    }

    /// Loads `number` (four or eight) adjacent elements, from a column on, of the row whose first element is
    /// at `start`, as vectors of four. Elements beyond the row's end are zero.
    fn fours(&self, read: usize, start: Value<'k>, column: Value<'k>, number: usize) -> Vec<Value<'k>> {
        let (k, rows, view) = (self.k, self.operand(read), &self.views.reads[read]);
        if number == AttentionLanes::FOUR || view.dtype.bytes() != 2 || !rows_are_groups(view.layout, 8) {
            return (0..narrow(number)).step_by(4).map(|first| rows.four(start, column + first)).collect();
        }
        let width = narrow(rows.width());
        let at = column.min(k.u32(width - narrow(number)));
        let stored = k.load(k.buffer(Role::Operand(read), ValueType::Half8(view.dtype)), (start + at) / 8);
        let (is_inside, zero) = (column.below(width), k.f32(0.0).splat());
        stored.fours().map(|four| is_inside.select(four.to_vector(), zero)).to_vec()
    }

    /// Combines the partial results of the lanes of a subgroup that hold the same elements of different keys:
    /// the maximum score, the sum of weights, and the weighted values. All of these lanes receive the result.
    fn of_subgroup(&self, sums: &Sums<'k>, lanes: u32) -> (Value<'k>, Value<'k>, Vec<Value<'k>>) {
        let pairs = |value: Value<'k>, meet: fn(Value<'k>, Value<'k>) -> Value<'k>| {
            let bits = std::iter::successors(Some(lanes), |bits| Some(bits * 2));
            bits.take_while(|bits| *bits < SUBGROUP)
                .fold(value, |value, bits| meet(value, value.shuffle_xor(bits, SUBGROUP)))
        };
        let most = pairs(sums.most.get(), |a, b| a.native_max(b));
        let share = (sums.most.get() - most).native_exp2();
        let sum = |value: Value<'k>| pairs(value * share, |a, b| a + b);
        let four = |value: &Variable<'k>| {
            let value = value.get();
            self.k.vector_of(&|i| sum(value.component(i)))
        };
        (most, sum(sums.total.get()), sums.values.iter().map(four).collect())
    }
}
