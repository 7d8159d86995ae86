//! Parts of a launch that access parts of its operands.
//!
//! In: a phase of a launch and its kernel. Out: panels, each a list of tasks and the ranges of elements that
//! they access, so that a later launch may start on the rows of one panel while others are computed.
//! Invariants: each task is in one panel; a task accesses no element outside of its panel's ranges.

use super::{AttentionShape, CpuKernel, DotPlan, DotStage, Form, LoopSchedule, PackTask};
use gradloom_core::ir::OpKind;
use gradloom_core::kernel::{Access, Body, Kernel, Launch, Level, NodeKind, Store};
use std::ops::Range;

/// Maximum number of panels of a phase, or of those that pack an operand: enough to keep 16 threads busy at
/// its end.
const PANELS: usize = 8;

/// Tasks of a phase of a launch, and the elements that they access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Tasks of the panel.
    pub tasks: Vec<usize>,
    /// Range of elements of the buffer of each read; `None` if it may be any.
    pub reads: Vec<Option<Range<usize>>>,
    /// Range of elements of the buffer of each write; `None` if it may be any.
    pub writes: Vec<Option<Range<usize>>>,
}

/// Returns the panels of a phase of a launch; none if its tasks may access any element, or may trap.
pub fn panels(launch: &Launch, kernel: &CpuKernel, phase: usize) -> Vec<Panel> {
    let body = launch.kernel.body();
    if body.is_some_and(Body::can_trap) {
        return Vec::new();
    }
    match (&launch.kernel, kernel) {
        (Kernel::Loop(body), CpuKernel::Loop(_)) if phase == 0 => of_loop(launch, body),
        (_, CpuKernel::Product(plan, _)) => match plan.stage(phase) {
            DotStage::Pack => of_packing(launch, plan),
            DotStage::Multiply => of_product(launch, plan, body),
            DotStage::Add | DotStage::Finish => Vec::new(),
        },
        (Kernel::Op(OpKind::Attention(spec) | OpKind::AttentionGrad(spec)), _)
            if spec.extra_operands() == 0 && phase == 0 =>
        {
            of_attention(launch)
        }
        _ => Vec::new(),
    }
}

fn of_loop(launch: &Launch, body: &Body) -> Vec<Panel> {
    let schedule = LoopSchedule::new(body);
    let pieces = schedule.row_pieces();
    let panel = |own: Range<usize>| {
        let rows = schedule.task(own.start).1.start..schedule.task(own.end - 1).1.end;
        let tasks = (0..schedule.tasks()).filter(|task| own.contains(&(task % pieces))).collect();
        of_rows(launch, Some(body), tasks, &rows, body.rows)
    };
    split_of_several(pieces).map(panel).collect()
}

fn of_product(launch: &Launch, plan: &DotPlan, body: Option<&Body>) -> Vec<Panel> {
    if plan.transposed || plan.schedule.parts() > 1 || plan.elements() == 0 {
        return Vec::new();
    }
    let (problem, left) = (&plan.problem, &plan.problem.lhs);
    let panel = |own: Range<usize>| {
        let tasks: Vec<usize> =
            (0..plan.schedule.tasks()).filter(|&task| own.contains(&plan.panel(task))).collect();
        let blocks = || {
            let blocks = tasks.iter().map(|&task| plan.task(task));
            blocks.flat_map(|task| task.products.map(move |product| (product, task.rows.clone())))
        };
        // Rows are numbered over all products, one below the other.
        let rows = hull(
            blocks().map(|(product, rows)| product * problem.m + rows.start..product * problem.m + rows.end),
        );
        let read = hull(blocks().map(|(product, rows)| {
            let first = problem.batch_offsets(product).0;
            let last = (rows.end - 1) * left.free_stride + problem.k.saturating_sub(1) * left.contract_stride;
            first + rows.start * left.free_stride..first + last + 1
        }));
        let mut panel = of_rows(launch, body, tasks, &rows, plan.positions().0);
        // An epilogue loads neither operand of the product, and packed operands are in the workspace.
        panel.reads[0] = Some(if plan.shares[0] { 0..0 } else { read });
        panel.reads[1] = plan.shares[1].then_some(0..0);
        panel
    };
    split_of_several(plan.panels()).map(panel).collect()
}

/// Returns the panels of tasks that pack operands: for each operand, those whose elements are neighbors.
fn of_packing(launch: &Launch, plan: &DotPlan) -> Vec<Panel> {
    let tasks: Vec<(usize, PackTask)> = plan.pack_tasks().into_iter().enumerate().collect();
    let problem = &plan.problem;
    // Returns the elements that a task packs; `None` if they may be any.
    let read = |task: &PackTask| {
        let view = [problem.lhs, problem.rhs][task.operand];
        if task.operand == 1 && (plan.stepped.is_some() || plan.form != Form::F32) {
            return None;
        }
        let (lhs, rhs) = problem.batch_offsets(task.product);
        let first = [lhs, rhs][task.operand]
            + task.free.start * view.free_stride
            + task.depth.start * view.contract_stride;
        let last = (task.free.len() - 1) * view.free_stride + (task.depth.len() - 1) * view.contract_stride;
        Some(first..first + last + 1)
    };
    let mut panels = Vec::new();
    for operand in 0..2 {
        let mut own: Vec<_> = tasks
            .iter()
            .filter(|(_, task)| task.operand == operand)
            .map(|(i, task)| (read(task), *i))
            .collect();
        own.sort_by_key(|(read, i)| (read.as_ref().map(|read| read.start), *i));
        for range in split(own.len()) {
            let tasks = &own[range];
            let mut reads = vec![Some(0..0); launch.reads.len()];
            reads[operand] = tasks
                .iter()
                .map(|(read, _)| read.clone())
                .reduce(|a, b| Some(hull([a?, b?].into_iter())))
                .flatten();
            let tasks = tasks.iter().map(|(_, task)| *task).collect();
            panels.push(Panel { tasks, reads, writes: vec![Some(0..0); launch.writes.len()] });
        }
    }
    panels
}

fn of_attention(launch: &Launch) -> Vec<Panel> {
    let shape = |read: usize| &launch.reads[read].layout.shape;
    let attention = AttentionShape::new(shape(0), shape(1), shape(2), None, launch.schedule.operands());
    let AttentionShape { batch, kv_heads, .. } = attention;
    let is_gradient = matches!(launch.kernel, Kernel::Op(OpKind::AttentionGrad(_)));
    let (heads, chunks) = (batch * kv_heads, if is_gradient { 1 } else { attention.forward_chunks() });
    let panel = |batches: Range<usize>| {
        let is_own = |task: &usize| batches.contains(&(task % heads / kv_heads));
        of_rows(launch, None, (0..heads * chunks).filter(is_own).collect(), &batches, batch)
    };
    split_of_several(if heads == 0 { 0 } else { batch }).map(panel).collect()
}

/// Returns the smallest range that contains all of these.
fn hull(ranges: impl Iterator<Item = Range<usize>>) -> Range<usize> {
    ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or_default()
}

/// Splits `pieces` into at most [`PANELS`] ranges.
fn split(pieces: usize) -> impl Iterator<Item = Range<usize>> {
    let panels = pieces.min(PANELS);
    (0..panels).map(move |panel| pieces * panel / panels..pieces * (panel + 1) / panels)
}

/// Splits `pieces` into at most [`PANELS`] ranges; into none if there would be only one.
fn split_of_several(pieces: usize) -> impl Iterator<Item = Range<usize>> {
    split(if pieces > 1 { pieces } else { 0 })
}

/// Returns the panel of `rows` of `all` rows. Without a body, all operands and results have these rows.
fn of_rows(
    launch: &Launch,
    body: Option<&Body>,
    tasks: Vec<usize>,
    rows: &Range<usize>,
    all: usize,
) -> Panel {
    let part = |access: &Access, has_rows: bool| {
        let elements = access.layout.shape.elements();
        if !has_rows || all == 0 || !elements.is_multiple_of(all) {
            return None;
        }
        let row = elements / all;
        Some(access.layout.span(rows.start * row..rows.end * row))
    };
    let loads_rows = |read: usize| {
        let Some(body) = body else { return true };
        let mut loads = body.nodes.iter().filter(|node| node.kind == NodeKind::Load(read)).peekable();
        loads.peek().is_some() && loads.all(|node| node.level != Level::Uniform)
    };
    let stores_rows = |write: usize| {
        let Some(body) = body else { return true };
        let mut stores = body.stores.iter().filter(|store| store.write() == write).peekable();
        let is_row = |store: &Store| matches!(store, Store::Value { level: Level::Row | Level::Element, .. });
        stores.peek().is_some() && stores.all(is_row)
    };
    Panel {
        tasks,
        reads: launch.reads.iter().enumerate().map(|(i, access)| part(access, loads_rows(i))).collect(),
        writes: launch.writes.iter().enumerate().map(|(i, access)| part(access, stores_rows(i))).collect(),
    }
}
