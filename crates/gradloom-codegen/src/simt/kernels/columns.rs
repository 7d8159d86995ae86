//! Reductions across rows: the sums that each invocation accumulates for its columns, and the kernel that
//! combines the partial results of workgroups.

use super::super::index_at;
use super::super::ir::{Kernel, Role};
use super::rows::Which;
use super::{Builder, Value, Views};
use crate::narrow::narrow;
use crate::simt::Variable;
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::{Body, NodeId, RowSchedule, Store};

/// Reduction across rows.
pub(super) struct Column {
    /// Index of the reduction among the body's column reductions.
    number: usize,
    pub(super) op: ReduceOp,
    pub(super) node: NodeId,
    pub(super) write: usize,
    pub(super) dtype: DType,
}

impl Column {
    pub(super) fn is_float_sum(&self) -> bool {
        self.op == ReduceOp::Sum && self.dtype == DType::F32
    }

    pub(super) fn identity<'k>(&self, k: &'k Builder) -> Value<'k> {
        k.identity(self.op, self.dtype)
    }

    /// Returns the destination of partial results: the scratch memory, or the result itself if no second
    /// kernel combines them.
    pub(super) fn target(&self, views: &Views<'_>, body: &Body, schedule: &RowSchedule) -> (Role, DType) {
        match schedule.finishing {
            Some(_) => (partials(schedule, body, self.number), self.dtype),
            None => (Role::Result(self.write), views.writes[self.write].dtype),
        }
    }
}

fn partials(schedule: &RowSchedule, body: &Body, number: usize) -> Role {
    let bytes = schedule.partials(body, number);
    Role::Workspace { start: bytes.start, bytes: bytes.end - bytes.start }
}

/// Returns the column reductions of a body.
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

/// Maximum number of values that are summed sequentially. An addition has a relative error of up to 2^-24, so
/// 16 positive numbers of similar size sum up with an error of about 5e-7. (Compensated summation would
/// require that drivers do not reassociate float operations.)
pub(super) const MOST_IN_A_ROW: usize = 16;
/// Maximum number of partial sums, and of slots in one invocation, that are added sequentially.
pub(super) const LEAF: usize = 8;

/// Partial results of an invocation for each column reduction and each of the invocation's positions in a
/// row.
pub(super) enum ColumnSums<'k> {
    Variables(Vec<Vec<Variable<'k>>>),
    Arrays(Vec<u32>),
}

impl<'k> ColumnSums<'k> {
    /// Creates partial results, initialized with the identity.
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

    /// Adds the partial results in `parts` to these, and resets `parts` to the identity.
    pub(super) fn take(&self, k: &'k Builder, body: &Body, schedule: &RowSchedule, parts: &Self) {
        for column in columns_of(body) {
            let take = |which: Which<'k>| {
                self.add(k, &column, which, parts.get(k, &column, which));
                parts.set(k, &column, which, column.identity(k));
            };
            match parts {
                Self::Variables(_) => (0..schedule.each).map(Which::Unrolled).for_each(take),
                Self::Arrays(_) => {
                    k.count(k.u32(0), k.u32(narrow(schedule.each)), k.u32(1), |turn| take(Which::Turn(turn)));
                }
            }
        }
    }

    /// Combines a value with one of the partial results.
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

/// Returns the second kernel of column reductions. It combines the partial results of the workgroups, with
/// `lanes` invocations per column.
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

/// Combines `sum` over the lanes of each of a workgroup's `wide` columns, by repeated halving. Lane 0
/// receives the result.
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
    in_halves(k, op, shares, lane, [lanes, wide]);
    k.when(lane.equals(k.u32(0)), || sum.set(k.element(shares, k.local())));
}

/// Combines the values of `lanes` lanes in shared memory, which are `wide` elements apart, by repeated
/// halving. The result replaces the value of lane 0.
pub(super) fn in_halves<'k>(
    k: &'k Builder,
    op: ReduceOp,
    shares: u32,
    lane: Value<'k>,
    [lanes, wide]: [usize; 2],
) {
    let mut left = lanes;
    while left > 1 {
        let half = left.div_ceil(2);
        k.when(lane.below(narrow(left - half)), || {
            let other = k.element(shares, k.local() + narrow(half * wide));
            k.set_element(shares, k.local(), k.element(shares, k.local()).combine(op, other));
        });
        k.barrier();
        left = half;
    }
}
