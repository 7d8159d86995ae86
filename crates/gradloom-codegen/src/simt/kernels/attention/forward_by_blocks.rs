//! Attention by blocks: a workgroup iterates over blocks of keys for a block of queries.
//!
//! Scores stay in shared memory. The online softmax keeps sums relative to the maximum so far, and rescales
//! them when it increases. Dao, FlashAttention-2 (2023), section 3.1.1.

use super::super::Value;
use super::block::RowBlock;
use super::thread::Each;
use super::{Attention, LOWEST};
use crate::narrow::narrow;
use crate::simt::Variable;
use gradloom_core::ir::UnaryOp;
use gradloom_core::kernel::AttentionTile;

/// State of the online softmax of a thread's rows.
struct Softmax<'k> {
    /// Maximum score so far of each row.
    maximum: Vec<Variable<'k>>,
    /// Thread's partial sum of the exponentials of each row.
    sum: Vec<Variable<'k>>,
    /// Output before the division by the sum of exponentials.
    output: Each<Variable<'k>>,
}

impl<'k> Attention<'k, '_> {
    /// Appends the computation of the output and the log-sum-exp.
    pub(super) fn forward_by_blocks(&self, tile: AttentionTile) {
        let (k, problem) = (self.k, self.problem);
        let [depth, value_depth] = [problem.depth, problem.value_depth];
        let [q, ..] = self.queries_keys_values();
        let [output, log_sum] = [self.result(0), self.result(1)];
        let held = RowBlock::new(k, tile.rows(), depth);
        let [keys, values] = [depth, value_depth].map(|width| RowBlock::new(k, tile.columns(), width));
        let block = self.query_block(tile);
        let thread = &block.thread;
        let (scores, shares) = (thread.scores(), thread.shares());
        let zero = k.u32(0);
        let is_first = block.of[1].equals(zero) & block.number.equals(zero);
        let own = [k.local(), k.u32(narrow(tile.threads()))];
        self.check_table(&block.bounds, block.of[0], is_first, own);
        self.fill_queries(&block, &held, q);
        let numbers = |first: f32| -> Vec<_> { thread.rows.iter().map(|_| k.var(k.f32(first))).collect() };
        let softmax = Softmax { maximum: numbers(LOWEST), sum: numbers(0.0), output: thread.sums(&values) };
        self.each_key_block(&block, [&keys, &values], |start| {
            let products = thread.products(&held, &keys);
            let seen = self.seen(&block, start);
            let shown = |i: usize, j: usize, value: Value<'k>, otherwise: f32| {
                seen.as_ref().map_or(value, |seen| seen[i][j].select(value, k.f32(otherwise)))
            };
            let logits = thread.each(|i, j| shown(i, j, products[i][j] * self.scale(), LOWEST));
            let greatest = logits.iter().map(|row| row.iter().copied().reduce(Value::native_max));
            let greatest: Vec<_> = greatest.map(|row| row.expect("a thread has columns")).collect();
            let next = thread.combine(shares, &greatest, Value::native_max);
            let weights = next.into_iter().enumerate().map(|(i, next)| {
                softmax.add(i, next, |next| {
                    let weight = |(j, &logit): (usize, &Value<'k>)| {
                        shown(i, j, (logit - next).unary(UnaryOp::Exp), 0.0)
                    };
                    logits[i].iter().enumerate().map(weight).collect()
                })
            });
            let weights: Each<_> = weights.collect();
            let share = |i: usize, j: usize| {
                self.share(block.of, block.queries[i], thread.column(start, j), weights[i][j])
            };
            thread.put_scores(scores, &thread.each(share));
            k.barrier();
            thread.accumulate(&softmax.output, scores, &values);
        });
        let shares_of_sums: Vec<_> = softmax.sum.iter().map(|sum| sum.get()).collect();
        let totals = thread.combine(shares, &shares_of_sums, |a, b| a + b);
        self.each_query(&block, |i, query| {
            let (total, sees_any) = (totals[i], block.ranges[i].is_any());
            k.when(thread.across.equals(zero), || {
                let value = softmax.maximum[i].get() + total.native_log();
                let value = sees_any.select(value, k.f32(f32::NEG_INFINITY));
                log_sum.store_number(log_sum.start(block.of, query), value);
            });
            let factor = sees_any.select(k.f32(1.0) / total, k.f32(0.0)).splat();
            let vectors: Vec<_> = softmax.output[i].iter().map(|sum| sum.get() * factor).collect();
            thread.store(output, output.start(block.of, query), &vectors);
        });
    }
}

impl<'k> Softmax<'k> {
    /// Updates row `i` with scores whose maximum is `next`. Given the new maximum, `weigh` returns their
    /// exponentials relative to it.
    fn add(
        &self,
        i: usize,
        next: Value<'k>,
        weigh: impl FnOnce(Value<'k>) -> Vec<Value<'k>>,
    ) -> Vec<Value<'k>> {
        let maximum = self.maximum[i].get();
        let next = next.native_max(maximum);
        let keep = (maximum - next).unary(UnaryOp::Exp);
        self.maximum[i].set(next);
        let weights = weigh(next);
        self.sum[i].set(weights.iter().fold(self.sum[i].get() * keep, |sum, &weight| sum + weight));
        let keep = keep.splat();
        self.output[i].iter().for_each(|sum| sum.set(sum.get() * keep));
        weights
    }
}
