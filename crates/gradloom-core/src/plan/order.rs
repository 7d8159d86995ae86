//! The order of the launches of the commit, in which writes over a parameter or state follow the reads of its
//! old value.
//!
//! In: launches, those of the commit last, in an order in which they can run. Out: another such order. Always
//! holds: the accepted writes and the data flow together have no cycle.

use crate::collections::IdMap;
use crate::ir::ValueId;
use crate::kernel::{Launch, Phase};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Partial order of the launches of the commit, which are numbered from the first of them.
pub(super) struct CommitOrder {
    first: usize,
    /// Launches that must come later.
    successors: Vec<Vec<usize>>,
    producer: IdMap<ValueId, usize>,
    readers: IdMap<ValueId, Vec<usize>>,
}

impl CommitOrder {
    /// Returns the order that the data flow asks for.
    pub(super) fn new(launches: &[Launch]) -> Self {
        let first = launches.iter().position(|l| l.phase == Phase::Commit).unwrap_or(launches.len());
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

    /// Returns the index of the launch of the commit that computes a buffer.
    pub(super) fn producer(&self, buffer: ValueId) -> Option<usize> {
        self.producer.get(&buffer).map(|i| self.first + i)
    }

    /// Lets all other launches that read `target` precede the one that computes `buffer`; changes nothing
    /// and returns `false` if one of them needs what that launch computes.
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

    /// Puts launches in order; those that need not move stay where they are.
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
