//! Adding updates to rows by number.
//!
//! In: x `[batch.., rows, row..]`, indices `[batch.., index..]` and updates `[batch.., index.., row..]`. Out:
//! x with the updates added, contiguous; possibly in the place of x. An index out of range is a trap, and
//! taken for the nearest that is in range.
//!
//! The first shader sorts the updates of each batch by (row, position): the place of one is the number of
//! those before it, which a few lanes count. The second adds up each row's run in that order, one invocation
//! for each element that gets updates. So the work is that of the updates whatever the number of rows,
//! besides the copy of x, which goes with the sorting. As counting grows with the square, more than [`CHUNK`]
//! updates of a batch are taken a chunk at a time, by the same two shaders again and again; the scratch knows
//! which chunk is next. Always holds: an element is written by one invocation, which adds in the order of the
//! updates.

use super::source::{Source, WORKGROUP, index_at};
use super::{Dispatch, Limits, Operands};
use crate::simt::axes;
use gradloom_core::ir::DType;
use gradloom_core::kernel::Access;
use gradloom_core::plan::ALIGNMENT;
use std::ops::Range;

/// Invocations that count what lies before one update; on a software device it is one.
const LANES: usize = 16;
/// Updates of a batch that are sorted together, at most.
const CHUNK: usize = 8192;
/// Updates of a run that are on their way at the same time.
const AHEAD: usize = 8;

/// The extents that matter.
struct Problem {
    batches: usize,
    /// Of a batch.
    updates: usize,
    rows: usize,
    row_elements: usize,
}

impl Problem {
    fn new(x: &[usize], index_elements: usize, batch: usize) -> Self {
        let batches: usize = x[..batch].iter().product();
        Self {
            batches,
            updates: index_elements / batches.max(1),
            rows: x[batch],
            row_elements: x[batch + 1..].iter().product(),
        }
    }

    /// Updates of a batch that are sorted together.
    fn width(&self) -> usize {
        self.updates.min(CHUNK)
    }

    fn chunks(&self) -> usize {
        self.updates.div_ceil(CHUNK)
    }

    /// Words of the scratch that say which chunk is sorted now, and which one is after the one that is added.
    fn counters(&self) -> [usize; 2] {
        let places = self.batches * self.width();
        [places, places + 1]
    }

    /// Bytes of the two words of scratch that each place has: the update there, and the length of the run
    /// that starts there. The counters stand behind the first.
    fn scratch(&self) -> [Range<usize>; 2] {
        let bytes = 4 * (self.batches * self.width() + 2);
        let second = bytes.next_multiple_of(ALIGNMENT);
        [0..bytes, second..second + bytes]
    }

    /// Expression of the updates of a batch in a chunk: the last one may have fewer.
    fn here(&self, chunk: &str) -> String {
        match self.chunks() {
            1 => format!("{}u", self.updates),
            _ => format!("min({CHUNK}u, {}u - {chunk} * {CHUNK}u)", self.updates),
        }
    }

    /// Whether the updates are in order as they come.
    fn is_sorted(&self) -> bool {
        self.updates <= 1
    }
}

/// Bytes of scratch.
pub(crate) fn scatter_workspace(reads: &[Access], batch: usize) -> usize {
    let problem = Problem::new(&reads[0].layout.shape, reads[1].layout.shape.elements(), batch);
    if problem.is_sorted() { 0 } else { problem.scratch()[1].end }
}

/// The shaders of `ScatterAdd` with so many batch axes.
pub(crate) fn scatter_add(
    operands: &Operands,
    limits: &Limits,
    gated: bool,
    launch: usize,
    batch: usize,
) -> Vec<Dispatch> {
    let (x, index) = (&operands.reads[0], &operands.reads[1]);
    let problem = Problem::new(&x.layout.shape, index.layout.shape.elements(), batch);
    let source = || Source::new(operands, limits, gated, launch);
    if problem.chunks() <= 1 {
        let mut shaders = prepare(source(), &problem, Role::CopyAndSort);
        shaders.extend(add(source(), &problem));
        return shaders;
    }
    let mut shaders = prepare(source(), &problem, Role::Copy);
    let chunk = [prepare(source(), &problem, Role::Sort), add(source(), &problem)].concat();
    (0..problem.chunks()).for_each(|_| shaders.extend(chunk.iter().cloned()));
    shaders
}

/// What a shader before the sums does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    CopyAndSort,
    /// Starts with the first chunk.
    Copy,
    /// Takes the next chunk.
    Sort,
}

/// Sorts the updates, and copies x to the result.
fn prepare(mut source: Source<'_>, problem: &Problem, role: Role) -> Vec<Dispatch> {
    let (x, write) = (source.operands.reads[0].clone(), source.operands.writes[0].clone());
    let in_place = (x.binding, x.base) == (write.binding, write.base) && x.layout == write.layout;
    let copied = if in_place || role == Role::Sort { 0 } else { write.layout.shape.elements() };
    let sorting = match problem.is_sorted() || role == Role::Copy {
        true => 0,
        false => problem.batches * problem.width().div_ceil(sorted(source.limits)),
    };
    let copying = copied.div_ceil(WORKGROUP as usize).max(usize::from(role == Role::Copy));
    if sorting + copying == 0 {
        return Vec::new();
    }
    source.line(format_args!("if (group < {sorting}u) {{"));
    if sorting > 0 {
        sort(&mut source, problem);
    }
    source.line("} else {");
    let gate = if source.gated { "committed && " } else { "" };
    source.line(format_args!("let position = (group - {sorting}u) * {WORKGROUP}u + local;"));
    source.line(format_args!("if ({gate}position < {copied}u) {{"));
    if copied > 0 {
        let value = source.load(&x, &index_at(&x.layout, "position"));
        source.store(&write, &index_at(&write.layout, "position"), &value);
    }
    source.line("}");
    if role == Role::Copy {
        let order = source.workspace(problem.scratch()[0].clone(), DType::U32);
        source.line("if (position == 0u) {");
        source.line(format_args!("{order}[{}u] = 0u;", problem.counters()[0]));
        source.line("}");
    }
    source.line("}");
    let label = if role == Role::Copy { "scatter_add: copy" } else { "scatter_add: sort" };
    vec![source.finish(label, WORKGROUP, sorting + copying)]
}

/// Invocations that count for one update.
fn lanes(limits: &Limits) -> usize {
    if limits.software { 1 } else { LANES }
}

/// Updates that a workgroup sorts.
fn sorted(limits: &Limits) -> usize {
    WORKGROUP as usize / lanes(limits)
}

/// Finds the places of the workgroup's updates.
fn sort(source: &mut Source<'_>, problem: &Problem) {
    let (lanes, sorted) = (lanes(source.limits), sorted(source.limits));
    let index = source.operands.reads[1].clone();
    let [order, lengths] = problem.scratch().map(|bytes| source.workspace(bytes, DType::U32));
    let (updates, width) = (problem.updates, problem.width());
    let blocks = width.div_ceil(sorted);
    // Numbers of those before, of those with the same row, and of both.
    let counts = ["before", "alike", "earlier"];
    match problem.chunks() {
        1 => source.line(format_args!("let start = (group / {blocks}u) * {updates}u;")),
        _ => {
            let [now, next] = problem.counters();
            source.line(format_args!("let chunk = {order}[{now}u];"));
            source.line("if (group == 0u && local == 0u) {");
            source.line(format_args!("{order}[{next}u] = chunk + 1u;"));
            source.line("}");
            source.line(format_args!("let start = (group / {blocks}u) * {updates}u + chunk * {width}u;"));
        }
    }
    let here = problem.here("chunk");
    source.line(format_args!("let here = {here};"));
    source.line(format_args!("let update = (group % {blocks}u) * {sorted}u + local / {lanes}u;"));
    source.line(format_args!("let lane = local % {lanes}u;"));
    // Workgroups are whole: those behind the last do the work of the last.
    source.line("let number = start + min(update, here - 1u);");
    let mine = source.load(&index, &index_at(&index.layout, "number"));
    source.line(format_args!("let raw = {mine};"));
    source.line(format_args!("let row = clamp(raw, 0, {});", problem.rows.max(1) - 1));
    for name in counts {
        source.line(format_args!("var {name}_here = 0u;"));
    }
    source.line(format_args!("for (var other = start + lane; other < start + here; other += {lanes}u) {{"));
    let value = source.load(&index, &index_at(&index.layout, "other"));
    source.line(format_args!("let other_row = clamp({value}, 0, {});", problem.rows.max(1) - 1));
    source.line("before_here += u32(other_row < row);");
    source.line("alike_here += u32(other_row == row);");
    source.line("earlier_here += u32(other_row == row && other < number);");
    source.line("}");
    if lanes > 1 {
        for name in counts {
            source.global(format_args!("var<workgroup> {name}: array<u32, {WORKGROUP}>;"));
            source.line(format_args!("{name}[local] = {name}_here;"));
        }
        source.line("workgroupBarrier();");
    }
    source.line("if (lane == 0u && update < here) {");
    source.check_index("raw", problem.rows, "number");
    if lanes > 1 {
        source.line(format_args!("for (var other = local + 1u; other < local + {lanes}u; other++) {{"));
        for name in counts {
            source.line(format_args!("{name}_here += {name}[other];"));
        }
        source.line("}");
    }
    source.line(format_args!("let place = (group / {blocks}u) * {width}u + before_here + earlier_here;"));
    source.line(format_args!("{order}[place] = number;"));
    source.line(format_args!("{lengths}[place] = select(0u, alike_here, earlier_here == 0u);"));
    source.line("}");
}

/// Adds the runs to their rows.
fn add(mut source: Source<'_>, problem: &Problem) -> Vec<Dispatch> {
    let Problem { batches, updates, rows, row_elements } = *problem;
    let elements = batches * updates * row_elements;
    if elements == 0 && !(problem.is_sorted() && updates > 0) || rows == 0 && !problem.is_sorted() {
        return Vec::new();
    }
    let [index, update] = [1, 2].map(|read| source.operands.reads[read].clone());
    let write = source.operands.writes[0].clone();
    let value_at = {
        let index_rank = index.layout.shape.rank();
        let number = index_at(&axes(&update.layout, 0, index_rank), "number");
        let column = index_at(&axes(&update.layout, index_rank, update.layout.shape.rank()), "column");
        let place = format!("{}u + {number} + {column}", update.layout.offset);
        source.load(&update, &place)
    };
    let row_of = source.load(&index, &index_at(&index.layout, "number"));
    // Without elements there may still be an index to look at.
    let columns = row_elements.max(1);
    let places = batches * problem.width();
    each(&mut source, places * columns, |source| {
        source.line(format_args!("let place = position / {columns}u;"));
        source.line(format_args!("let column = position % {columns}u;"));
        if problem.is_sorted() {
            source.line("let number = place;");
            source.line(format_args!("let raw = {row_of};"));
            source.check_index("raw", rows, "number");
            if rows > 0 && row_elements > 0 {
                let to = result_index(&write.layout, problem);
                source.line(format_args!("let to = {to};"));
                let sum = source.load(&write, "to");
                source.store(&write, "to", &format!("{sum} + {value_at}"));
            }
            return;
        }
        let [order, lengths] = problem.scratch().map(|bytes| source.workspace(bytes, DType::U32));
        match problem.chunks() {
            1 => source.line(format_args!("let count = {lengths}[place];")),
            _ => {
                let [now, next] = problem.counters();
                source.line(format_args!("let chunk = {order}[{next}u] - 1u;"));
                source.line("if (position == 0u) {");
                source.line(format_args!("{order}[{now}u] = chunk + 1u;"));
                source.line("}");
                let (width, here) = (problem.width(), problem.here("chunk"));
                source.line(format_args!(
                    "let count = select(0u, {lengths}[place], place % {width}u < {here});"
                ));
            }
        }
        source.line("if (count > 0u) {");
        source.line("var to = 0u;");
        source.line("{");
        source.line(format_args!("let number = {order}[place];"));
        source.line(format_args!("let raw = {row_of};"));
        source.line(format_args!("to = {};", result_index(&write.layout, problem)));
        source.line("}");
        let first = source.load(&write, "to");
        source.line(format_args!("var sum = {first};"));
        source.line("var done = 0u;");
        // A CPU waits for each anyway.
        if !source.limits.software {
            source.line(format_args!("for (; done + {AHEAD}u <= count; done += {AHEAD}u) {{"));
            for i in 0..AHEAD {
                source.line(format_args!("let number_{i} = {order}[place + done + {i}u];"));
            }
            for i in 0..AHEAD {
                let value = value_at.replace("number", &format!("number_{i}"));
                source.line(format_args!("let value_{i} = {value};"));
            }
            for i in 0..AHEAD {
                source.line(format_args!("sum += value_{i};"));
            }
            source.line("}");
        }
        source.line("for (; done < count; done++) {");
        source.line(format_args!("let number = {order}[place + done];"));
        source.line(format_args!("sum += {value_at};"));
        source.line("}");
        source.store(&write, "to", "sum");
        source.line("}");
    });
    done(source, "scatter_add", places * columns)
}

/// Index in the result of `column` in the row `raw` of update `number`.
fn result_index(layout: &gradloom_core::kernel::Layout, problem: &Problem) -> String {
    let Problem { updates, rows, row_elements, .. } = *problem;
    let row = format!("(number / {updates}u) * {rows}u + u32(clamp(raw, 0, {}))", rows - 1);
    index_at(layout, &format!("(({row}) * {row_elements}u + column)"))
}

/// Runs `f` at each position below `elements`.
fn each(source: &mut Source<'_>, elements: usize, f: impl FnOnce(&mut Source<'_>)) {
    let gate = if source.gated { "committed && " } else { "" };
    source.line(format_args!("let position = group * {WORKGROUP}u + local;"));
    source.line(format_args!("if ({gate}position < {elements}u) {{"));
    f(source);
    source.line("}");
}

/// The shader of [`each`], unless there is nothing to do.
fn done(source: Source<'_>, label: &str, elements: usize) -> Vec<Dispatch> {
    match elements {
        0 => Vec::new(),
        _ => vec![source.finish(label, WORKGROUP, elements.div_ceil(WORKGROUP as usize))],
    }
}
