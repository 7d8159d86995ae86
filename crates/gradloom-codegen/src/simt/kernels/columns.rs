//! Reductions across rows: each invocation's sums of its columns, and the kernel that takes the partial
//! results of workgroups together.

use super::super::index_at;
use super::super::ir::{Kernel, Role};
use super::rows::Which;
use super::{Builder, Value, Views};
use crate::narrow::narrow;
use crate::simt::Variable;
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::{Body, NodeId, RowSchedule, Store};

/// A reduction of columns.
pub(super) struct Column {
    /// Which of the body's.
    number: usize,
    pub(super) op: ReduceOp,
    pub(super) node: NodeId,
    pub(super) write: usize,
    pub(super) dtype: DType,
}

impl Column {
    pub(super) fn identity<'k>(&self, k: &'k Builder) -> Value<'k> {
        k.identity(self.op, self.dtype)
    }

    /// Where partial results go: the scratch, or the result itself if nothing takes them together.
    pub(super) fn target(&self, views: &Views<'_>, body: &Body, schedule: &RowSchedule) -> (Role, DType) {
        match schedule.finishing {
            Some(_) => (partials(schedule, body, self.number), self.dtype),
            None => (Role::Result(self.write), views.writes[self.write].dtype),
        }
    }
}

fn partials(schedule: &RowSchedule, body: &Body, number: usize) -> Role {
    let bytes = schedule.partials(body, number);
    Role::Workspace { start: bytes.start, bytes: bytes.len() }
}

/// The reductions of a body's columns.
pub(super) fn columns_of(body: &Body) -> Vec<Column> {
    let columns = body.stores.iter().filter_map(|store| match *store {
        Store::ColumnReduce { op, node, write, .. } => Some((op, node, write)),
        Store::Value { .. } => None,
    });
    let column = |(number, (op, node, write))| {
        let dtype = body.node(node).dtype;
        Column { number, op, node, write, dtype }
    };
    columns.enumerate().map(column).collect()
}

/// Turns whose sums are added up before they are added to those of all: floats that are added one after the
/// other lose a digit for each ten times as many.
pub(super) const LEAF_TURNS: usize = 32;

/// An invocation's sums, of each reduction for each of its positions in a row.
pub(super) enum ColumnSums<'k> {
    Variables(Vec<Vec<Variable<'k>>>),
    Arrays(Vec<u32>),
}

impl<'k> ColumnSums<'k> {
    /// Sums of nothing so far.
    pub(super) fn new(k: &'k Builder, body: &Body, schedule: &RowSchedule) -> Self {
        let columns = columns_of(body);
        let each = schedule.each;
        if schedule.is_unrolled() {
            let variables = |c: &Column| (0..each).map(|_| k.var(c.identity(k))).collect();
            return Self::Variables(columns.iter().map(variables).collect());
        }
        let array = |column: &Column| {
            let array = k.private(column.dtype, narrow(each));
            k.count(k.u32(0), k.u32(narrow(each)), k.u32(1), |i| {
                k.set_element(array, i, column.identity(k));
            });
            array
        };
        Self::Arrays(columns.iter().map(array).collect())
    }

    pub(super) fn get(&self, k: &'k Builder, column: &Column, which: Which<'k>) -> Value<'k> {
        match (self, which) {
            (Self::Variables(all), Which::Unrolled(i)) => all[column.number][i].get(),
            (Self::Arrays(all), Which::Turn(turn)) => k.element(all[column.number], turn),
            _ => unreachable!("sums are variables where positions are unrolled"),
        }
    }

    /// Adds other sums, each to its own, and starts those anew.
    pub(super) fn take(&self, k: &'k Builder, body: &Body, schedule: &RowSchedule, others: &Self) {
        for column in columns_of(body) {
            let take = |which: Which<'k>| {
                self.add(k, &column, which, others.get(k, &column, which));
                others.set(k, &column, which, column.identity(k));
            };
            match others {
                Self::Variables(_) => (0..schedule.each).map(Which::Unrolled).for_each(take),
                Self::Arrays(_) => {
                    k.count(k.u32(0), k.u32(narrow(schedule.each)), k.u32(1), |turn| take(Which::Turn(turn)));
                }
            }
        }
    }

    /// Adds a value to one of them.
    pub(super) fn add(&self, k: &'k Builder, column: &Column, which: Which<'k>, value: Value<'k>) {
        self.set(k, column, which, self.get(k, column, which).combine(column.op, value));
    }

    fn set(&self, k: &'k Builder, column: &Column, which: Which<'k>, sum: Value<'k>) {
        match (self, which) {
            (Self::Variables(all), Which::Unrolled(i)) => all[column.number][i].set(sum),
            (Self::Arrays(all), Which::Turn(turn)) => k.set_element(all[column.number], turn, sum),
            _ => unreachable!("sums are variables where positions are unrolled"),
        }
    }
}

/// The second kernel of column reductions: takes the partial results together, a few lanes to a column.
pub(super) fn finish(
    views: &Views<'_>,
    body: &Body,
    schedule: &RowSchedule,
    [lanes, wide]: [usize; 2],
    label: &str,
) -> Kernel {
    let groups = body.columns.div_ceil(wide);
    let k = Builder::new(&format!("{label}: sums of columns"), narrow(lanes * wide), groups);
    let (lane, at) = (k.local() / narrow(wide), k.group() * narrow(wide) + k.local() % narrow(wide));
    let columns = narrow(body.columns);
    for column in columns_of(body) {
        let scratch = k.buffer(partials(schedule, body, column.number), column.dtype);
        let sum = k.var(column.identity(&k));
        k.when(at.below(columns), || {
            k.count(lane, k.u32(narrow(schedule.groups)), k.u32(narrow(lanes)), |i| {
                let share = k.load(scratch, i * columns + at);
                sum.set(sum.get().combine(column.op, share));
            });
        });
        across_columns(&k, column.op, sum, lane, [lanes, wide]);
        let is_first = lane.equals(k.u32(0));
        k.guard([Some(is_first), Some(at.below(columns)), views.gate(&k)], || {
            let view = &views.writes[column.write];
            let result = k.buffer(Role::Result(column.write), view.dtype);
            k.store(result, index_at(&k, view.layout, at), sum.get());
        });
    }
    k.finish()
}

/// Combines `count` values with `sum`, in order; many of them in parts of [`LEAF_TURNS`].
pub(super) fn combine_all<'k>(
    k: &'k Builder,
    op: ReduceOp,
    sum: Variable<'k>,
    count: usize,
    value: impl Fn(Value<'k>) -> Value<'k>,
) {
    if count <= LEAF_TURNS {
        k.count(k.u32(0), k.u32(narrow(count)), k.u32(1), |i| sum.set(sum.get().combine(op, value(i))));
        return;
    }
    let leaf = narrow(LEAF_TURNS);
    k.count(k.u32(0), k.u32(narrow(count)), k.u32(leaf), |first| {
        let part = k.var(k.identity(op, sum.get().dtype()));
        let end = (first + leaf).min(k.u32(narrow(count)));
        k.count(first, end, k.u32(1), |i| part.set(part.get().combine(op, value(i))));
        sum.set(sum.get().combine(op, part.get()));
    });
}

/// Combines `sum` over the lanes of each of a workgroup's `wide` columns; lane 0 has the result then.
pub(super) fn across_columns<'k>(
    k: &'k Builder,
    op: ReduceOp,
    sum: Variable<'k>,
    lane: Value<'k>,
    [lanes, wide]: [usize; 2],
) {
    if lanes == 1 {
        return;
    }
    let shares = k.shared(sum.get().dtype(), narrow(lanes * wide));
    k.set_element(shares, k.local(), sum.get());
    k.barrier();
    k.when(lane.equals(k.u32(0)), || {
        k.count(k.u32(1), k.u32(narrow(lanes)), k.u32(1), |other| {
            let share = k.element(shares, other * narrow(wide) + k.local());
            sum.set(sum.get().combine(op, share));
        });
    });
}
