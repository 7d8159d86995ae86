//! The order of the launches of the commit, in which the launches that overwrite a parameter or state follow
//! those that read its old value.
//!
//! Launches are reordered from one valid execution order, with the commit last, to another. Invariant: the
//! data flow and the accepted writes together have no cycle.

use super::types::first_commit;
use crate::collections::IdMap;
use crate::ir::ValueId;
use crate::kernel::Launch;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A partial order of the launches of the commit, which are numbered from 0.
pub(super) struct CommitOrder {
    first: usize,
    /// For each launch, the launches that must follow it.
    successors: Vec<Vec<usize>>,
    producer: IdMap<ValueId, usize>,
    readers: IdMap<ValueId, Vec<usize>>,
}

impl CommitOrder {
    /// Returns the order required by the data flow.
    pub(super) fn new(launches: &[Launch]) -> Self {
        let first = first_commit(launches);
        let mut order = Self {
            first,
            successors: vec![Vec::new(); launches.len() - first],
            producer: IdMap::new(),
            readers: IdMap::new(),
        };
        for (i, launch) in launches[first..].iter().enumerate() {
            for read in &launch.reads {
                order.readers.get_or_insert_with(read.buffer, Vec::new).push(i);
                if let Some(&producer) = order.producer.get(&read.buffer) {
                    order.successors[producer].push(i);
                }
            }
            order.producer.extend(launch.writes.iter().map(|write| (write.buffer, i)));
        }
        order
    }

    /// Returns the index of the commit launch that computes a buffer, if any.
    pub(super) fn producer(&self, buffer: ValueId) -> Option<usize> {
        self.producer.get(&buffer).map(|i| self.first + i)
    }

    /// Requires all other launches that read `target` to precede the launch that computes `buffer`. Changes
    /// nothing and returns `false` if one of them depends on that launch, or if no launch of the commit
    /// computes `buffer`.
    pub(super) fn write_after_reads(&mut self, buffer: ValueId, target: ValueId) -> bool {
        let Some(&writer) = self.producer.get(&buffer) else { return false };
        let readers: Vec<usize> = self
            .readers
            .get(&target)
            .into_iter()
            .flatten()
            .copied()
            .filter(|&reader| reader != writer)
            .collect();
        if readers.is_empty() {
            return true;
        }
        let mut after_writer = vec![false; self.successors.len()];
        let mut stack = vec![writer];
        while let Some(i) = stack.pop() {
            if !std::mem::replace(&mut after_writer[i], true) {
                stack.extend(&self.successors[i]);
            }
        }
        if readers.iter().any(|&reader| after_writer[reader]) {
            return false;
        }
        for reader in readers {
            self.successors[reader].push(writer);
        }
        true
    }

    /// Sorts the launches topologically. Launches that need not move keep their order.
    pub(super) fn apply(self, launches: &mut Vec<Launch>) {
        let mut waiting = vec![0; self.successors.len()];
        self.successors.iter().flatten().for_each(|&i| waiting[i] += 1);
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..waiting.len()).filter(|&i| waiting[i] == 0).map(Reverse).collect();
        let mut commit: Vec<Option<Launch>> = launches.drain(self.first..).map(Some).collect();
        while let Some(Reverse(next)) = ready.pop() {
            launches.extend(commit[next].take());
            for &i in &self.successors[next] {
                waiting[i] -= 1;
                if waiting[i] == 0 {
                    ready.push(Reverse(i));
                }
            }
        }
        debug_assert!(commit.iter().all(Option::is_none), "the order has no cycle");
    }
}
