//! Number of keys visible to a query.
//!
//! A query sees the keys below a limit. So masking is a comparison with that limit, and blocks of keys beyond
//! the limit of a block's last query are skipped.

use super::super::super::index_at;
use super::super::super::ir::Role;
use super::super::{Builder, Value};
use super::Attention;
use crate::narrow::narrow;
use gradloom_core::ir::{CompareOp, DType};

/// Values that determine the number of keys visible to a query.
pub(super) struct Bounds<'k> {
    k: &'k Builder,
    causal: bool,
    /// Number of queries.
    queries: u32,
    /// Position of the first query among the keys, an i32; clamped to a range in which sums do not overflow,
    /// without an effect on the limits.
    offset: Option<Value<'k>>,
    /// Number of keys.
    pub(super) length: Value<'k>,
}

impl<'k> Attention<'k, '_> {
    /// Returns the bounds of a sequence, which each invocation loads.
    pub(super) fn bounds(&self, sequence: Value<'k>) -> Bounds<'k> {
        let [offset, length, _] = self.problem.spec.extra_positions();
        let [offset, length] = [offset, length].map(|read| read.map(|read| self.given(read, sequence)));
        if let Some(length) = length {
            self.check_length(length, sequence);
        }
        self.bounds_of(offset, length)
    }

    /// Returns the bounds of a workgroup's sequence. One invocation loads them and broadcasts them to the
    /// others, so that compilers can prove that the bounds are uniform. All invocations must reach the
    /// broadcast.
    pub(super) fn shared_bounds(&self, sequence: Value<'k>) -> Bounds<'k> {
        let k = self.k;
        let [offset, length, _] = self.problem.spec.extra_positions();
        if offset.is_none() && length.is_none() {
            return self.bounds_of(None, None);
        }
        let shared = k.shared(DType::I32, 2);
        k.when(k.local().equals(k.u32(0)), || {
            if let Some(read) = offset {
                k.set_element(shared, k.u32(0), self.given(read, sequence));
            }
            if let Some(read) = length {
                let length = self.given(read, sequence);
                self.check_length(length, sequence);
                k.set_element(shared, k.u32(1), length);
            }
        });
        let known = |number: u32| k.broadcast(shared, k.u32(number));
        self.bounds_of(offset.map(|_| known(0)), length.map(|_| known(1)))
    }

    /// Loads an operand's number for a sequence; the operand has one element, or one per sequence.
    fn given(&self, read: usize, sequence: Value<'k>) -> Value<'k> {
        let (k, view) = (self.k, &self.views.reads[read]);
        let number = if view.layout.shape.rank() == 0 { k.u32(0) } else { sequence };
        k.load(k.buffer(Role::Operand(read), view.dtype), index_at(k, view.layout, number))
    }

    fn check_length(&self, length: Value<'k>, sequence: Value<'k>) {
        self.k.report_index(length, narrow(self.problem.keys + 1), sequence);
    }

    fn bounds_of(&self, offset: Option<Value<'k>>, length: Option<Value<'k>>) -> Bounds<'k> {
        let (k, queries, keys) = (self.k, narrow(self.problem.queries), narrow(self.problem.keys));
        let clamped = |offset: Value<'k>| offset.max(k.i32(-small(queries))).min(k.i32(small(keys)));
        let length = length.map(|length| length.clamped(keys + 1).cast(DType::U32));
        Bounds {
            k,
            causal: self.problem.spec.causal,
            queries,
            offset: offset.map(clamped),
            length: length.unwrap_or(k.u32(keys)),
        }
    }
}

/// Converts an extent to i32.
fn small(extent: u32) -> i32 {
    i32::try_from(extent).unwrap_or(i32::MAX)
}

impl<'k> Bounds<'k> {
    /// Returns the number of keys visible to a query, whose index must be below the number of queries.
    pub(super) fn limit(&self, query: Value<'k>) -> Value<'k> {
        let (k, length) = (self.k, self.length);
        match self.offset {
            _ if !self.causal => length,
            None => (query + 1).min(length),
            Some(offset) => {
                let limit = offset + query.cast(DType::I32) + k.i32(1);
                limit.max(k.i32(0)).min(length.cast(DType::I32)).cast(DType::U32)
            }
        }
    }

    /// Returns the first query to which a key is visible; the number of queries if it is visible to none.
    pub(super) fn first_query(&self, key: Value<'k>) -> Value<'k> {
        let (k, queries) = (self.k, self.k.u32(self.queries));
        let first = match self.offset {
            _ if !self.causal => k.u32(0),
            None => key.min(queries),
            Some(offset) => {
                (key.cast(DType::I32) - offset).max(k.i32(0)).min(k.i32(small(self.queries))).cast(DType::U32)
            }
        };
        key.compare(CompareOp::Ge, self.length).select(queries, first)
    }
}
