//! Schedules of groups, whose parts run in one kernel. The parts compute the same function over different
//! numbers of elements, either by position or by column, or are equal ops on operands at different offsets.

use crate::limits::Limits;
use gradloom_core::ir::{DType, OpKind, ReduceOp, ScatterOp};
use gradloom_core::kernel::{
    Access, Body, GroupSchedule, Kernel, Launch, Level, Method, Node, NodeId, NodeKind, Part, Schedule,
    Staging, Store,
};

/// Maximum length of columns that one workgroup reduces.
const SHORT: usize = 256;
/// Number of lanes that reduce a column.
const LANES: usize = 8;

/// Number of elements of the longest vectors that products load.
const VECTOR: usize = 8;

/// Returns the schedule of a group, without the scratch of parts that run together.
pub fn schedule(limits: &Limits) -> GroupSchedule {
    let workgroup = limits.sharing();
    GroupSchedule {
        workgroup,
        subgroup: limits.subgroup_of(workgroup),
        columns: limits.column_sharing(LANES),
        // On a software device, one workgroup computes longer totals alone: the device has little
        // parallelism, and compiling a second kernel would take longer than it saves.
        short: if limits.software { 64 } else { 1 } * GroupSchedule::CHUNK,
        workspace: 0,
    }
}

/// Computation that the parts of a class share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Computes each result from the elements at its position.
    Map,
    /// Computes one result from all positions.
    Total(ReduceOp, NodeId),
    /// Computes one result per column, over few rows.
    Columns(ReduceOp, NodeId),
    /// Updates distinct rows, which indices select.
    Scatter,
    /// A matrix product in tiles.
    Product,
}

impl Form {
    /// Returns the form of a part, if it has one.
    pub fn of_part(part: &Part) -> Option<Self> {
        match &part.kernel {
            Kernel::Loop(body) => Self::of(body),
            Kernel::Op(OpKind::Scatter { op: ScatterOp::Distinct, .. }) => Some(Self::Scatter),
            Kernel::Op(OpKind::Dot(_)) if is_tiled(&part.schedule) => Some(Self::Product),
            _ => None,
        }
    }

    /// Returns the form of a body's results, if they have one.
    pub fn of(body: &Body) -> Option<Self> {
        let by_position = |s: &Store| matches!(s, Store::Value { level: Level::Element, .. });
        match body.stores[..] {
            [Store::ColumnReduce { op, node, .. }] if body.columns == 1 => Some(Self::Total(op, node)),
            [Store::ColumnReduce { op, node, parts: 1, .. }] if body.rows <= SHORT => {
                Some(Self::Columns(op, node))
            }
            [Store::Value { node, .. }] if body.rows == 1 => match body.node(node).kind {
                NodeKind::Reduce(op, operand) if node.index() + 1 == body.nodes.len() => {
                    Some(Self::Total(op, operand))
                }
                _ => body.stores.iter().all(by_position).then_some(Self::Map),
            },
            _ => body.stores.iter().all(by_position).then_some(Self::Map),
        }
    }

    /// Returns the number of workgroups of a part with these rows and columns.
    pub(crate) fn groups(self, [rows, columns]: [usize; 2], schedule: &GroupSchedule) -> usize {
        match self {
            Self::Columns(..) => columns.div_ceil(schedule.columns[1]),
            Self::Map | Self::Total(..) | Self::Scatter => chunks(rows * columns),
            // Zero, because the tiles of a product determine the number.
            Self::Product => 0,
        }
    }
}

/// Returns `true` if a product is a single tiled kernel, whose workgroups locate their operands by workgroup
/// number.
fn is_tiled(schedule: &Schedule) -> bool {
    let Schedule::Product(product) = schedule else { return false };
    let is_tile = match &product.choice.method {
        Method::Portable(tile) => !matches!(tile.staging, Staging::Lanes(_)),
        Method::Cooperative(tile) => !tile.is_streamed(),
    };
    is_tile && product.choice.parts == 1
}

fn chunks(positions: usize) -> usize {
    positions.div_ceil(GroupSchedule::CHUNK)
}

/// Returns the number of rows and of columns of a part that has a form. A scatter has a row for each update
/// and a column for each element of an update. A product has zeros, because its tiles determine the number of
/// workgroups.
pub fn extents(part: &Part, reads: &[Access]) -> [usize; 2] {
    match &part.kernel {
        Kernel::Loop(body) => [body.rows, body.columns],
        Kernel::Op(OpKind::Dot(_)) => [0, 0],
        _ => {
            let elements = |read: usize| reads[read].layout.shape.elements();
            let (updates, elements) = (elements(1), elements(2));
            [updates, elements / updates.max(1)]
        }
    }
}

/// Returns `true` if each result of a body is computed from the elements at its position.
pub(crate) fn is_map(body: &Body) -> bool {
    Form::of(body) == Some(Form::Map)
}

/// Returns `true` if a body only reduces columns, which are short enough for a single kernel.
pub fn is_short(body: &Body, reads: &[Access], writes: &[Access]) -> bool {
    matches!(Form::of(body), Some(Form::Columns(..))) && fits(body, reads, writes)
}

/// Returns `true` if a part only reduces short columns. Such a part runs from a table of parts, even if the
/// table has no other part.
pub fn is_columns(part: &Part, launch: &Launch) -> bool {
    let (reads, writes) = (&launch.reads[part.reads.clone()], &launch.writes[part.writes.clone()]);
    matches!(&part.kernel, Kernel::Loop(body) if is_short(body, reads, writes))
}

/// Properties that parts must share to run in one kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    form: Form,
    /// Types of operands and results in memory.
    dtypes: Vec<DType>,
    nodes: Vec<Node>,
    /// Stores of a map. Empty for reductions, because the total of a row and that of a single column are
    /// computed by the same code.
    stores: Vec<Store>,
    /// Axes of an op, and the shapes, strides and alignment of its operands and result.
    op: Vec<usize>,
}

/// Returns the class of a part, if it has one.
pub(crate) fn class(part: &Part, reads: &[Access], writes: &[Access]) -> Option<Class> {
    let form = Form::of_part(part)?;
    let dtypes = reads.iter().chain(writes).map(|access| access.dtype).collect();
    if let Kernel::Op(kind) = &part.kernel {
        let mut op = Vec::new();
        // Elements that are loaded as vectors must have the same alignment in all parts.
        let vector = if form == Form::Product { VECTOR } else { 1 };
        match kind {
            // Reject results at an offset, because the kernel writes a product from the first element of its
            // buffer on.
            OpKind::Dot(_) if writes[0].layout.offset > 0 => return None,
            OpKind::Dot(axes) => {
                for list in [&axes.lhs_contract, &axes.rhs_contract, &axes.lhs_batch, &axes.rhs_batch] {
                    op.push(list.len());
                    op.extend(list);
                }
            }
            OpKind::Scatter { batch, .. } => op.push(*batch),
            _ => {}
        }
        for Access { layout, .. } in reads.iter().chain(writes) {
            if layout.shape.elements() == 0 {
                return None;
            }
            op.extend(&*layout.shape);
            op.extend(&*layout.strides);
            op.push(layout.offset % vector);
        }
        return Some(Class { form, dtypes, nodes: Vec::new(), stores: Vec::new(), op });
    }
    let Kernel::Loop(body) = &part.kernel else { return None };
    if !fits(body, reads, writes) {
        return None;
    }
    let (nodes, stores) = match form {
        Form::Total(_, node) | Form::Columns(_, node) => (&body.nodes[..=node.index()], Vec::new()),
        _ => (&body.nodes[..], body.stores.clone()),
    };
    Some(Class { form, dtypes, nodes: nodes.to_vec(), stores, op: Vec::new() })
}

/// Returns the indices of the parts that run together: parts of the same class for which `joins` returns
/// `true`, given the first member and the part. A part that runs alone has a separate list.
pub fn batches(
    parts: &[Part],
    launch: &Launch,
    mut joins: impl FnMut(usize, usize) -> bool,
) -> Vec<Vec<usize>> {
    let mut batches: Vec<(Option<Class>, Vec<usize>)> = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        let class = class(part, &launch.reads[part.reads.clone()], &launch.writes[part.writes.clone()]);
        let mut same = batches.iter_mut().filter(|(other, _)| class.is_some() && class == *other);
        match same.find(|(_, members)| joins(members[0], i)) {
            Some((_, members)) => members.push(i),
            None => batches.push((class, vec![i])),
        }
    }
    batches.into_iter().map(|(_, members)| members).collect()
}

/// Returns `true` if a table can describe the positions of a body's elements.
fn fits(body: &Body, reads: &[Access], writes: &[Access]) -> bool {
    let nodes = body.nodes.iter().enumerate().all(|(i, node)| match node.kind {
        NodeKind::Load(read) => match node.level {
            Level::Uniform => true,
            Level::Row => false,
            Level::Element => reads[read].layout.is_contiguous(),
        },
        // Only the total itself may be a reduction.
        NodeKind::Reduce(..) => matches!(Form::of(body), Some(Form::Total(..))) && i + 1 == body.nodes.len(),
        NodeKind::Column | NodeKind::CheckIndex { .. } | NodeKind::CheckDivisor(_) => false,
        _ => true,
    });
    let contiguous = writes.iter().all(|write| write.layout.is_contiguous());
    // Reject results of single bytes, because writing a byte of a word would require atomics.
    let words = writes.iter().all(|write| write.dtype.bytes() > 1);
    nodes && contiguous && words && body.rows * body.columns > 0
}

/// Returns the body of a part of a class.
///
/// # Panics
/// Panics if the part is not a loop.
pub fn body_of(part: &Part) -> &Body {
    match &part.kernel {
        Kernel::Loop(body) => body,
        _ => unreachable!("parts of a class are loops"),
    }
}

/// Returns `true` if one workgroup adds up all elements of a body.
pub fn is_short_total(body: &Body, schedule: &GroupSchedule) -> bool {
    body.rows * body.columns <= schedule.short
}

/// Returns the number of bytes of scratch for the parts of a group that run together.
pub(crate) fn workspace(
    parts: &[Part],
    reads: &[Access],
    writes: &[Access],
    schedule: &GroupSchedule,
) -> u64 {
    // For each class, the number of bytes of scratch for its parts, and a flag that is true if any of these
    // parts needs scratch.
    let mut classes: Vec<(Class, u64, bool)> = Vec::new();
    for part in parts {
        let class = class(part, &reads[part.reads.clone()], &writes[part.writes.clone()]);
        let Some(class) = class.filter(|class| matches!(class.form, Form::Total(..))) else { continue };
        let body = body_of(part);
        let (bytes, is_long) = (4 * chunks(body.rows * body.columns) as u64, !is_short_total(body, schedule));
        match classes.iter_mut().find(|(known, ..)| *known == class) {
            Some((_, all, any)) => (*all, *any) = (*all + bytes, *any || is_long),
            None => classes.push((class, bytes, is_long)),
        }
    }
    classes.iter().filter(|(.., is_long)| *is_long).map(|&(_, bytes, _)| bytes).max().unwrap_or(0)
}
