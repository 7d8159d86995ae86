//! Use of the step arena over time, by buffer.
//!
//! In: a plan with lifetimes and offsets. Out: a [`Timeline`] over moments: moment `i` is while launch `i`
//! runs, and the last moment, after all launches, is when the caller reads outputs. Always holds: a byte that
//! is taken is counted once; where a launch writes a result over an operand that dies there, the bytes are
//! the result's.

use super::{Buffer, Plan, Region, Role};
use crate::collections::sort_by_key;
use std::ops::Range;

/// The time for which a buffer owns its bytes of the step arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Place in [`Plan::buffers`].
    pub buffer: usize,
    /// Moments from the first to before the end; empty for an operand of the first launch that is written
    /// over there.
    pub moments: Range<usize>,
}

/// The step arena over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Every buffer of the arena that has bytes, by offset and then by time.
    pub stays: Vec<Stay>,
    bytes: Vec<[u64; Role::ALL.len()]>,
}

impl Timeline {
    /// Returns the number of moments: one more than there are launches.
    pub fn moments(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes that are taken at a moment, without padding.
    pub fn bytes(&self, moment: usize) -> u64 {
        self.bytes[moment].iter().sum()
    }

    /// Returns the number of bytes that buffers of this role take at a moment.
    pub fn bytes_of(&self, role: Role, moment: usize) -> u64 {
        self.bytes[moment][role as usize]
    }

    /// Returns the first of the moments at which most bytes are taken.
    pub fn peak(&self) -> usize {
        let fullest =
            (0..self.moments()).max_by_key(|&moment| (self.bytes(moment), std::cmp::Reverse(moment)));
        fullest.expect("there is a moment after the last launch")
    }

    /// Returns the buffers that have bytes at a moment, as places in [`Plan::buffers`], by offset.
    pub fn at(&self, moment: usize) -> impl Iterator<Item = usize> {
        self.stays.iter().filter(move |stay| stay.moments.contains(&moment)).map(|stay| stay.buffer)
    }
}

impl Plan {
    /// Returns the step arena over time.
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
        // What comes and goes at each moment, then the sums.
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

    /// Buffers that hold something that launch `launch` or a later one, or the caller, still needs: an
    /// operand that dies there and the result that takes its bytes are both among them. `launch` may be the
    /// number of launches: what is left at the end.
    pub fn live_at(&self, launch: usize) -> impl Iterator<Item = &Buffer> {
        self.buffers.iter().filter(move |b| b.first <= launch && launch <= b.last)
    }
}
