//! Merging of many small kernels: the parts of a group compute the same function on different numbers of
//! elements.
//!
//! In: the first part's body, and a [`Table`] that maps workgroups to parts and contains the start indices of
//! their operands. Out: one kernel for all parts, or two for totals that need more than one workgroup.
//! Invariant: the results of a workgroup depend only on its part.

use super::super::ir::{Kernel, Role};
use super::body::{Nodes, Operands, Position};
use super::columns::{LEAF, across_columns};
use super::{Builder, Value, Views, WORKGROUP};
use crate::narrow::narrow;
use crate::schedule::group::Form;
use crate::simt::Variable;
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::{Body, GroupSchedule, NodeId};

/// Number of words of a part's entry before the start indices.
const HEADER: usize = 3;

/// Table of the parts of a group: their workgroups, and the start indices of their operands.
pub struct Table {
    pub(crate) form: Form,
    /// For each part, its first workgroup, its numbers of rows and columns, and the start indices of its
    /// operands and results, in elements. The last word is the number of workgroups.
    numbers: Vec<u32>,
    /// Number of words of a part's entry.
    width: usize,
    parts: usize,
    /// Number of workgroups of all parts together.
    groups: usize,
}

impl Table {
    /// Creates the table of parts that have a form in common. Each part consists of its numbers of rows and
    /// columns, and the start indices of its operands and results.
    pub fn new(
        form: Form,
        parts: impl Iterator<Item = ([usize; 2], Vec<u32>)>,
        schedule: &GroupSchedule,
    ) -> Self {
        let mut table = Self { form, numbers: Vec::new(), width: 0, parts: 0, groups: 0 };
        for (extents, starts) in parts {
            let [rows, columns] = extents;
            table.width = HEADER + starts.len();
            table.numbers.extend([table.groups, rows, columns].map(narrow));
            table.numbers.extend(starts);
            table.groups += form.groups(extents, schedule);
            table.parts += 1;
        }
        table.numbers.push(narrow(table.groups));
        table
    }

    pub(super) fn label(&self, what: &str) -> String {
        format!("{} kernels: {what}", self.parts)
    }

    pub(super) fn kernel(&self, what: &str, workgroup: usize, groups: usize) -> Builder {
        Builder::new(&self.label(what), narrow(workgroup), groups)
    }

    /// Returns the entry of a part. Start indices that are the same for all parts, such as that of a learning
    /// rate, are constants instead of loads.
    pub(super) fn part<'k>(&self, k: &'k Builder, part: Value<'k>) -> Found<'k> {
        let Self { numbers, width, .. } = self;
        let table = k.table(numbers.clone());
        let entry = part * narrow(*width);
        let start = |i: usize| {
            let first = numbers[i];
            let same = numbers.chunks_exact(*width).all(|part| part[i] == first);
            if same { k.u32(first) } else { k.load(table, entry + narrow(i)) }
        };
        Found { k, numbers: table, entry, starts: (HEADER..*width).map(start).collect() }
    }

    /// Returns the entry of the workgroup's part, found by binary search. Parts of a scatter all have the
    /// same number of workgroups, so a division suffices.
    fn find_part<'k>(&self, k: &'k Builder) -> Found<'k> {
        let Self { numbers, width, parts, .. } = self;
        if *parts == 1 {
            return self.part(k, k.u32(0));
        }
        if self.form == Form::Scatter {
            return self.part(k, k.group() / narrow(self.groups / parts));
        }
        let table = k.table(numbers.clone());
        let (part, beyond) = (k.var(k.u32(0)), k.var(k.u32(narrow(*parts))));
        // These iterations suffice for any part; once a single part is left, further iterations have no
        // effect.
        let turns = parts.next_power_of_two().ilog2();
        k.count(k.u32(0), k.u32(turns), k.u32(1), |_| {
            let (first, last) = (part.get(), beyond.get());
            let middle = (first + last) / 2;
            let is_before = k.group().less(k.load(table, middle * narrow(*width)));
            part.set(is_before.select(first, middle));
            beyond.set(is_before.select(middle, last));
        });
        self.part(k, part.get())
    }

    /// Returns the entry of the workgroup's part, and the start and end of its chunk of positions.
    pub(super) fn chunk<'k>(&self, k: &'k Builder) -> (Found<'k>, [Value<'k>; 2]) {
        let found = self.find_part(k);
        let elements = found.rows() * found.columns();
        let first = (k.group() - found.first_group()) * narrow(GroupSchedule::CHUNK);
        let last = (first + narrow(GroupSchedule::CHUNK)).min(elements);
        (found, [first, last])
    }

    /// Returns the number of workgroups of all parts together.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    pub(super) fn parts(&self) -> usize {
        self.parts
    }
}

/// Returns the kernels of loops that have a form in common. `views` are those of the first part; `short` is
/// true if a single workgroup computes each total.
pub(super) fn group(
    views: &Views<'_>,
    body: &Body,
    table: &Table,
    schedule: &GroupSchedule,
    short: bool,
) -> Vec<Kernel> {
    let group = Group { views, body, table, schedule };
    match table.form {
        Form::Map => vec![group.map()],
        Form::Total(op, node) if short => vec![group.short_totals(op, node)],
        Form::Total(op, node) => vec![group.shares(op, node), group.totals(op, node)],
        Form::Columns(op, node) => vec![group.columns(op, node)],
        Form::Scatter | Form::Product => unreachable!("these are loops"),
    }
}

struct Group<'b> {
    views: &'b Views<'b>,
    body: &'b Body,
    table: &'b Table,
    schedule: &'b GroupSchedule,
}

/// Table entry of the workgroup's part.
pub(super) struct Found<'k> {
    k: &'k Builder,
    /// Buffer of the table.
    numbers: u32,
    /// Index of the entry's first word.
    entry: Value<'k>,
    /// Start indices of the part's operands and results.
    pub(super) starts: Vec<Value<'k>>,
}

impl<'k> Found<'k> {
    fn number(&self, i: usize) -> Value<'k> {
        self.k.load(self.numbers, self.entry + narrow(i))
    }

    fn first_group(&self) -> Value<'k> {
        self.number(0)
    }

    fn rows(&self) -> Value<'k> {
        self.number(1)
    }

    fn columns(&self) -> Value<'k> {
        self.number(2)
    }
}

impl<'b> Group<'b> {
    fn kernel(&self, what: &str, workgroup: usize, groups: usize, write: impl FnOnce(&Builder)) -> Kernel {
        let k = self.table.kernel(what, workgroup, groups);
        write(&k);
        k.finish()
    }

    fn nodes<'k>(&self, k: &'k Builder, found: &Found<'k>) -> Nodes<'k, 'b> {
        Nodes::new(k, self.body, Operands::Starts(self.views, found.starts.clone()))
    }

    /// Runs `f` for each position of the chunk of a workgroup with `workgroup` invocations.
    fn each_position<'k>(
        &self,
        k: &'k Builder,
        workgroup: usize,
        f: impl FnOnce(&mut Nodes<'k, 'b>, Position<'k>),
    ) {
        let (found, [first, last]) = self.table.chunk(k);
        let mut nodes = self.nodes(k, &found);
        k.count(first + k.local(), last, k.u32(narrow(workgroup)), |number| {
            f(&mut nodes, at(k, number));
        });
    }

    /// Returns the kernel of elementwise parts, with one workgroup per chunk.
    fn map(&self) -> Kernel {
        self.kernel("map", WORKGROUP as usize, self.table.groups, |k| {
            self.each_position(k, WORKGROUP as usize, |nodes, position| {
                k.guard([self.views.gate(k)], || nodes.store_elements(position));
            });
        })
    }

    /// Returns the kernel of column reductions, with several lanes per column.
    fn columns(&self, op: ReduceOp, node: NodeId) -> Kernel {
        let [lanes, wide] = self.schedule.columns;
        self.kernel("sums of columns", lanes * wide, self.table.groups, |k| {
            let found = self.table.find_part(k);
            let (rows, columns) = (found.rows(), found.columns());
            let wide_columns = narrow(wide);
            let lane = k.local() / wide_columns;
            let column = (k.group() - found.first_group()) * wide_columns + k.local() % wide_columns;
            let sum = k.var(k.identity(op, self.body.node(node).dtype));
            let inside = column.less(columns);
            k.when(inside, || {
                k.count(lane, rows, k.u32(narrow(lanes * LEAF)), |first| {
                    let part = k.var(k.identity(op, self.body.node(node).dtype));
                    let end = (first + narrow(lanes * LEAF)).min(rows);
                    k.count(first, end, k.u32(narrow(lanes)), |row| {
                        let value = self.nodes(k, &found).compute(node, at(k, row * columns + column));
                        part.set(part.get().combine(op, value));
                    });
                    sum.set(sum.get().combine(op, part.get()));
                });
            });
            across_columns(k, op, sum, lane, [lanes, wide]);
            k.guard([Some(lane.equals(k.u32(0))), Some(inside), self.views.gate(k)], || {
                self.store(k, &found, column, sum.get());
            });
        })
    }

    /// Returns the kernel that writes the partial total of each chunk to the scratch memory.
    fn shares(&self, op: ReduceOp, node: NodeId) -> Kernel {
        let workgroup = self.schedule.workgroup;
        self.kernel("shares of totals", workgroup, self.table.groups, |k| {
            let dtype = self.body.node(node).dtype;
            let sum = k.var(k.identity(op, dtype));
            self.each_position(k, workgroup, |nodes, position| {
                let value = nodes.compute(node, position);
                sum.set(sum.get().combine(op, value));
            });
            let total = self.across(k, op, sum);
            k.when(k.local().equals(k.u32(0)), || {
                k.store(k.buffer(self.scratch(), dtype), k.group(), k.element(total, k.u32(0)));
            });
        })
    }

    /// Returns the kernel that combines the partial totals of each part, with one workgroup per part.
    fn totals(&self, op: ReduceOp, node: NodeId) -> Kernel {
        let dtype = self.body.node(node).dtype;
        self.each_total(op, dtype, |k, found, sum| {
            let scratch = k.buffer(self.scratch(), dtype);
            let last = found.number(self.table.width);
            let first = found.first_group() + k.local();
            k.count(first, last, k.u32(narrow(self.schedule.workgroup)), |i| {
                sum.set(sum.get().combine(op, k.load(scratch, i)));
            });
        })
    }

    /// Returns the kernel of short totals, with one workgroup per part.
    fn short_totals(&self, op: ReduceOp, node: NodeId) -> Kernel {
        self.each_total(op, self.body.node(node).dtype, |k, found, sum| {
            let elements = found.rows() * found.columns();
            k.count(k.local(), elements, k.u32(narrow(self.schedule.workgroup)), |number| {
                let value = self.nodes(k, found).compute(node, at(k, number));
                sum.set(sum.get().combine(op, value));
            });
        })
    }

    /// Returns a kernel with one workgroup per part, whose invocations each compute a partial total with
    /// `add`.
    fn each_total(
        &self,
        op: ReduceOp,
        dtype: DType,
        add: impl for<'k> FnOnce(&'k Builder, &Found<'k>, Variable<'k>),
    ) -> Kernel {
        self.kernel("totals", self.schedule.workgroup, self.table.parts, |k| {
            let found = self.table.part(k, k.group());
            let sum = k.var(k.identity(op, dtype));
            add(k, &found, sum);
            let total = self.across(k, op, sum);
            k.guard([Some(k.local().equals(k.u32(0))), self.views.gate(k)], || {
                self.store(k, &found, k.u32(0), k.element(total, k.u32(0)));
            });
        })
    }

    /// Combines the values of all invocations into the first element of a shared array; returns that array.
    fn across<'k>(&self, k: &'k Builder, op: ReduceOp, sum: Variable<'k>) -> u32 {
        let GroupSchedule { workgroup, subgroup, .. } = *self.schedule;
        let together = subgroup.map_or(1, |size| size as usize);
        let mut share = sum.get();
        if let Some(size) = subgroup {
            share = share.across_subgroup(op, together, size);
        }
        let count = narrow(workgroup / together);
        let shares = k.shared(share.dtype(), count);
        let first = (together > 1).then(|| (k.local() % narrow(together)).equals(k.u32(0)));
        k.guard([first], || k.set_element(shares, k.local() / narrow(together), share));
        k.barrier();
        k.halve(count / 2, |half| {
            k.when(k.local().less(half), || {
                let other = k.element(shares, k.local() + half);
                k.set_element(shares, k.local(), k.element(shares, k.local()).combine(op, other));
            });
            k.barrier();
        });
        shares
    }

    /// Returns the scratch memory of the partial totals.
    fn scratch(&self) -> Role {
        Role::Workspace { start: 0, bytes: 4 * self.table.groups as u64 }
    }

    /// Writes an element of the part's only result.
    fn store<'k>(&self, k: &'k Builder, found: &Found<'k>, index: Value<'k>, value: Value<'k>) {
        let start = found.starts[self.views.reads.len()];
        let result = k.buffer(Role::Result(0), self.views.writes[0].dtype);
        k.store(result, start + index, value);
    }
}

/// Returns a position of which only the row-major index is available.
fn at<'k>(k: &'k Builder, number: Value<'k>) -> Position<'k> {
    let zero = k.u32(0);
    Position { row: zero, column: zero, number: Some(number), owned: None }
}
