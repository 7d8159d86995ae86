//! Use of the step arena over time, by buffer.
//!
//! A [`Timeline`] is computed from a plan with lifetimes and offsets. Moment `i` is the execution of launch
//! `i`. The last moment, after all launches, is when the caller reads outputs. Each byte in use is counted
//! once: if a launch overwrites an operand with its result, the bytes belong to the result.

use super::{Buffer, Plan, Region, Role};
use crate::collections::sort_by_key;
use std::ops::Range;

/// The time during which a buffer occupies its bytes of the step arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Index into [`Plan::buffers`].
    pub buffer: usize,
    /// Moments in which the buffer occupies its bytes. Empty for an operand that the first launch overwrites.
    pub moments: Range<usize>,
}

/// The use of the step arena over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// All nonempty buffers of the arena, sorted by offset, then by time.
    pub stays: Vec<Stay>,
    bytes: Vec<[u64; Role::ALL.len()]>,
}

impl Timeline {
    /// Returns the number of moments, which is one more than the number of launches.
    pub fn moments(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes in use at a moment, excluding padding.
    pub fn bytes(&self, moment: usize) -> u64 {
        self.bytes[moment].iter().sum()
    }

    /// Returns the number of bytes that buffers of this role occupy at a moment.
    pub fn bytes_of(&self, role: Role, moment: usize) -> u64 {
        self.bytes[moment][role as usize]
    }

    /// Returns the first moment of peak use.
    pub fn peak(&self) -> usize {
        let fullest =
            (0..self.moments()).max_by_key(|&moment| (self.bytes(moment), std::cmp::Reverse(moment)));
        fullest.expect("there is a moment after the last launch")
    }

    /// Returns the buffers that occupy bytes at a moment as indices into [`Plan::buffers`], in the order of
    /// offsets.
    pub fn at(&self, moment: usize) -> impl Iterator<Item = usize> {
        self.stays.iter().filter(move |stay| stay.moments.contains(&moment)).map(|stay| stay.buffer)
    }
}

impl Plan {
    /// Returns the use of the step arena over time.
    pub fn timeline(&self) -> Timeline {
        let in_arena = |(_, b): &(usize, &Buffer)| b.region == Region::Step && b.bytes > 0;
        let mut stays: Vec<Stay> = self
            .buffers
            .iter()
            .enumerate()
            .filter(in_arena)
            .map(|(buffer, b)| Stay { buffer, moments: b.first..b.last + 1 })
            .collect();
        sort_by_key(&mut stays, |stay| {
            (self.buffers[stay.buffer].offset, stay.moments.start, stay.moments.end)
        });
        for i in 1..stays.len() {
            let start = stays[i].moments.start;
            let offset = |stay: &Stay| self.buffers[stay.buffer].offset;
            if offset(&stays[i - 1]) == offset(&stays[i]) {
                let end = &mut stays[i - 1].moments.end;
                *end = start.min(*end);
            }
        }
        // Compute the changes at each moment, then their prefix sums.
        let moments = self.launches.len() + 1;
        let mut changes = vec![[0_i64; Role::ALL.len()]; moments + 1];
        for stay in &stays {
            let Buffer { role, bytes, .. } = self.buffers[stay.buffer];
            changes[stay.moments.start][role as usize] += bytes.cast_signed();
            changes[stay.moments.end][role as usize] -= bytes.cast_signed();
        }
        let mut taken = [0_i64; Role::ALL.len()];
        let bytes = changes.iter().take(moments).map(|change| {
            taken.iter_mut().zip(change).for_each(|(sum, change)| *sum += change);
            taken.map(i64::cast_unsigned)
        });
        Timeline { bytes: bytes.collect(), stays }
    }
}
