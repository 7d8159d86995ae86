//! Scattering of updates to rows by index, by addition or replacement.
//!
//! In: x `[batch.., rows, row..]`, indices `[batch.., index..]` and updates `[batch.., index.., row..]`. Out:
//! x with the updates, contiguous; it may alias x. An index out of range makes the step fail, and is clamped
//! to the nearest in range; if the rows are distinct, the update is skipped instead.
//!
//! The first kernel sorts the updates of each batch by (row, position): the rank of an update is the number
//! of updates that precede it, which a few lanes count. In the second kernel, one invocation for each updated
//! element adds a row's updates in that order, or takes the last. So the work depends on the number of
//! updates, not of rows, except for the copy of x, which is part of the first kernel. Because counting is
//! quadratic, many updates of a batch are processed in chunks, by repeating the same two kernels; counters in
//! the scratch memory select the next chunk. Updates of distinct rows need no sorting. Invariant: each
//! element is written by one invocation, which applies updates in order.

use super::super::index::{axes, index_at};
use super::super::ir::{self, Kernel};
use super::each::each;
use super::{Builder, Table, Value, View, Views, WORKGROUP};
use crate::narrow::narrow;
use gradloom_core::ir::{DType, ScatterOp};
use gradloom_core::kernel::{Layout, ScatterSchedule};

/// Number of a scatter's operands, including its result.
const OPERANDS: usize = 4;

/// Returns the kernel of several scatters of distinct rows with equal shapes and `batch` leading batch axes.
/// `views` are those of the first scatter; the table contains the start indices of each scatter's operands.
pub(super) fn scatters(views: &Views<'_>, batch: usize, table: &Table) -> Vec<Kernel> {
    let layout = |view: &View<'_>| Layout { offset: 0, ..view.layout.clone() };
    let layouts: Vec<Layout> = views.reads.iter().chain(&views.writes).map(layout).collect();
    let mut reads: Vec<View<'_>> = views
        .reads
        .iter()
        .chain(&views.writes)
        .zip(&layouts)
        .map(|(view, layout)| View { layout, ..*view })
        .collect();
    let writes = reads.split_off(views.reads.len());
    let views = Views { reads, writes, ..*views };
    let batches = views.reads[0].layout.shape[..batch].iter().product();
    let schedule = ScatterSchedule { batches, width: 0, chunks: 1, lanes: 1, ahead: 1 };
    let scatter = Scatter::new(&views, &schedule, ScatterOp::Distinct, batch);
    let k = table.kernel("scatter", WORKGROUP as usize, table.groups());
    let (found, [first, last]) = table.chunk(&k);
    let starts: [Value<'_>; OPERANDS] =
        found.starts.try_into().ok().expect("one for each operand and the result");
    k.count(first + k.local(), last, k.u32(WORKGROUP), |position| {
        let (place, column) = (position / scatter.row_elements, position % scatter.row_elements);
        k.guard([views.gate(&k)], || scatter.add_only(&k, place, column, Some(starts)));
    });
    vec![k.finish()]
}

/// Adds `start` to an index, if present; only operands of groups have a start.
fn behind<'k>(index: Value<'k>, start: Option<Value<'k>>) -> Value<'k> {
    start.map_or(index, |start| index + start)
}

/// A `Scatter` op whose kernels are being built.
struct Scatter<'b> {
    views: &'b Views<'b>,
    op: ScatterOp,
    schedule: &'b ScatterSchedule,
    /// Number of updates of a batch.
    updates: u32,
    rows: u32,
    row_elements: u32,
}

/// Returns the kernels of `Scatter` with `batch` leading batch axes.
pub(super) fn scatter(
    views: &Views<'_>,
    schedule: &ScatterSchedule,
    op: ScatterOp,
    batch: usize,
) -> Vec<Kernel> {
    let scatter = Scatter::new(views, schedule, op, batch);
    if schedule.chunks <= 1 {
        let mut kernels = scatter.prepare(Task::CopyAndSort);
        kernels.extend(scatter.add());
        return kernels;
    }
    let mut kernels = scatter.prepare(Task::Copy);
    let chunk = [scatter.prepare(Task::Sort), scatter.add()].concat();
    (0..schedule.chunks).for_each(|_| kernels.extend(chunk.iter().cloned()));
    kernels
}

/// Work of a kernel before the additions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    CopyAndSort,
    /// Copies x to the result, and selects the first chunk.
    Copy,
    /// Sorts the selected chunk.
    Sort,
}

/// Buffers of the scratch memory.
struct Scratch {
    /// Updates in sorted order, followed by the counters.
    order: u32,
    /// At the first update of each row, the number of the row's updates; 0 at the others.
    counts: u32,
}

impl<'b> Scatter<'b> {
    fn new(views: &'b Views<'b>, schedule: &'b ScatterSchedule, op: ScatterOp, batch: usize) -> Self {
        let x = &views.reads[0].layout.shape;
        let updates = views.reads[1].layout.shape.elements() / schedule.batches.max(1);
        let [rows, row_elements] = [x[batch], x[batch + 1..].iter().product()].map(narrow);
        Self { views, op, schedule, updates: narrow(updates), rows, row_elements }
    }

    /// Returns `true` if no updates need to be sorted.
    fn is_sorted(&self) -> bool {
        self.schedule.width == 0
    }

    fn scratch(&self, k: &Builder) -> Scratch {
        let [order, counts] = self.schedule.scratch().map(|bytes| {
            let role = ir::Role::Workspace { start: bytes.start, bytes: bytes.end - bytes.start };
            k.buffer(role, DType::U32)
        });
        Scratch { order, counts }
    }

    /// Returns the indices in the scratch memory of two counters: the index of the chunk to sort, and the
    /// index of the chunk to add, plus one.
    fn counters<'k>(&self, k: &'k Builder) -> [Value<'k>; 2] {
        let places = self.schedule.batches * self.schedule.width;
        [k.u32(narrow(places)), k.u32(narrow(places + 1))]
    }

    /// Returns the number of updates of a batch in a chunk; the last chunk may have fewer.
    fn here<'k>(&self, k: &'k Builder, chunk: Value<'k>) -> Value<'k> {
        if self.schedule.chunks == 1 {
            return k.u32(self.updates);
        }
        let width = narrow(self.schedule.width);
        k.u32(width).min(k.u32(self.updates) - chunk * width)
    }

    /// Loads the index of an update, unchecked.
    fn index<'k>(&self, k: &'k Builder, update: Value<'k>) -> Value<'k> {
        self.views.load(k, 1, update)
    }

    /// Returns the kernel that sorts the updates and copies x to the result, as the task requires.
    fn prepare(&self, task: Task) -> Vec<Kernel> {
        let (views, schedule) = (self.views, self.schedule);
        let copied = if views.in_place || task == Task::Sort { 0 } else { views.elements() };
        let sorting = match self.is_sorted() || task == Task::Copy {
            true => 0,
            false => schedule.batches * schedule.width.div_ceil(WORKGROUP as usize / schedule.lanes),
        };
        let copying = copied.div_ceil(WORKGROUP as usize).max(usize::from(task == Task::Copy));
        if sorting + copying == 0 {
            return Vec::new();
        }
        let label = if task == Task::Copy { "scatter: copy" } else { "scatter: sort" };
        let k = Builder::new(label, WORKGROUP, sorting + copying);
        let sorts = k.group().below(narrow(sorting));
        if sorting > 0 {
            k.guard([(copying > 0).then_some(sorts)], || self.sort(&k));
        }
        if copying > 0 {
            k.guard([(sorting > 0).then(|| !sorts)], || {
                let position = (k.group() - narrow(sorting)) * WORKGROUP + k.local();
                k.guard([views.gate(&k), Some(position.below(narrow(copied)))], || {
                    views.store(&k, position, views.load(&k, 0, position));
                });
                if task == Task::Copy {
                    let now = self.counters(&k)[0];
                    k.when(position.equals(k.u32(0)), || {
                        k.store(self.scratch(&k).order, now, k.u32(0));
                    });
                }
            });
        }
        vec![k.finish()]
    }

    /// Computes the ranks of the workgroup's updates, and stores the updates in order.
    fn sort(&self, k: &Builder) {
        let lanes = narrow(self.schedule.lanes);
        let (sorted, width) = (WORKGROUP / lanes, narrow(self.schedule.width));
        let scratch = self.scratch(k);
        let blocks = width.div_ceil(sorted);
        let batch = k.group() / blocks;
        let chunk = match self.schedule.chunks {
            1 => k.u32(0),
            _ => {
                let [now, next] = self.counters(k);
                let chunk = k.load(scratch.order, now);
                let zero = k.u32(0);
                k.when(k.group().equals(zero) & k.local().equals(zero), || {
                    k.store(scratch.order, next, chunk + 1);
                });
                chunk
            }
        };
        let start = batch * self.updates + chunk * width;
        let here = self.here(k, chunk);
        let (update, lane) = ((k.group() % blocks) * sorted + k.local() / lanes, k.local() % lanes);
        // Surplus invocations repeat the work of the last update.
        let number = start + update.min(here - 1);
        let index = self.index(k, number);
        let row = index.clamped(self.rows);
        // Numbers of updates with a smaller row, with the same row, and with the same row and an earlier
        // position.
        let counts = [(); 3].map(|()| k.var(k.u32(0)));
        k.count(start + lane, start + here, k.u32(lanes), |other| {
            let other_row = self.index(k, other).clamped(self.rows);
            let is_alike = other_row.equals(row);
            let counted = [other_row.less(row), is_alike, is_alike & other.less(number)];
            for (count, is_counted) in counts.into_iter().zip(counted) {
                count.set(count.get() + is_counted.cast(DType::U32));
            }
        });
        let shared = counts.map(|count| {
            let shared = (lanes > 1).then(|| k.shared(DType::U32, WORKGROUP))?;
            k.set_element(shared, k.local(), count.get());
            Some(shared)
        });
        if lanes > 1 {
            k.barrier();
        }
        k.when(lane.equals(k.u32(0)) & update.less(here), || {
            k.report_index(index, self.rows, number);
            if lanes > 1 {
                k.count(k.local() + 1, k.local() + lanes, k.u32(1), |other| {
                    for (count, shared) in counts.into_iter().zip(shared) {
                        let share = k.element(shared.expect("lanes share"), other);
                        count.set(count.get() + share);
                    }
                });
            }
            let [before, alike, earlier] = counts.map(|count| count.get());
            let place = batch * width + before + earlier;
            k.store(scratch.order, place, number);
            let is_first = earlier.equals(k.u32(0));
            k.store(scratch.counts, place, is_first.select(alike, k.u32(0)));
        });
    }

    /// Returns the kernel that adds the updates to their rows.
    fn add(&self) -> Vec<Kernel> {
        let (views, schedule) = (self.views, self.schedule);
        let elements = schedule.batches * (self.updates as usize) * (self.row_elements as usize);
        if elements == 0 && !(self.is_sorted() && self.updates > 0) || self.rows == 0 && !self.is_sorted() {
            return Vec::new();
        }
        // Use at least one column, because indices must be checked even if rows have no elements.
        let columns = self.row_elements.max(1);
        let of_batch = if self.is_sorted() { self.updates as usize } else { schedule.width };
        let places = schedule.batches * of_batch;
        each("scatter", views, places * columns as usize, |k, position| {
            let (place, column) = (position / columns, position % columns);
            if self.is_sorted() {
                return self.add_only(k, place, column, None);
            }
            let scratch = self.scratch(k);
            let count = match schedule.chunks {
                1 => k.load(scratch.counts, place),
                _ => {
                    let [now, next] = self.counters(k);
                    let chunk = k.load(scratch.order, next) - 1;
                    k.when(position.equals(k.u32(0)), || k.store(scratch.order, now, chunk + 1));
                    let is_there = (place % narrow(schedule.width)).less(self.here(k, chunk));
                    is_there.select(k.load(scratch.counts, place), k.u32(0))
                }
            };
            k.when(k.u32(0).less(count), || {
                let order = |i| k.load(scratch.order, place + i);
                let first = order(k.u32(0));
                let to = self.target(k, first, self.index(k, first), column);
                let result = k.buffer(ir::Role::Result(0), views.writes[0].dtype);
                if self.op == ScatterOp::Set {
                    return k.store(result, to, self.update(k, order(count - 1), column, None));
                }
                let sum = k.var(k.load(result, to));
                let ahead = narrow(schedule.ahead);
                let whole = count / ahead;
                if ahead > 1 {
                    k.count(k.u32(0), whole, k.u32(1), |turn| {
                        let numbers: Vec<_> = (0..ahead).map(|i| order(turn * ahead + i)).collect();
                        let values = numbers.into_iter().map(|number| self.update(k, number, column, None));
                        let values: Vec<_> = values.collect();
                        values.into_iter().for_each(|value| sum.set(sum.get() + value));
                    });
                }
                let done = if ahead > 1 { whole * ahead } else { k.u32(0) };
                k.count(done, count, k.u32(1), |i| {
                    sum.set(sum.get() + self.update(k, order(i), column, None));
                });
                k.store(result, to, sum.get());
            });
        })
    }

    /// Adds the only update of a batch, or one of those of distinct rows. `starts`, if present, are added to
    /// the offsets of the operands and, last, of the result.
    fn add_only<'k>(
        &self,
        k: &'k Builder,
        number: Value<'k>,
        column: Value<'k>,
        starts: Option<[Value<'k>; OPERANDS]>,
    ) {
        let index = match starts {
            Some(starts) => {
                let View { dtype, layout, .. } = self.views.reads[1];
                k.load(k.buffer(ir::Role::Operand(1), dtype), index_at(k, layout, number) + starts[1])
            }
            _ => self.index(k, number),
        };
        let mut gate = None;
        if self.op.is_distinct() {
            gate = Some(index.cast(DType::U32).less(k.u32(self.rows)));
        } else {
            k.report_index(index, self.rows, number);
        }
        if self.rows == 0 || self.row_elements == 0 {
            return;
        }
        k.guard([gate], || {
            let to = behind(self.target(k, number, index, column), starts.map(|starts| starts[3]));
            let result = k.buffer(ir::Role::Result(0), self.views.writes[0].dtype);
            let update = self.update(k, number, column, starts.map(|starts| starts[2]));
            k.store(
                result,
                to,
                match self.op {
                    ScatterOp::Add => k.load(result, to) + update,
                    ScatterOp::Set | ScatterOp::Distinct => update,
                },
            );
        });
    }

    /// Loads an element of an update. `start`, if present, is added to the offset of the updates.
    fn update<'k>(
        &self,
        k: &'k Builder,
        number: Value<'k>,
        column: Value<'k>,
        start: Option<Value<'k>>,
    ) -> Value<'k> {
        let view = &self.views.reads[2];
        let index_rank = self.views.reads[1].layout.shape.rank();
        let row = index_at(k, &axes(view.layout, 0, index_rank), number);
        let within = index_at(k, &axes(view.layout, index_rank, view.layout.shape.rank()), column);
        let buffer = k.buffer(ir::Role::Operand(2), view.dtype);
        k.load(buffer, behind(row + within + narrow(view.layout.offset), start))
    }

    /// Returns the index in the result of a column of the row that an update refers to.
    fn target<'k>(
        &self,
        k: &'k Builder,
        number: Value<'k>,
        index: Value<'k>,
        column: Value<'k>,
    ) -> Value<'k> {
        let row = (number / self.updates) * self.rows + index.clamped(self.rows).cast(DType::U32);
        index_at(k, self.views.writes[0].layout, row * self.row_elements + column)
    }
}
