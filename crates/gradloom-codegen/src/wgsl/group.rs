//! Independent kernels in one dispatch: the optimizer's update of all parameters, the squares of all gradients.
//!
//! In: a group's parts. Out: one dispatch for all parts that compute the same over other numbers of elements, each element from those at its own position, and two for
//! those that then add them all up; the others run alone. A table says which workgroups belong to which part, and where its operands start.
//! Always holds: what a workgroup computes depends on its part alone.

use super::body::{Nodes, Place};
use super::operands::Operand;
use super::source::{Source, WORKGROUP, type_name};
use super::{Dispatch, Limits, Operands, Shaders, bind_together};
use gradloom_core::error::Result;
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::{
    Access, Body, Kernel, Launch, Layout, Level, NodeId, NodeKind, Part, Phase, Store,
};
use gradloom_core::plan::Plan;
use std::collections::HashMap;

/// Elements of a workgroup: a few for each invocation, so that finding the part is a small share of the work.
const CHUNK: usize = 4 * WORKGROUP as usize;

/// The class of each part of a planned launch, if it has one: operands that one name stands for are in one region.
pub(super) fn classes(parts: &[Part], launch: &Launch, plan: &Plan) -> Vec<Option<String>> {
    let region = |access: &Access| plan.buffers[plan.buffer_of[&access.buffer]].region.name();
    let class_of = |part: &Part| {
        let (reads, writes) = (&launch.reads[part.reads.clone()], &launch.writes[part.writes.clone()]);
        let regions: Vec<&str> = reads.iter().chain(writes).map(region).collect();
        Some(class(part, reads, writes)? + &regions.join(" "))
    };
    parts.iter().map(class_of).collect()
}

/// What parts have in common that run in one dispatch: their expression, by its text.
fn class(part: &Part, reads: &[Access], writes: &[Access]) -> Option<String> {
    let Kernel::Loop(body) = &part.kernel else { return None };
    let total = total(body);
    let elementwise = body.stores.iter().all(|s| matches!(s, Store::Whole { level: Level::Element, .. }));
    let nodes = body.nodes.iter().enumerate().all(|(i, node)| match node.kind {
        NodeKind::Load(read) => match node.level {
            Level::Uniform => true,
            Level::Row => false,
            Level::Element => reads[read].layout.is_contiguous(),
        },
        // The total itself.
        NodeKind::Reduce(..) => total.is_some() && i + 1 == body.nodes.len(),
        NodeKind::Column | NodeKind::CheckIndex { .. } => false,
        _ => true,
    });
    let contiguous = writes.iter().all(|write| write.layout.is_contiguous());
    let bool_free = reads.iter().chain(writes).all(|access| access.dtype != DType::Bool);
    let some = body.rows * body.columns > 0;
    if !((elementwise || total.is_some()) && nodes && contiguous && bool_free && some) {
        return None;
    }
    Some(match total {
        // Along a row, or across rows of one column: the same.
        Some((op, node)) => format!(
            "{} {node} of\n{}",
            op.name(),
            Body { stores: Vec::new(), nodes: body.nodes[..=node.index()].to_vec(), ..body.clone() }
        ),
        None => body.to_string(),
    })
}

/// The operator and the node, if a body's one result is that of all its positions together.
fn total(body: &Body) -> Option<(ReduceOp, NodeId)> {
    match body.stores[..] {
        [Store::Columns { op, node, .. }] if body.columns == 1 => Some((op, node)),
        [Store::Whole { node, .. }] if body.rows == 1 => match body.node(node).kind {
            NodeKind::Reduce(op, operand) if node.index() + 1 == body.nodes.len() => Some((op, operand)),
            _ => None,
        },
        _ => None,
    }
}

/// The shaders of parts of one class.
///
/// # Errors
/// As [`super::shaders`].
pub(super) fn together(
    launch: &Launch,
    parts: &[&Part],
    number: usize,
    plan: &Plan,
    limits: &Limits,
) -> Result<Shaders> {
    let pick = |all: &[Access], range: fn(&Part) -> std::ops::Range<usize>| -> Vec<Access> {
        parts.iter().flat_map(|part| all[range(part)].to_vec()).collect()
    };
    let all = Launch {
        reads: pick(&launch.reads, |part| part.reads.clone()),
        writes: pick(&launch.writes, |part| part.writes.clone()),
        ..launch.clone()
    };
    let operands = bind_together(&all, plan, limits)?;
    let table = Table::new(&operands, parts);
    let gated = launch.phase == Phase::Commit;
    let dispatches = match total(body_of(parts[0])) {
        None => vec![map(&table, limits, gated, number, parts)],
        Some((op, node)) => {
            let source = || Source::new(&table.operands, limits, gated, number);
            vec![shares(&table, source(), parts, op, node), totals(&table, source(), parts, op, node)]
        }
    };
    Ok(Shaders { operands, dispatches })
}

fn body_of(part: &Part) -> &Body {
    match &part.kernel {
        Kernel::Loop(body) => body,
        _ => unreachable!("parts of a class are loops"),
    }
}

/// Which workgroups belong to which part, and where its operands start.
struct Table {
    /// For each part its first workgroup, its elements, and the starts of its operands and results; then the number of workgroups.
    numbers: Vec<u32>,
    /// Numbers of a part.
    width: usize,
    /// Workgroups of all parts.
    groups: usize,
    /// The first part's operands, from where the table says.
    operands: Operands,
}

impl Table {
    fn new(operands: &Operands, parts: &[&Part]) -> Self {
        let (reads, writes) = (parts[0].reads.len(), parts[0].writes.len());
        let mut numbers: Vec<u32> = Vec::new();
        let mut groups = 0;
        for (i, part) in parts.iter().enumerate() {
            let body = body_of(part);
            let elements = body.rows * body.columns;
            numbers.extend([groups as u32, elements as u32]);
            let own =
                operands.reads[i * reads..][..reads].iter().chain(&operands.writes[i * writes..][..writes]);
            numbers.extend(own.map(|operand| (operand.base / 4 + operand.layout.offset) as u32));
            groups += elements.div_ceil(CHUNK);
        }
        numbers.push(groups as u32);
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
        Self { numbers, width: 2 + reads + writes, groups, operands }
    }

    /// Names the starts of a part's operands.
    fn starts(&self, source: &mut Source<'_>, table: &str) {
        source.line(format!("let entry = part * {}u;", self.width));
        for i in 0..self.width - 2 {
            source.line(format!("let start_{i} = {table}[entry + {}u];", 2 + i));
        }
    }

    /// Opens a loop over the positions of the workgroup's chunk.
    fn each_position(&self, source: &mut Source<'_>, parts: usize) {
        let table = source.table(self.numbers.clone());
        source.line("var part = 0u;");
        source.line(format!("var beyond = {parts}u;"));
        source.line("while (beyond - part > 1u) {");
        source.line("let middle = (part + beyond) / 2u;");
        source.line(format!("if ({table}[middle * {}u] <= group) {{", self.width));
        source.line("part = middle;");
        source.line("} else {");
        source.line("beyond = middle;");
        source.line("}");
        source.line("}");
        self.starts(source, table);
        source.line(format!("let elements = {table}[entry + 1u];"));
        source.line(format!("let first = (group - {table}[entry]) * {CHUNK}u;"));
        source.line(format!("let last = min(first + {CHUNK}u, elements);"));
        source.line(format!(
            "for (var position = first + local; position < last; position += {WORKGROUP}u) {{"
        ));
    }
}

const PLACE: Place<'_> = Place { row: "0u", column: "0u", position: Some("position"), suffix: "" };

/// One invocation for each element of each part, in chunks.
fn map(table: &Table, limits: &Limits, gated: bool, number: usize, parts: &[&Part]) -> Dispatch {
    let body = body_of(parts[0]);
    let mut source = Source::new(&table.operands, limits, gated, number);
    table.each_position(&mut source, parts.len());
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

/// Bytes of scratch that the parts of a group need which run together.
pub(super) fn workspace(parts: &[Part], reads: &[Access], writes: &[Access]) -> usize {
    let mut bytes: HashMap<String, usize> = HashMap::new();
    for part in parts {
        let class = class(part, &reads[part.reads.clone()], &writes[part.writes.clone()]);
        let Some(class) = class.filter(|_| total(body_of(part)).is_some()) else { continue };
        *bytes.entry(class).or_default() += 4 * (body_of(part).rows * body_of(part).columns).div_ceil(CHUNK);
    }
    bytes.into_values().max().unwrap_or(0)
}

/// Each chunk's share of its part's total, to the scratch.
fn shares(table: &Table, mut source: Source<'_>, parts: &[&Part], op: ReduceOp, node: NodeId) -> Dispatch {
    let body = body_of(parts[0]);
    let dtype = body.node(node).dtype;
    let scratch = source.workspace(0..4 * table.groups, dtype);
    let identity = source.identity(op, dtype);
    source.line(format!("var sum = {identity};"));
    table.each_position(&mut source, parts.len());
    let value = Nodes::new(body).compute(&mut source, node, PLACE);
    let sum = source.combine(op, dtype, "sum", &value);
    source.line(format!("sum = {sum};"));
    source.line("}");
    across(&mut source, op, dtype);
    source.line("if (local == 0u) {");
    source.line(format!("{scratch}[group] = shares[0];"));
    source.line("}");
    source.finish(&format!("{} kernels: shares of totals", parts.len()), WORKGROUP, table.groups)
}

/// The total of each part: a workgroup each.
fn totals(table: &Table, mut source: Source<'_>, parts: &[&Part], op: ReduceOp, node: NodeId) -> Dispatch {
    let dtype = body_of(parts[0]).node(node).dtype;
    let scratch = source.workspace(0..4 * table.groups, dtype);
    let numbers = source.table(table.numbers.clone());
    let identity = source.identity(op, dtype);
    source.line("let part = group;");
    table.starts(&mut source, numbers);
    source.line(format!("let last = {numbers}[entry + {}u];", table.width));
    source.line(format!("var sum = {identity};"));
    source.line(format!("for (var i = {numbers}[entry] + local; i < last; i += {WORKGROUP}u) {{"));
    let sum = source.combine(op, dtype, "sum", &format!("{scratch}[i]"));
    source.line(format!("sum = {sum};"));
    source.line("}");
    across(&mut source, op, dtype);
    source.line(if source.gated { "if (local == 0u && committed) {" } else { "if (local == 0u) {" });
    let write = table.operands.writes[0].clone();
    source.store(&write, "0u", "shares[0]");
    source.line("}");
    source.finish(&format!("{} kernels: totals", parts.len()), WORKGROUP, parts.len())
}

/// Combines the invocations' `sum`s into `shares[0]`.
fn across(source: &mut Source<'_>, op: ReduceOp, dtype: DType) {
    source.global(format!("var<workgroup> shares: array<{}, {WORKGROUP}>;", type_name(dtype)));
    source.line("shares[local] = sum;");
    source.line("workgroupBarrier();");
    source.line(format!("for (var half = {}u; half > 0u; half /= 2u) {{", WORKGROUP / 2));
    source.line("if (local < half) {");
    let both = source.combine(op, dtype, "shares[local]", "shares[local + half]");
    source.line(format!("shares[local] = {both};"));
    source.line("}");
    source.line("workgroupBarrier();");
    source.line("}");
}
