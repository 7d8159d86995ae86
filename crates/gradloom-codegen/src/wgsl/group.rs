//! Groups: many small kernels in few dispatches.
//!
//! In: a group's parts. Out: one dispatch for all parts that compute the same over other numbers of elements:
//! each element from those at its own position, or from those of its column; two for those that add up all
//! their elements. The others run alone. A table says which workgroups belong to which part, and where its
//! operands start. Always holds: what a workgroup computes depends on its part alone.

use super::body::{Nodes, Place};
use super::operands::Operand;
use super::source::{Source, WORKGROUP, type_name};
use super::{Context, Dispatch, Limits, Operands, Shaders, checked};
use crate::narrow::narrow;
use gradloom_core::collections::SortedMap;
use gradloom_core::error::Result;
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::{
    Access, Body, Kernel, Launch, Layout, Level, NodeId, NodeKind, Part, Phase, Store,
};
use std::ops::Range;

/// Elements of a workgroup: a few for each invocation, so that finding the part is a small share of the work.
const CHUNK: usize = 4 * WORKGROUP as usize;

/// Rows of columns that one workgroup adds up.
const SHORT: usize = 128;
/// Lanes of a column.
const LANES: usize = 8;

/// What the parts of a class have in common.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Each result from the elements at its position.
    Map,
    /// One result, of all positions.
    Total(ReduceOp, NodeId),
    /// A result for each of few rows' columns.
    Columns(ReduceOp, NodeId),
}

impl Form {
    fn of(body: &Body) -> Option<Self> {
        let by_position = |s: &Store| matches!(s, Store::Whole { level: Level::Element, .. });
        match body.stores[..] {
            [Store::Columns { op, node, .. }] if body.columns == 1 => Some(Self::Total(op, node)),
            [Store::Columns { op, node, parts: 1, .. }] if body.rows <= SHORT => {
                Some(Self::Columns(op, node))
            }
            [Store::Whole { node, .. }] if body.rows == 1 => match body.node(node).kind {
                NodeKind::Reduce(op, operand) if node.index() + 1 == body.nodes.len() => {
                    Some(Self::Total(op, operand))
                }
                _ => body.stores.iter().all(by_position).then_some(Self::Map),
            },
            _ => body.stores.iter().all(by_position).then_some(Self::Map),
        }
    }

    /// Workgroups of a part.
    fn groups(self, body: &Body, limits: &Limits) -> usize {
        match self {
            Self::Columns(..) => body.columns.div_ceil(column_sharing(limits).1),
            Self::Map | Self::Total(..) => chunks(body),
        }
    }
}

fn chunks(body: &Body) -> usize {
    (body.rows * body.columns).div_ceil(CHUNK)
}

/// Lanes of a column, and columns of a workgroup.
fn column_sharing(limits: &Limits) -> (usize, usize) {
    let lanes = if limits.software { 1 } else { LANES };
    (lanes, limits.sharing() / lanes)
}

/// Whether each result of a body is made from what stands at its position.
pub(super) fn is_map(body: &Body) -> bool {
    Form::of(body) == Some(Form::Map)
}

/// Whether a body gives nothing but sums of columns so short that one dispatch takes them.
pub(super) fn is_short(body: &Body, reads: &[Access], writes: &[Access]) -> bool {
    matches!(Form::of(body), Some(Form::Columns(..))) && fits(body, reads, writes)
}

/// Whether a part runs by a table even if it is the only one.
pub(super) fn is_columns(part: &Part, launch: &Launch) -> bool {
    let (reads, writes) = (&launch.reads[part.reads.clone()], &launch.writes[part.writes.clone()]);
    matches!(&part.kernel, Kernel::Loop(body) if is_short(body, reads, writes))
}

/// What parts have in common that run in one dispatch: their expression, by its text.
pub(super) fn class(part: &Part, reads: &[Access], writes: &[Access]) -> Option<String> {
    let Kernel::Loop(body) = &part.kernel else { return None };
    let form = Form::of(body)?;
    if !fits(body, reads, writes) {
        return None;
    }
    let up_to = |node: NodeId| Body {
        stores: Vec::new(),
        nodes: body.nodes[..=node.index()].to_vec(),
        ..body.clone()
    };
    Some(match form {
        Form::Map => body.to_string(),
        // Along a row, or across rows of one column: the same.
        Form::Total(op, node) => format!("{} {node} of\n{}", op.name(), up_to(node)),
        Form::Columns(op, node) => format!("columns {} {node} of\n{}", op.name(), up_to(node)),
    })
}

/// Whether a table can say where a body's elements are.
fn fits(body: &Body, reads: &[Access], writes: &[Access]) -> bool {
    let nodes = body.nodes.iter().enumerate().all(|(i, node)| match node.kind {
        NodeKind::Load(read) => match node.level {
            Level::Uniform => true,
            Level::Row => false,
            Level::Element => reads[read].layout.is_contiguous(),
        },
        // The total itself.
        NodeKind::Reduce(..) => matches!(Form::of(body), Some(Form::Total(..))) && i + 1 == body.nodes.len(),
        NodeKind::Column | NodeKind::CheckIndex { .. } => false,
        _ => true,
    });
    let contiguous = writes.iter().all(|write| write.layout.is_contiguous());
    let bool_free = reads.iter().chain(writes).all(|access| access.dtype != DType::Bool);
    nodes && contiguous && bool_free && body.rows * body.columns > 0
}

/// The shaders of parts of one class.
///
/// # Errors
/// As [`super::shaders`].
pub(super) fn together(
    launch: &Launch,
    parts: &[&Part],
    number: usize,
    context: &Context<'_>,
) -> Result<Shaders> {
    let pick = |all: &[Access], range: fn(&Part) -> Range<usize>| -> Vec<Access> {
        parts.iter().flat_map(|part| all[range(part)].to_vec()).collect()
    };
    let all = Launch {
        reads: pick(&launch.reads, |part| part.reads.clone()),
        writes: pick(&launch.writes, |part| part.writes.clone()),
        ..launch.clone()
    };
    // One name stands for the operands of all parts.
    let operands = Operands::new(&all, context, parts.len() > 1);
    let table = Table::new(&operands, parts, context.limits);
    let gated = launch.phase == Phase::Commit;
    let source = || Source::new(&table.operands, context.limits, gated, number);
    let dispatches = match table.form {
        Form::Map => vec![map(&table, source(), parts)],
        Form::Total(op, node) if parts.iter().all(|part| is_short_total(part, context.limits)) => {
            vec![short_totals(&table, source(), parts, op, node)]
        }
        Form::Total(op, node) => {
            vec![shares(&table, source(), parts, op, node), totals(&table, source(), parts, op, node)]
        }
        Form::Columns(op, node) => vec![columns(&table, source(), parts, op, node)],
    };
    checked(Shaders { operands, dispatches }, launch, context)
}

/// Whether one workgroup adds up all elements of a part: on a software device up to more of them, as it has
/// little to do at the same time, and would compile a second shader for longer than that takes.
fn is_short_total(part: &Part, limits: &Limits) -> bool {
    let most = if limits.software { 64 * CHUNK } else { CHUNK };
    body_of(part).rows * body_of(part).columns <= most
}

pub(super) fn body_of(part: &Part) -> &Body {
    match &part.kernel {
        Kernel::Loop(body) => body,
        _ => unreachable!("parts of a class are loops"),
    }
}

/// Numbers of a part before the starts of its operands.
const HEADER: usize = 3;

/// Which workgroups belong to which part, and where its operands start.
struct Table {
    form: Form,
    /// For each part its first workgroup, its rows and columns, and the starts of its operands and results;
    /// then the number of workgroups.
    numbers: Vec<u32>,
    /// Numbers of a part.
    width: usize,
    /// Workgroups of all parts.
    groups: usize,
    /// The first part's operands, from where the table says.
    operands: Operands,
}

impl Table {
    fn new(operands: &Operands, parts: &[&Part], limits: &Limits) -> Self {
        let form = Form::of(body_of(parts[0])).expect("parts of a class have a form");
        let (reads, writes) = (parts[0].reads.len(), parts[0].writes.len());
        let mut numbers: Vec<u32> = Vec::new();
        let mut groups = 0;
        for (i, part) in parts.iter().enumerate() {
            let body = body_of(part);
            numbers.extend([groups, body.rows, body.columns].map(narrow));
            let own =
                operands.reads[i * reads..][..reads].iter().chain(&operands.writes[i * writes..][..writes]);
            numbers.extend(own.map(|operand| narrow(operand.base / 4 + operand.layout.offset)));
            groups += form.groups(body, limits);
        }
        numbers.push(narrow(groups));
        // Indexed by the position, also if the first part has but one.
        let row = Layout::contiguous(&[CHUNK].into());
        let one: Vec<usize> = body_of(parts[0])
            .nodes
            .iter()
            .filter_map(|node| match node.kind {
                NodeKind::Load(read) if node.level == Level::Uniform => Some(read),
                _ => None,
            })
            .collect();
        let shift = |operand: &Operand, i: usize| {
            let layout = if one.contains(&i) { Layout::splat(&row.shape) } else { row.clone() };
            Operand { base: 0, layout, start: Some(format!("start_{i}")), ..operand.clone() }
        };
        let operands = Operands {
            bindings: operands.bindings.clone(),
            reads: operands.reads[..reads].iter().enumerate().map(|(i, o)| shift(o, i)).collect(),
            writes: operands.writes[..writes].iter().enumerate().map(|(i, o)| shift(o, reads + i)).collect(),
        };
        Self { form, numbers, width: HEADER + reads + writes, groups, operands }
    }

    /// Names the starts of a part's operands; those that are the same for all parts, as of a learning rate,
    /// are not looked up.
    fn starts(&self, source: &mut Source<'_>, table: &str) {
        source.line(format_args!("let entry = part * {}u;", self.width));
        for i in HEADER..self.width {
            let first = self.numbers[i];
            let same = self.numbers.chunks_exact(self.width).all(|part| part[i] == first);
            let start = if same { format!("{first}u") } else { format!("{table}[entry + {i}u]") };
            source.line(format_args!("let start_{} = {start};", i - HEADER));
        }
    }

    /// Ends a shader in which each workgroup's `sum`s are of one part's total.
    fn store_total(&self, mut source: Source<'_>, parts: &[&Part], op: ReduceOp, dtype: DType) -> Dispatch {
        across(&mut source, op, dtype);
        source.line(if source.gated { "if (local == 0u && committed) {" } else { "if (local == 0u) {" });
        source.store(&self.operands.writes[0], "0u", "shares[0]");
        source.line("}");
        let workgroup = narrow(source.limits.sharing());
        source.finish(&format!("{} kernels: totals", parts.len()), workgroup, parts.len())
    }

    /// Finds the workgroup's part; gives the name of the table.
    fn find_part(&self, source: &mut Source<'_>, parts: usize) -> &'static str {
        let table = source.table(self.numbers.clone());
        source.line("var part = 0u;");
        source.line(format_args!("var beyond = {parts}u;"));
        source.line("while (beyond - part > 1u) {");
        source.line("let middle = (part + beyond) / 2u;");
        source.line(format_args!("if ({table}[middle * {}u] <= group) {{", self.width));
        source.line("part = middle;");
        source.line("} else {");
        source.line("beyond = middle;");
        source.line("}");
        source.line("}");
        self.starts(source, table);
        table
    }

    /// Opens a loop over the positions of the chunk of a workgroup of so many invocations.
    fn each_position(&self, source: &mut Source<'_>, parts: usize, workgroup: usize) {
        let table = self.find_part(source, parts);
        source.line(format_args!("let elements = {table}[entry + 1u] * {table}[entry + 2u];"));
        source.line(format_args!("let first = (group - {table}[entry]) * {CHUNK}u;"));
        source.line(format_args!("let last = min(first + {CHUNK}u, elements);"));
        source.line(format_args!(
            "for (var position = first + local; position < last; position += {workgroup}u) {{"
        ));
    }
}

const PLACE: Place<'_> =
    Place { row: "0u", column: "0u", position: Some("position"), suffix: "", exists: "" };

/// One invocation for each element of each part, in chunks.
fn map(table: &Table, mut source: Source<'_>, parts: &[&Part]) -> Dispatch {
    let body = body_of(parts[0]);
    let gated = source.gated;
    table.each_position(&mut source, parts.len(), WORKGROUP as usize);
    if gated {
        source.line("if (committed) {");
    }
    Nodes::new(body).store_elements(&mut source, PLACE);
    if gated {
        source.line("}");
    }
    source.line("}");
    source.finish(&format!("{} kernels: map", parts.len()), WORKGROUP, table.groups)
}

/// The results of all columns of all parts: a few lanes to a column.
fn columns(table: &Table, mut source: Source<'_>, parts: &[&Part], op: ReduceOp, node: NodeId) -> Dispatch {
    let body = body_of(parts[0]);
    let dtype = body.node(node).dtype;
    let numbers = table.find_part(&mut source, parts.len());
    source.line(format_args!("let rows = {numbers}[entry + 1u];"));
    source.line(format_args!("let columns = {numbers}[entry + 2u];"));
    let (lanes, wide) = column_sharing(source.limits);
    source.line(format_args!("let lane = local / {wide}u;"));
    source.line(format_args!("let column = (group - {numbers}[entry]) * {wide}u + local % {wide}u;"));
    let identity = source.identity(op, dtype);
    source.line(format_args!("var sum = {identity};"));
    source.line("if (column < columns) {");
    source.line(format_args!("for (var row = lane; row < rows; row += {lanes}u) {{"));
    source.line("let position = row * columns + column;");
    let value = Nodes::new(body).compute(&mut source, node, PLACE);
    let sum = source.combine(op, dtype, "sum", &value);
    source.line(format_args!("sum = {sum};"));
    source.line("}");
    source.line("}");
    source.across_columns(op, dtype, ("sum", "shares"), (lanes, wide));
    let gate = if source.gated { " && committed" } else { "" };
    source.line(format_args!("if (lane == 0u && column < columns{gate}) {{"));
    let write = table.operands.writes[0].clone();
    source.store(&write, "column", "sum");
    source.line("}");
    source.finish(&format!("{} kernels: sums of columns", parts.len()), narrow(lanes * wide), table.groups)
}

/// Bytes of scratch that the parts of a group need which run together.
pub(super) fn workspace(parts: &[Part], reads: &[Access], writes: &[Access], limits: &Limits) -> usize {
    // Of each class the bytes, and whether some part needs them.
    let mut classes: SortedMap<String, (usize, bool)> = SortedMap::new();
    for part in parts {
        let class = class(part, &reads[part.reads.clone()], &writes[part.writes.clone()]);
        let Some(class) = class else { continue };
        if matches!(Form::of(body_of(part)), Some(Form::Total(..))) {
            let (bytes, long) = classes.get(&class).copied().unwrap_or_default();
            let bytes = bytes + 4 * chunks(body_of(part));
            classes.insert(class, (bytes, long || !is_short_total(part, limits)));
        }
    }
    classes.iter().filter(|(_, (_, long))| *long).map(|(_, &(bytes, _))| bytes).max().unwrap_or(0)
}

/// Each chunk's share of its part's total, to the scratch.
fn shares(table: &Table, mut source: Source<'_>, parts: &[&Part], op: ReduceOp, node: NodeId) -> Dispatch {
    let body = body_of(parts[0]);
    let dtype = body.node(node).dtype;
    let scratch = source.workspace(0..4 * table.groups, dtype);
    let identity = source.identity(op, dtype);
    source.line(format_args!("var sum = {identity};"));
    let workgroup = source.limits.sharing();
    table.each_position(&mut source, parts.len(), workgroup);
    let value = Nodes::new(body).compute(&mut source, node, PLACE);
    let sum = source.combine(op, dtype, "sum", &value);
    source.line(format_args!("sum = {sum};"));
    source.line("}");
    across(&mut source, op, dtype);
    source.line("if (local == 0u) {");
    source.line(format_args!("{scratch}[group] = shares[0];"));
    source.line("}");
    source.finish(&format!("{} kernels: shares of totals", parts.len()), narrow(workgroup), table.groups)
}

/// The total of each part: a workgroup each.
fn totals(table: &Table, mut source: Source<'_>, parts: &[&Part], op: ReduceOp, node: NodeId) -> Dispatch {
    let dtype = body_of(parts[0]).node(node).dtype;
    let scratch = source.workspace(0..4 * table.groups, dtype);
    let numbers = source.table(table.numbers.clone());
    let identity = source.identity(op, dtype);
    source.line("let part = group;");
    table.starts(&mut source, numbers);
    source.line(format_args!("let last = {numbers}[entry + {}u];", table.width));
    source.line(format_args!("var sum = {identity};"));
    let workgroup = source.limits.sharing();
    source.line(format_args!("for (var i = {numbers}[entry] + local; i < last; i += {workgroup}u) {{"));
    let sum = source.combine(op, dtype, "sum", &format!("{scratch}[i]"));
    source.line(format_args!("sum = {sum};"));
    source.line("}");
    table.store_total(source, parts, op, dtype)
}

/// The total of each part that is short: a workgroup each.
fn short_totals(
    table: &Table,
    mut source: Source<'_>,
    parts: &[&Part],
    op: ReduceOp,
    node: NodeId,
) -> Dispatch {
    let body = body_of(parts[0]);
    let dtype = body.node(node).dtype;
    let numbers = source.table(table.numbers.clone());
    let workgroup = source.limits.sharing();
    let identity = source.identity(op, dtype);
    source.line("let part = group;");
    table.starts(&mut source, numbers);
    source.line(format_args!("let elements = {numbers}[entry + 1u] * {numbers}[entry + 2u];"));
    source.line(format_args!("var sum = {identity};"));
    source.line(format_args!("for (var position = local; position < elements; position += {workgroup}u) {{"));
    let value = Nodes::new(body).compute(&mut source, node, PLACE);
    let sum = source.combine(op, dtype, "sum", &value);
    source.line(format_args!("sum = {sum};"));
    source.line("}");
    table.store_total(source, parts, op, dtype)
}

/// Combines the invocations' `sum`s into `shares[0]`.
fn across(source: &mut Source<'_>, op: ReduceOp, dtype: DType) {
    let workgroup = source.limits.sharing();
    let together = source.subgroup(workgroup).unwrap_or(1);
    source.across_subgroup(op, dtype, "sum", together);
    let count = workgroup / together;
    source.global(format_args!("var<workgroup> shares: array<{}, {count}>;", type_name(dtype)));
    if together > 1 {
        source.line("if (place == 0u) {");
        source.line("shares[subgroup] = sum;");
        source.line("}");
    } else {
        source.line("shares[local] = sum;");
    }
    source.line("workgroupBarrier();");
    source.line(format_args!("for (var half = {}u; half > 0u; half /= 2u) {{", count / 2));
    source.line("if (local < half) {");
    let both = source.combine(op, dtype, "shares[local]", "shares[local + half]");
    source.line(format_args!("shares[local] = {both};"));
    source.line("}");
    source.line("workgroupBarrier();");
    source.line("}");
}
