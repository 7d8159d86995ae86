//! Partition of the work among invocations without shared memory: each has separate rows, and a part of their
//! results.
//!
//! Invocations without a row repeat the last one, and do not store it.

use super::super::{Builder, Value};
use super::bounds::{Bounds, KeyRange};
use super::{Attention, Head};
use crate::narrow::narrow;
use gradloom_core::kernel::{AttentionKernel, AttentionSchedule};

/// Maximum number of elements of a row that an invocation keeps in registers, and of a result row whose sums
/// it accumulates.
pub(super) const REGISTERS: usize = 64;

/// Partition of rows (queries or keys) among invocations: `count` rows for each head and part of the result.
pub(super) struct Shares {
    /// Number of invocations of a workgroup.
    pub(super) workgroup: usize,
    /// Number of rows of an invocation.
    each: usize,
    count: usize,
    /// Number of parts of a result row.
    parts: usize,
    heads: usize,
    sequences: usize,
    /// True if the invocations of a workgroup have the same head and part.
    together: bool,
}

/// Share of an invocation.
pub(super) struct SharePlace<'k> {
    k: &'k Builder,
    count: u32,
    /// Number of parts of a result row.
    pub(super) parts: usize,
    /// Index of the invocation's part.
    pub(super) part: Value<'k>,
    pub(super) of: Head<'k>,
    /// Rows of the invocation.
    pub(super) rows: Vec<Value<'k>>,
    /// Rows of the invocation, clamped to the last.
    pub(super) there: Vec<Value<'k>>,
    /// First row of the workgroup; of the invocation if the workgroup has several heads.
    pub(super) first: Value<'k>,
    /// Last row of the workgroup; of the invocation if the workgroup has several heads.
    pub(super) last: Value<'k>,
    /// True if the workgroup has a single head and part, and its invocations have different rows.
    together: bool,
}

impl Shares {
    /// Creates the shares of a kernel whose invocations have `each` rows.
    pub(super) fn new(schedule: &AttentionSchedule, kernel: AttentionKernel, each: usize) -> Self {
        let AttentionSchedule { problem, workgroup, together_from, .. } = schedule;
        let width = match kernel {
            AttentionKernel::Forward => problem.value_depth,
            AttentionKernel::Queries => problem.depth,
            AttentionKernel::Keys => problem.depth.max(problem.value_depth),
        };
        let count = kernel.rows(problem);
        Self {
            workgroup: *workgroup,
            each,
            count,
            parts: width.div_ceil(REGISTERS).max(1),
            heads: kernel.heads(problem),
            sequences: problem.batch,
            together: count >= *together_from,
        }
    }

    /// Returns the number of workgroups.
    pub(super) fn groups(&self) -> usize {
        let around = self.sequences * self.heads * self.parts;
        match self.together {
            true => around * self.count.div_ceil(self.workgroup * self.each),
            false => (around * self.count).div_ceil(self.workgroup),
        }
    }
}

impl<'k> Attention<'k, '_> {
    /// Appends `body` for the invocation's share, if it exists and the step may commit.
    pub(super) fn own_rows(&self, shares: &Shares, body: impl FnOnce(&SharePlace<'k>)) {
        let (k, gate) = (self.k, self.views.gate(self.k));
        let [workgroup, count, parts, heads] =
            [shares.workgroup, shares.count, shares.parts, shares.heads].map(narrow);
        let block = workgroup * narrow(shares.each);
        let (first, last, rest) = if shares.together {
            let blocks = count.div_ceil(block);
            let first = k.group() % blocks * block;
            (first, (first + (block - 1)).min(k.u32(count - 1)), k.group() / blocks)
        } else {
            let position = k.group() * workgroup + k.local();
            (position % count, position % count, position / count)
        };
        let row = |r: u32| if shares.together { first + k.local() + r * workgroup } else { first };
        let rows: Vec<_> = (0..narrow(shares.each)).map(row).collect();
        let sequence = rest / (parts * heads);
        let is_any = match shares.together {
            true => rows[0].below(count),
            false => sequence.below(narrow(shares.sequences)),
        };
        let place = SharePlace {
            k,
            count,
            parts: shares.parts,
            part: rest % parts,
            of: [sequence, rest / parts % heads],
            there: rows.iter().map(|row| row.min(k.u32(count - 1))).collect(),
            rows,
            first,
            last,
            together: shares.together,
        };
        k.guard([gate, Some(is_any)], || body(&place));
    }
}

impl<'k> SharePlace<'k> {
    /// Returns the keys visible to each of the rows, which are queries, and the first key visible to any
    /// query of the workgroup, with the end of these keys.
    pub(super) fn keys(&self, bounds: &Bounds<'k>) -> (Vec<KeyRange<'k>>, [Value<'k>; 2]) {
        let of_each = self.there.iter().map(|&query| bounds.keys(query)).collect();
        (of_each, [bounds.begin_of_keys(self.first), bounds.end_of_keys(self.last)])
    }

    /// Returns `value` if the key is in the query's range, else `otherwise`. If the workgroup has several
    /// heads, each invocation's loop over keys has that range, so `value` is always returned.
    pub(super) fn shown(
        &self,
        key: Value<'k>,
        range: &KeyRange<'k>,
        value: Value<'k>,
        otherwise: f32,
    ) -> Value<'k> {
        if self.together { range.contains(key).select(value, self.k.f32(otherwise)) } else { value }
    }

    /// Appends `then` for each of the rows that exist, with its index.
    pub(super) fn each_row(&self, then: impl Fn(usize, Value<'k>)) {
        for (r, &row) in self.rows.iter().enumerate() {
            self.k.when(row.below(self.count), || then(r, row));
        }
    }

    /// Appends `then` for the invocations that have the first part.
    pub(super) fn in_first_part(&self, then: impl FnOnce()) {
        let is_first = (self.parts > 1).then(|| self.part.equals(self.k.u32(0)));
        self.k.guard([is_first], then);
    }
}
