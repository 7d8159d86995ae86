//! Keys visible to a query, and queries to which a key is visible.
//!
//! Both are ranges, whose bounds do not decrease from one query, or key, to the next. So masking is a
//! comparison with bounds, and a block's range starts with that of its first row and ends with that of its
//! last.

use super::super::super::index_at;
use super::super::super::ir::Role;
use super::super::{Builder, Value};
use super::Attention;
use crate::narrow::narrow;
use gradloom_core::ir::{CompareOp, DType};

/// Range of keys visible to a query.
#[derive(Clone, Copy)]
pub(super) struct KeyRange<'k> {
    k: &'k Builder,
    /// First key; `None` if it is 0.
    start: Option<Value<'k>>,
    pub(super) end: Value<'k>,
}

/// Range of queries to which a key is visible.
#[derive(Clone, Copy)]
pub(super) struct QueryRange<'k> {
    start: Value<'k>,
    /// End of the range; `None` if it is the number of queries.
    end: Option<Value<'k>>,
}

/// Values that determine which keys are visible to a query.
pub(super) struct Bounds<'k> {
    k: &'k Builder,
    causal: bool,
    /// Number of positions of the window before a query's own, itself included, and after it, if any.
    window: Option<u32>,
    /// Number of queries.
    queries: u32,
    /// Position of the first query among the keys, an i32; clamped to a range in which sums do not overflow,
    /// without an effect on the ranges.
    offset: Option<Value<'k>>,
    /// Number of keys.
    pub(super) length: Value<'k>,
}

impl<'k> Attention<'k, '_> {
    /// Returns the bounds of a sequence, which each invocation loads.
    pub(super) fn bounds(&self, sequence: Value<'k>) -> Bounds<'k> {
        let [offset, length, ..] = self.problem.spec.extra_positions();
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
        let [offset, length, ..] = self.problem.spec.extra_positions();
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

    /// Returns the start of the blocks of `block` queries to which any key from `key` on is visible. It is a
    /// multiple of `block`, unless a query before it may see no key: the elements of such a query may be NaN.
    pub(super) fn start_of_queries(&self, bounds: &Bounds<'k>, key: Value<'k>, block: u32) -> Value<'k> {
        let start = bounds.begin_of_queries(key);
        if self.problem.has_unused_rows() { start } else { start / block * block }
    }

    fn check_length(&self, length: Value<'k>, sequence: Value<'k>) {
        self.k.report_index(length, narrow(self.problem.keys + 1), sequence);
    }

    fn bounds_of(&self, offset: Option<Value<'k>>, length: Option<Value<'k>>) -> Bounds<'k> {
        let (k, queries, keys) = (self.k, narrow(self.problem.queries), narrow(self.problem.keys));
        let window = self.problem.spec.window;
        let [least, most] = [queries, keys].map(|extent| small(extent.saturating_add(window.unwrap_or(0))));
        let clamped = |offset: Value<'k>| offset.max(k.i32(-least)).min(k.i32(most));
        let length = length.map(|length| length.clamped(keys + 1).cast(DType::U32));
        Bounds {
            k,
            causal: self.problem.spec.causal,
            window,
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
    /// Returns the keys visible to a query, whose index must be below the number of queries.
    pub(super) fn keys(&self, query: Value<'k>) -> KeyRange<'k> {
        KeyRange { k: self.k, start: self.first_key(query), end: self.end_of_keys(query) }
    }

    /// Returns the first key visible to any query from `query` on.
    pub(super) fn begin_of_keys(&self, query: Value<'k>) -> Value<'k> {
        self.first_key(query).unwrap_or(self.k.u32(0))
    }

    /// Returns the first key visible to any query from `query` on; `None` if it is 0.
    fn first_key(&self, query: Value<'k>) -> Option<Value<'k>> {
        let (k, window) = (self.k, self.window?);
        Some(match self.offset {
            None => (query + 1).max(k.u32(window)) - window,
            Some(offset) => {
                let start = offset + query.cast(DType::I32) + k.i32(1 - small(window));
                start.max(k.i32(0)).cast(DType::U32)
            }
        })
    }

    /// Returns the end of the keys visible to any query up to `query`.
    pub(super) fn end_of_keys(&self, query: Value<'k>) -> Value<'k> {
        let (k, length) = (self.k, self.length);
        match (self.reach(), self.offset) {
            (None, _) => length,
            (Some(reach), None) => (query + reach).min(length),
            (Some(reach), Some(offset)) => {
                let end = offset + query.cast(DType::I32) + k.i32(small(reach));
                end.max(k.i32(0)).min(length.cast(DType::I32)).cast(DType::U32)
            }
        }
    }

    /// Returns the keys visible to all queries from `first` to `last`.
    pub(super) fn keys_of_all(&self, first: Value<'k>, last: Value<'k>) -> KeyRange<'k> {
        KeyRange { k: self.k, start: self.first_key(last), end: self.end_of_keys(first) }
    }

    /// Returns the queries to which a key is visible: an empty range if there is no such key.
    pub(super) fn queries(&self, key: Value<'k>) -> QueryRange<'k> {
        QueryRange { start: self.begin_of_queries(key), end: self.query_end(key) }
    }

    /// Returns the first query to which any key from `key` on is visible; the number of queries if there is
    /// none.
    pub(super) fn begin_of_queries(&self, key: Value<'k>) -> Value<'k> {
        let (k, queries) = (self.k, self.k.u32(self.queries));
        let first = match (self.reach(), self.offset) {
            (None, _) => k.u32(0),
            (Some(1), None) => key.min(queries),
            (Some(reach), None) => ((key + 1).max(k.u32(reach)) - reach).min(queries),
            (Some(1), Some(offset)) => self.inside(key.cast(DType::I32) - offset),
            (Some(reach), Some(offset)) => {
                self.inside(key.cast(DType::I32) + k.i32(1 - small(reach)) - offset)
            }
        };
        key.compare(CompareOp::Ge, self.length).select(queries, first)
    }

    /// Returns the queries to which all keys from `first` to `last` are visible.
    pub(super) fn queries_of_all(&self, first: Value<'k>, last: Value<'k>) -> QueryRange<'k> {
        QueryRange { start: self.begin_of_queries(last), end: self.query_end(first) }
    }

    /// Returns the end of the queries to which any key up to `key` is visible; `None` if it is the number of
    /// queries.
    pub(super) fn query_end(&self, key: Value<'k>) -> Option<Value<'k>> {
        let (k, window) = (self.k, self.window?);
        let key = key.min(self.length.max(k.u32(1)) - 1);
        Some(match self.offset {
            None => (key + window).min(k.u32(self.queries)),
            Some(offset) => self.inside(key.cast(DType::I32) + k.i32(small(window)) - offset),
        })
    }

    /// Clamps an i32 to the range from 0 to the number of queries, as a u32.
    fn inside(&self, query: Value<'k>) -> Value<'k> {
        query.max(self.k.i32(0)).min(self.k.i32(small(self.queries))).cast(DType::U32)
    }

    /// Returns the end of the keys visible to a query, relative to its position; `None` if no position ends
    /// them.
    fn reach(&self) -> Option<u32> {
        if self.causal { Some(1) } else { self.window }
    }
}

impl<'k> KeyRange<'k> {
    /// Returns the range if the condition holds, else an empty range.
    pub(super) fn given(self, condition: Value<'k>) -> Self {
        Self { end: condition.select(self.end, self.k.u32(0)), ..self }
    }

    /// Returns `true` if there are keys in the range.
    pub(super) fn is_any(&self) -> Value<'k> {
        self.start.unwrap_or(self.k.u32(0)).less(self.end)
    }

    /// Returns `true` if the key is in the range.
    pub(super) fn contains(&self, key: Value<'k>) -> Value<'k> {
        let is_below = key.less(self.end);
        self.start.map_or(is_below, |start| is_below & key.compare(CompareOp::Ge, start))
    }

    /// Returns `true` if any of the `count` keys from `first` on is outside of the range.
    pub(super) fn excludes_any(&self, first: Value<'k>, count: u32) -> Value<'k> {
        let is_beyond = self.end.less(first + count);
        self.start.map_or(is_beyond, |start| is_beyond | first.less(start))
    }

    /// Returns a function that returns `true` if the key `column` positions after key `first` is in the
    /// range.
    pub(super) fn relative_to(&self, first: Value<'k>) -> impl Fn(u32) -> Value<'k> {
        let k = self.k;
        let first = first.cast(DType::I32);
        let end = self.end.cast(DType::I32) - first;
        let start = self.start.map(|start| start.cast(DType::I32) - first);
        move |column: u32| {
            let column = k.i32(column.cast_signed());
            let is_below = end.compare(CompareOp::Gt, column);
            start.map_or(is_below, |start| is_below & start.compare(CompareOp::Le, column))
        }
    }
}

impl<'k> QueryRange<'k> {
    /// Returns `true` if any of the `count` queries from `first` on is outside of the range.
    pub(super) fn excludes_any(&self, first: Value<'k>, count: u32) -> Value<'k> {
        let is_before = first.less(self.start);
        self.end.map_or(is_before, |end| is_before | end.less(first + count))
    }

    /// Returns `true` if the query is in the range.
    pub(super) fn contains(&self, query: Value<'k>) -> Value<'k> {
        let is_above = query.compare(CompareOp::Ge, self.start);
        self.end.map_or(is_above, |end| is_above & query.less(end))
    }
}
