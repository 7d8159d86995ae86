//! Gradient of attention by blocks, first kernel: dq, by blocks of queries.
//!
//! Weights are recomputed from the log-sum-exp. The dot product of each query's output and its cotangent is
//! stored for the second kernel. Dao, FlashAttention-2 (2023), section 3.1.2.

use super::super::Value;
use super::Attention;
use super::block::RowBlock;
use super::query_block::QueryBlock;
use crate::narrow::narrow;
use gradloom_core::ir::UnaryOp;
use gradloom_core::kernel::AttentionTile;

impl<'k> Attention<'k, '_> {
    /// Appends the computation of dq and, for the kernel of the keys, of each query's mean.
    pub(super) fn query_gradient_by_blocks(&self, tile: AttentionTile) {
        let (k, problem) = (self.k, self.problem);
        let widths = [problem.depth, problem.value_depth];
        let [q, ..] = self.queries_keys_values();
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        let write = self.result(0);
        let [held, slopes] = widths.map(|width| RowBlock::new(k, tile.rows(), width));
        let [keys, values] = widths.map(|width| RowBlock::new(k, tile.columns(), width));
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
                let product = self.share(block.of, there[i], thread.column(start, j), slopes[i][j]);
                let slope = weight * (product - means[i]) * scale;
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

    /// Returns the dot product of each query's output and its cotangent, and stores it in the scratch memory
    /// if no earlier kernel has. `there` are the thread's queries, clamped to the last.
    fn means_of_block(
        &self,
        block: &QueryBlock<'k>,
        there: &[Value<'k>],
        tile: AttentionTile,
    ) -> Vec<Value<'k>> {
        if let Some(known) = self.known_means(block.of, there) {
            return known;
        }
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
}
