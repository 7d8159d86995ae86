//! Gradient of attention by blocks, second kernel: dk and dv, by blocks of keys.
//!
//! Nothing is summed across workgroups: each iterates over the queries of all heads that share its key head.

use super::super::Value;
use super::block::{RowBlock, Window};
use super::bounds::QueryRange;
use super::thread::Thread;
use super::{Attention, Head};
use crate::narrow::narrow;
use gradloom_core::ir::UnaryOp;
use gradloom_core::kernel::AttentionTile;

/// Block of keys of a workgroup, and the invocation's part of it.
struct KeyBlock<'k> {
    tile: AttentionTile,
    of: Head<'k>,
    thread: Thread<'k>,
    /// Index of the block's first key.
    first: Value<'k>,
    /// Keys of the thread.
    keys: Vec<Value<'k>>,
    /// Queries to which each of these keys is visible.
    ranges: Vec<QueryRange<'k>>,
    /// Start of the blocks of queries to which a key of the block is visible.
    begin: Value<'k>,
    /// End of the queries to which a key of the block is visible.
    end: Value<'k>,
}

/// Queries of a block that a thread processes.
struct Queries<'k> {
    of: Head<'k>,
    /// Indices of the queries, which may be beyond the last.
    numbers: Vec<Value<'k>>,
    log_sums: Vec<Value<'k>>,
    /// Dot products of the outputs and their cotangents.
    means: Vec<Value<'k>>,
}

impl<'k> Attention<'k, '_> {
    /// Appends the computation of dk and dv.
    pub(super) fn key_gradient_by_blocks(&self, tile: AttentionTile) {
        let (k, problem) = (self.k, self.problem);
        let widths = [problem.depth, problem.value_depth];
        let [_, all_keys, all_values] = self.queries_keys_values();
        let results = [self.result(1), self.result(2)];
        let [keys, values] = widths.map(|width| RowBlock::new(k, tile.rows(), width));
        let [queries, slopes] = widths.map(|width| RowBlock::new(k, tile.columns(), width));
        let block = self.key_block(tile);
        let thread = &block.thread;
        let [weight_memory, slope_memory] = [thread.scores(), thread.scores()];
        let window = Window { first: block.first, end: k.u32(narrow(problem.keys)), count: problem.keys };
        for (operand, memory) in [(all_keys, &keys), (all_values, &values)] {
            memory.fill(tile.threads(), operand, &window, &|key| operand.start(block.of, key));
        }
        let [key_sums, value_sums] = [thread.sums(&keys), thread.sums(&values)];
        let scale = self.scale();
        self.each_query_block(&block, [&queries, &slopes], |here| {
            let products = thread.products(&keys, &queries);
            let slope_products = thread.products(&values, &slopes);
            let share = |i: usize, j: usize, share: Value<'k>| {
                self.share(here.of, here.numbers[j], block.keys[i], share)
            };
            // Mask both the weight and its slope: the elements of a key that no query sees may be NaN.
            let weights = thread.each(|i, j| {
                let weight = (products[i][j] * scale - here.log_sums[j]).unary(UnaryOp::Exp);
                self.shown(&block, here.numbers[j], i, weight)
            });
            let slopes_of_scores = thread.each(|i, j| {
                let slope = weights[i][j] * (share(i, j, slope_products[i][j]) - here.means[j]) * scale;
                self.shown(&block, here.numbers[j], i, slope)
            });
            thread.put_scores(weight_memory, &thread.each(|i, j| share(i, j, weights[i][j])));
            thread.put_scores(slope_memory, &slopes_of_scores);
            k.barrier();
            thread.accumulate(&value_sums, weight_memory, &slopes);
            thread.accumulate(&key_sums, slope_memory, &queries);
        });
        for (write, sums) in results.into_iter().zip([key_sums, value_sums]) {
            for (&key, sums) in block.keys.iter().zip(&sums) {
                k.guard([Some(key.below(narrow(problem.keys))), self.views.gate(k)], || {
                    let vectors: Vec<_> = sums.iter().map(|sum| sum.get()).collect();
                    thread.store(write, write.start(block.of, key), &vectors);
                });
            }
        }
    }

    /// Returns the workgroup's block of keys.
    fn key_block(&self, tile: AttentionTile) -> KeyBlock<'k> {
        let k = self.k;
        let key_heads = narrow(self.problem.key_heads);
        let pairs = narrow(self.problem.batch) * key_heads;
        // The first keys, which the most queries see, are processed first.
        let first = k.group() / pairs * narrow(tile.rows());
        let of = [k.group() % pairs / key_heads, k.group() % pairs % key_heads];
        let bounds = self.shared_bounds(of[0]);
        let thread = Thread::new(k, tile);
        let keys: Vec<_> = thread.rows.iter().map(|&row| first + row).collect();
        let columns = narrow(tile.columns());
        let end = bounds.query_end(first + narrow(tile.rows() - 1));
        KeyBlock {
            tile,
            of,
            ranges: keys.iter().map(|&key| bounds.queries(key)).collect(),
            begin: self.start_of_queries(&bounds, first, columns),
            end: end.unwrap_or(k.u32(narrow(self.problem.queries))),
            thread,
            first,
            keys,
        }
    }

    /// Appends `body` for each block of queries to which a key of the block is visible, of each head that
    /// shares the key head. Before it runs, rows of q and of the output's cotangent are loaded into `memory`.
    fn each_query_block(
        &self,
        block: &KeyBlock<'k>,
        memory: [&RowBlock<'k>; 2],
        body: impl FnOnce(&Queries<'k>),
    ) {
        let (k, count) = (self.k, self.problem.queries);
        let [q, ..] = self.queries_keys_values();
        let [_, log_sum, cotangent] = self.output_and_cotangent();
        let sharing = narrow(self.problem.sharing());
        let [sequence, key_head] = block.of;
        k.count(key_head * sharing, (key_head + 1) * sharing, k.u32(1), |head| {
            let of = [sequence, head];
            k.count(block.begin, block.end, k.u32(narrow(block.tile.columns())), |start| {
                let window = Window { first: start, end: block.end, count };
                for (operand, memory) in [(q, memory[0]), (cotangent, memory[1])] {
                    memory.fill(block.tile.threads(), operand, &window, &|query| operand.start(of, query));
                }
                let number = |j| block.thread.column(start, j);
                let numbers: Vec<_> = (0..block.tile.columns_each).map(number).collect();
                let known = |query: &Value<'k>| {
                    let query = query.min(k.u32(narrow(count) - 1));
                    let mean = k.load(self.means(), self.query_number(of, query));
                    (log_sum.number(log_sum.start(of, query)), mean)
                };
                let (log_sums, means) = numbers.iter().map(known).unzip();
                k.barrier();
                body(&Queries { of, numbers, log_sums, means });
                k.barrier();
            });
        });
    }

    /// Returns `value` if the query exists and sees the thread's key `i`, else 0.
    fn shown(&self, block: &KeyBlock<'k>, query: Value<'k>, i: usize, value: Value<'k>) -> Value<'k> {
        if !self.problem.hides_keys() && self.problem.queries.is_multiple_of(block.tile.columns()) {
            return value;
        }
        let sees = block.ranges[i].contains(query);
        (sees & query.below(narrow(self.problem.queries))).select(value, self.k.f32(0.0))
    }
}
