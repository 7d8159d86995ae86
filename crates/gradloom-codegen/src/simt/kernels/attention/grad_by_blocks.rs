//! The gradient of attention: dq by blocks of queries, then dk and dv by blocks of keys.
//!
//! Out: the three cotangents, without sums across workgroups. The weights come from the log-sum-exp; the first
//! kernel leaves the product of each query's output with its cotangent for the second. Dao, FlashAttention-2
//! (2023), section 3.1.2.

use super::super::Value;
use super::Attention;
use super::block::{Block, Window};
use super::query_block::QueryBlock;
use super::thread::Thread;
use crate::narrow::narrow;
use gradloom_core::ir::{CompareOp, UnaryOp};
use gradloom_core::kernel::AttentionTile;

impl<'k> Attention<'k, '_> {
    /// dq, and each query's mean, for the keys' kernel.
    pub(super) fn query_gradient_by_blocks(&self, tile: AttentionTile) {
        let (k, problem) = (self.k, self.problem);
        let widths = [problem.depth, problem.value_depth];
        let [q, ..] = self.queries_keys_values();
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        let write = self.result(0);
        let [held, slopes] = widths.map(|width| Block::new(k, tile.rows(), width));
        let [keys, values] = widths.map(|width| Block::new(k, tile.columns(), width));
        let block = self.query_block(tile);
        let thread = &block.thread;
        let scores = thread.scores();
        self.fill_queries(&block, &held, q);
        self.fill_queries(&block, &slopes, cotangent);
        let there = |&query: &Value<'k>| query.min(k.u32(narrow(problem.queries) - 1));
        let there: Vec<_> = block.queries.iter().map(there).collect();
        let log_sums = there.iter().map(|&query| log_sum.number(log_sum.start(block.of, query)));
        let log_sums: Vec<_> = log_sums.collect();
        let means = self.means_of_block(&block, &there, tile);
        let sums = thread.sums(&held);
        let scale = self.scale();
        self.each_key_block(&block, [&keys, &values], |start| {
            let products = thread.products(&held, &keys);
            let slopes = thread.products(&slopes, &values);
            let seen = self.seen(&block, start);
            let slope = |i: usize, j: usize| {
                let weight = (products[i][j] * scale - log_sums[i]).unary(UnaryOp::Exp);
                let slope = weight * (slopes[i][j] - means[i]) * scale;
                seen.as_ref().map_or(slope, |seen| seen[i][j].select(slope, k.f32(0.0)))
            };
            thread.put_scores(scores, &thread.each(slope));
            k.barrier();
            thread.accumulate(&sums, scores, &keys);
        });
        self.each_query(&block, |i, query| {
            let vectors: Vec<_> = sums[i].iter().map(|sum| sum.get()).collect();
            thread.store(write, write.start(block.of, query), &vectors);
        });
    }

    /// The product of each query's output with its cotangent, which goes to the scratch, too. `there` are the
    /// thread's queries, none beyond the last.
    fn means_of_block(
        &self,
        block: &QueryBlock<'k>,
        there: &[Value<'k>],
        tile: AttentionTile,
    ) -> Vec<Value<'k>> {
        let (k, thread) = (self.k, &block.thread);
        let [output, _, cotangent] = self.output_and_cotangent();
        let starts: Vec<_> =
            there.iter().map(|&query| [output, cotangent].map(|rows| rows.start(block.of, query))).collect();
        let shares: Vec<_> = there.iter().map(|_| k.var(k.f32(0.0))).collect();
        let (width, step) = (k.u32(narrow(output.width())), k.u32(narrow(tile.column_threads)));
        k.count(thread.across, width, step, |d| {
            for (share, &[o, g]) in shares.iter().zip(&starts) {
                share.set(output.load(o, d).mul_add(cotangent.load(g, d), share.get()));
            }
        });
        let shares: Vec<_> = shares.iter().map(|share| share.get()).collect();
        let means = thread.combine(thread.shares(), &shares, |a, b| a + b);
        let scratch = self.means();
        for (&query, &mean) in block.queries.iter().zip(&means) {
            let is_there = query.below(narrow(self.problem.queries));
            k.when(thread.across.equals(k.u32(0)) & is_there, || {
                k.store(scratch, self.query_number(block.of, query), mean);
            });
        }
        means
    }

    /// dk and dv.
    pub(super) fn key_gradient_by_blocks(&self, tile: AttentionTile) {
        let (k, problem) = (self.k, self.problem);
        let widths = [problem.depth, problem.value_depth];
        let [_, all_keys, all_values] = self.queries_keys_values();
        let results = [self.result(1), self.result(2)];
        let [keys, values] = widths.map(|width| Block::new(k, tile.rows(), width));
        let [queries, slopes] = widths.map(|width| Block::new(k, tile.columns(), width));
        let [key_count, query_count] = [problem.keys, problem.queries].map(narrow);
        // The first keys have most queries.
        let pairs = narrow(problem.batch * problem.key_heads);
        let key_heads = narrow(problem.key_heads);
        let of = [k.group() % pairs / key_heads, k.group() % pairs % key_heads];
        let first = k.group() / pairs * narrow(tile.rows());
        let bounds = self.shared_bounds();
        let thread = Thread::new(k, tile);
        let [weight_memory, score_memory] = [thread.scores(), thread.scores()];
        let columns = narrow(tile.columns());
        let begin = bounds.first_query(first) / columns * columns;
        let window = Window { first, end: k.u32(key_count), count: problem.keys };
        for (operand, memory) in [(all_keys, &keys), (all_values, &values)] {
            memory.fill(tile.threads(), operand, &window, &|key| operand.start(of, key));
        }
        let own: Vec<_> = thread.rows.iter().map(|&row| first + row).collect();
        let first_queries: Vec<_> = own.iter().map(|&key| bounds.first_query(key)).collect();
        let [key_sums, value_sums] = [thread.sums(&keys), thread.sums(&values)];
        let is_whole = problem.queries.is_multiple_of(tile.columns());
        let is_masked = problem.hides_keys() || !is_whole;
        let scale = self.scale();
        let sharing = narrow(problem.sharing());
        k.count(of[1] * sharing, (of[1] + 1) * sharing, k.u32(1), |head| {
            k.count(begin, k.u32(query_count), k.u32(columns), |start| {
                let mine: Vec<_> = (0..tile.columns_each).map(|j| thread.column(start, j)).collect();
                let numbers =
                    self.fill_queries_of_keys([of[0], head], &mine, start, [&queries, &slopes], tile);
                k.barrier();
                let products = thread.products(&keys, &queries);
                let slope_products = thread.products(&values, &slopes);
                // Both: what lies in a key that no query sees may be no number.
                let shown = |i: usize, j: usize, value: Value<'k>| {
                    let is_seen = || {
                        let is_behind = mine[j].compare(CompareOp::Ge, first_queries[i]);
                        is_behind & mine[j].below(query_count)
                    };
                    if is_masked { is_seen().select(value, k.f32(0.0)) } else { value }
                };
                let weights = thread.each(|i, j| {
                    let [log_sum, _] = numbers[j];
                    shown(i, j, (products[i][j] * scale - log_sum).unary(UnaryOp::Exp))
                });
                let slopes_of_scores = thread.each(|i, j| {
                    let [_, mean] = numbers[j];
                    shown(i, j, weights[i][j] * (slope_products[i][j] - mean) * scale)
                });
                thread.put_scores(weight_memory, &weights);
                thread.put_scores(score_memory, &slopes_of_scores);
                k.barrier();
                thread.accumulate(&value_sums, weight_memory, &slopes);
                thread.accumulate(&key_sums, score_memory, &queries);
                k.barrier();
            });
        });
        for (write, sums) in results.into_iter().zip([key_sums, value_sums]) {
            for (&key, sums) in own.iter().zip(&sums) {
                k.guard([Some(key.below(key_count)), self.views.gate(k)], || {
                    let vectors: Vec<_> = sums.iter().map(|sum| sum.get()).collect();
                    thread.store(write, write.start(of, key), &vectors);
                });
            }
        }
    }

    /// Loads a block of queries and of their cotangents into memory, and gives the log-sum-exp and the mean
    /// of those that the thread has.
    fn fill_queries_of_keys(
        &self,
        of: [Value<'k>; 2],
        mine: &[Value<'k>],
        start: Value<'k>,
        memory: [&Block<'k>; 2],
        tile: AttentionTile,
    ) -> Vec<[Value<'k>; 2]> {
        let k = self.k;
        let count = self.problem.queries;
        let [q, ..] = self.queries_keys_values();
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        let scratch = self.means();
        let window = Window { first: start, end: k.u32(narrow(count)), count };
        for (operand, memory) in [(q, memory[0]), (cotangent, memory[1])] {
            memory.fill(tile.threads(), operand, &window, &|query| operand.start(of, query));
        }
        let numbers = mine.iter().map(|query| {
            let query = query.min(k.u32(narrow(count) - 1));
            [log_sum.number(log_sum.start(of, query)), k.load(scratch, self.query_number(of, query))]
        });
        numbers.collect()
    }
}
