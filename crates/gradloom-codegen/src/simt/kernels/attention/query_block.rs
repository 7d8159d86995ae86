//! Workgroups that iterate over blocks of keys for a block of queries.

use super::super::Value;
use super::block::{RowBlock, Window};
use super::bounds::{Bounds, KeyRange};
use super::rows::Rows;
use super::thread::{Each, Thread};
use super::{Attention, Head};
use crate::narrow::narrow;
use gradloom_core::kernel::AttentionTile;

/// Block of queries of a workgroup, and the invocation's part of it.
pub(super) struct QueryBlock<'k> {
    tile: AttentionTile,
    /// Index of the block among those of its head.
    pub(super) number: Value<'k>,
    pub(super) of: Head<'k>,
    /// Key head that the queries use.
    key_head: Value<'k>,
    pub(super) bounds: Bounds<'k>,
    pub(super) thread: Thread<'k>,
    /// Index of the block's first query.
    first: Value<'k>,
    /// Queries of the thread.
    pub(super) queries: Vec<Value<'k>>,
    /// Keys visible to each of the thread's queries; none for a query that does not exist.
    pub(super) ranges: Vec<KeyRange<'k>>,
    /// First key visible to any query of the block.
    begin: Value<'k>,
    /// End of the keys visible to any query of the block.
    end: Value<'k>,
}

impl<'k> Attention<'k, '_> {
    /// Returns the workgroup's block of queries.
    pub(super) fn query_block(&self, tile: AttentionTile) -> QueryBlock<'k> {
        let (k, problem) = (self.k, self.problem);
        let [pairs, heads, queries] = [problem.pairs(), problem.heads, problem.queries].map(narrow);
        let blocks = problem.queries.div_ceil(tile.rows());
        // The last queries, which see the most keys, are processed first.
        let number = k.u32(narrow(blocks) - 1) - k.group() / pairs;
        let (sequence, head) = (k.group() % pairs / heads, k.group() % pairs % heads);
        let bounds = self.shared_bounds(sequence);
        let thread = Thread::new(k, tile);
        let first = number * narrow(tile.rows());
        let own: Vec<_> = thread.rows.iter().map(|&row| first + row).collect();
        let range = |&query: &Value<'k>| bounds.keys(query).given(query.below(queries));
        let ranges = own.iter().map(range).collect();
        let end = bounds.end_of_keys((first + narrow(tile.rows() - 1)).min(k.u32(queries - 1)));
        QueryBlock {
            tile,
            number,
            of: [sequence, head],
            key_head: self.key_head(head),
            begin: bounds.begin_of_keys(first),
            bounds,
            thread,
            first,
            queries: own,
            ranges,
            end,
        }
    }

    /// Loads the block's rows of an operand.
    pub(super) fn fill_queries(&self, block: &QueryBlock<'k>, memory: &RowBlock<'k>, operand: Rows<'k, '_>) {
        let end = self.k.u32(narrow(self.problem.queries));
        let window = Window { first: block.first, end, count: self.problem.queries };
        memory.fill(block.tile.threads(), operand, &window, &|query| operand.start(block.of, query));
    }

    /// Appends `body` for each block of keys visible to any query, after loading its rows of k and v into
    /// `memory`.
    pub(super) fn each_key_block(
        &self,
        block: &QueryBlock<'k>,
        memory: [&RowBlock<'k>; 2],
        body: impl FnOnce(Value<'k>),
    ) {
        let (k, [_, keys, values]) = (self.k, self.queries_keys_values());
        let of = [block.of[0], block.key_head];
        k.count(block.begin, block.end, k.u32(narrow(block.tile.columns())), |start| {
            for (read, operand, memory) in [(1, keys, memory[0]), (2, values, memory[1])] {
                let window = Window { first: start, end: block.end, count: self.problem.keys };
                memory.fill(block.tile.threads(), operand, &window, &|key| self.key_row(read, of, key));
            }
            k.barrier();
            body(start);
            k.barrier();
        });
    }

    /// Returns, for each of the thread's queries and each key of a block, `true` if the key is visible;
    /// `None` if all keys always are.
    pub(super) fn seen(&self, block: &QueryBlock<'k>, start: Value<'k>) -> Option<Each<Value<'k>>> {
        let whole = self.problem.keys.is_multiple_of(block.tile.columns());
        let thread = &block.thread;
        let seen = |i: usize, j: usize| block.ranges[i].contains(thread.column(start, j));
        (self.problem.hides_keys() || !whole).then(|| thread.each(seen))
    }

    /// Appends `then` for each of the thread's rows that exist, with its index and query, if the step may
    /// commit.
    pub(super) fn each_query(&self, block: &QueryBlock<'k>, then: impl Fn(usize, Value<'k>)) {
        for (i, &query) in block.queries.iter().enumerate() {
            let is_there = query.below(narrow(self.problem.queries));
            self.k.guard([Some(is_there), self.views.gate(self.k)], || then(i, query));
        }
    }
}
