//! Cumulative reductions (prefix sums) along rows.
//!
//! In: rows in any layout. Out: rows, contiguous. Each short row is processed by one invocation. A long row
//! is split into pieces, one per workgroup, whose invocations process adjacent elements: each invocation
//! reduces its elements, the workgroup scans these results, and each invocation then processes its elements
//! again. If rows have several pieces, two preceding kernels compute the reduction of the elements before
//! each piece. Invariant: the order in which elements are combined depends only on the schedule.

use super::super::builder::Variable;
use super::super::index::axes;
use super::super::index_at;
use super::super::ir::{Kernel, Role};
use super::each::each;
use super::{Builder, Value, Views, WORKGROUP};
use crate::narrow::narrow;
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::{CumulateSchedule, Layout, Schedule};

/// A `Cumulate` op whose kernels are being built.
struct Cumulate<'v> {
    views: &'v Views<'v>,
    op: ReduceOp,
    reverse: bool,
    dtype: DType,
    extent: u32,
    stride: u32,
    /// Layout of the first elements of the rows.
    outer: Layout,
}

pub(super) fn cumulate(views: &Views<'_>, schedule: &Schedule, op: ReduceOp, reverse: bool) -> Vec<Kernel> {
    let layout = views.reads[0].layout;
    let last = layout.shape.rank() - 1;
    let outer = Layout { offset: layout.offset, ..axes(layout, 0, last) };
    let this = Cumulate {
        views,
        op,
        reverse,
        dtype: views.reads[0].dtype,
        extent: narrow(layout.shape[last]),
        stride: narrow(layout.strides[last]),
        outer,
    };
    if views.elements() == 0 {
        return Vec::new();
    }
    let Schedule::Cumulate(schedule) = schedule else {
        return each("cumulate", views, this.outer.shape.elements(), |k, row| {
            let sum = k.var(this.identity(k));
            this.walk(k, row, [k.u32(0), k.u32(this.extent)], sum);
        });
    };
    let mut kernels = Vec::new();
    if schedule.pieces > 1 {
        kernels.extend([this.totals(schedule), this.before(schedule)]);
    }
    kernels.push(this.finish(schedule));
    kernels
}

impl Cumulate<'_> {
    fn identity<'k>(&self, k: &'k Builder) -> Value<'k> {
        k.identity(self.op, self.dtype)
    }

    /// Loads an element of a row, numbered in the direction of the scan.
    fn load<'k>(&self, k: &'k Builder, row: Value<'k>, number: Value<'k>) -> Value<'k> {
        let at = self.at(k, number);
        k.load(k.buffer(Role::Operand(0), self.dtype), index_at(k, &self.outer, row) + at * self.stride)
    }

    fn at<'k>(&self, k: &'k Builder, number: Value<'k>) -> Value<'k> {
        if self.reverse { k.u32(self.extent - 1) - number } else { number }
    }

    /// Combines elements of a row with `sum`, and stores the result after each one.
    fn walk<'k>(&self, k: &'k Builder, row: Value<'k>, [start, end]: [Value<'k>; 2], sum: Variable<'k>) {
        k.count(start, end, k.u32(1), |i| {
            sum.set(sum.get().combine(self.op, self.load(k, row, i)));
            self.views.store(k, row * self.extent + self.at(k, i), sum.get());
        });
    }

    fn scratch(&self, k: &Builder, schedule: &CumulateSchedule) -> u32 {
        k.buffer(Role::Workspace { start: 0, bytes: schedule.workspace() }, self.dtype)
    }

    /// Returns the row of the workgroup's piece, and the range of the invocation's elements.
    fn own<'k>(&self, k: &'k Builder, schedule: &CumulateSchedule) -> (Value<'k>, [Value<'k>; 2]) {
        let (pieces, each) = (narrow(schedule.pieces), narrow(schedule.each));
        let start = ((k.group() % pieces) * WORKGROUP + k.local()) * each;
        let extent = k.u32(self.extent);
        (k.group() / pieces, [start.min(extent), (start + each).min(extent)])
    }

    /// Reduces the invocation's elements.
    fn total<'k>(&self, k: &'k Builder, row: Value<'k>, [start, end]: [Value<'k>; 2]) -> Value<'k> {
        let sum = k.var(self.identity(k));
        k.count(start, end, k.u32(1), |i| {
            sum.set(sum.get().combine(self.op, self.load(k, row, i)));
        });
        sum.get()
    }

    /// Returns a shared array of the inclusive scan of the invocations' values. Appends barriers, which all
    /// invocations must reach.
    fn together(&self, k: &Builder, own: Value<'_>) -> u32 {
        let shared = k.shared(self.dtype, WORKGROUP);
        let local = k.local();
        k.set_element(shared, local, own);
        k.barrier();
        k.count(k.u32(0), k.u32(WORKGROUP.ilog2()), k.u32(1), |turn| {
            let step = k.u32(1) << turn;
            let has = !local.less(step);
            let earlier = k.element(shared, has.select(local - step, k.u32(0)));
            let sum = has.select(earlier, self.identity(k)).combine(self.op, k.element(shared, local));
            k.barrier();
            k.set_element(shared, local, sum);
            k.barrier();
        });
        shared
    }

    /// Returns the reduction of the values of all preceding invocations.
    fn earlier<'k>(&self, k: &'k Builder, shared: u32) -> Value<'k> {
        let has = k.u32(0).less(k.local());
        let earlier = k.element(shared, has.select(k.local() - 1, k.u32(0)));
        has.select(earlier, self.identity(k))
    }

    /// Returns the kernel that reduces each piece.
    fn totals(&self, schedule: &CumulateSchedule) -> Kernel {
        let k = Builder::new("cumulate: pieces", WORKGROUP, schedule.rows * schedule.pieces);
        let (row, own) = self.own(&k, schedule);
        let shared = self.together(&k, self.total(&k, row, own));
        k.when(k.local().equals(k.u32(0)), || {
            let total = k.element(shared, k.u32(WORKGROUP - 1));
            k.store(self.scratch(&k, schedule), k.group(), total);
        });
        k.finish()
    }

    /// Returns the kernel that replaces the reduction of each piece by that of all pieces before it.
    fn before(&self, schedule: &CumulateSchedule) -> Kernel {
        let k = Builder::new("cumulate: before", WORKGROUP, schedule.rows);
        let pieces = narrow(schedule.pieces);
        let each = pieces.div_ceil(WORKGROUP);
        let scratch = self.scratch(&k, schedule);
        let first = k.group() * pieces;
        let bounds = [0, each].map(|more| (k.local() * each + more).min(k.u32(pieces)));
        let load = |i| k.load(scratch, first + i);
        let sum = k.var(self.identity(&k));
        k.count(bounds[0], bounds[1], k.u32(1), |i| sum.set(sum.get().combine(self.op, load(i))));
        let shared = self.together(&k, sum.get());
        let before = k.var(self.earlier(&k, shared));
        k.count(bounds[0], bounds[1], k.u32(1), |i| {
            let own = load(i);
            k.store(scratch, first + i, before.get());
            before.set(before.get().combine(self.op, own));
        });
        k.finish()
    }

    /// Returns the kernel that writes the results.
    fn finish(&self, schedule: &CumulateSchedule) -> Kernel {
        let k = Builder::new("cumulate", WORKGROUP, schedule.rows * schedule.pieces);
        let (row, own) = self.own(&k, schedule);
        let shared = self.together(&k, self.total(&k, row, own));
        let earlier = self.earlier(&k, shared);
        let before = match schedule.pieces {
            1 => earlier,
            _ => k.load(self.scratch(&k, schedule), k.group()).combine(self.op, earlier),
        };
        let sum = k.var(before);
        k.guard([self.views.gate(&k)], || self.walk(&k, row, own, sum));
        k.finish()
    }
}
