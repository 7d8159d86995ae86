//! Plan of a product with its epilogue: its blocks, the place of raw products, and the scratch.
//!
//! In: a `Dot` or [`Kernel::Dot`] with its operands and results. Out: a [`DotPlan`], from which both the
//! launch's workspace and the kernel follow. Always holds: only [`DotPlan::workspace`] knows a number of
//! threads.

use super::{DotSchedule, DotTask, FEW_ROWS, column_partials};
use crate::product::{DotProblem, SteppedView};
use gradloom_core::ir::{BLOCK, BlockFormat, DType, DotAxes, OpKind};
use gradloom_core::kernel::{Access, Body, Kernel, Level, NodeKind, Store};
use std::ops::Range;

/// Contracted indices that are taken together, at most: a panel of two vectors of columns fits a first-level
/// cache, or almost.
const DEPTH_BLOCK: usize = 256;
/// The same of a packed right operand: longer, because the whole task is done with one block before the next
/// is packed.
const PACKED_DEPTH_BLOCK: usize = 384;
/// Rows that are taken through all columns of a task before the next: with [`DEPTH_BLOCK`], a part of a
/// second-level cache.
const ROW_BLOCK: usize = 8 * super::STRIP;
/// A right operand whose rows are contiguous is not packed if they are no further apart than this, in
/// elements: then neither the first-level cache's sets nor the pages' addresses run out.
const IN_PLACE_STRIDE: usize = 4096;
/// Rows of a task, at most, for which packing the right operand costs more than it saves in any case, if
/// its rows are contiguous.
pub(super) const IN_PLACE_ROWS: usize = 48;
/// Rows whose products with an element take as long as packing it where its neighbours are scattered.
const ROWS_PER_PACKED: usize = 16;
/// Elements of the product that one task adds up when sums were split.
const SUM_CHUNK: usize = 16 * 1024;
/// Sections of the scratch start on cache lines (of the widest vectors, in floats).
const LINE: usize = 16;

/// Layout of a right operand in memory. Strides of the problem count its elements, or bytes of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is multiplied.
    F32,
    /// 16 bits, which become f32 on the way.
    F16,
    /// The same.
    Bf16,
    /// Blocks along the contracted index, one behind the other.
    Blocks(BlockFormat),
}

impl Form {
    /// Returns the form of an operand that is f32 or is read as it is stored.
    pub fn of(access: &Access) -> Self {
        match (access.blocks, access.dtype) {
            (Some(format), _) => Form::Blocks(format),
            (None, DType::F16) => Form::F16,
            (None, DType::BF16) => Form::Bf16,
            (None, _) => Form::F32,
        }
    }
}

/// Plan of the computation of a product.
#[derive(Clone, Debug, PartialEq)]
pub struct DotPlan {
    /// The product; one with a single column is taken as its transpose, with a single row.
    pub problem: DotProblem,
    /// True if `problem` is the transpose of the launch's product.
    pub transposed: bool,
    /// Layout of the right operand in memory.
    pub form: Form,
    /// Its blocks.
    pub schedule: DotSchedule,
    /// The write that takes the raw product, if one may.
    pub direct: Option<usize>,
    /// True if the right operand is packed. The left one never is: its elements are read one at a time.
    pub packs_right: bool,
    /// Position of the right operand's elements, if its indices take several strides. In place, its columns
    /// are then read in runs of neighbours.
    pub stepped: Option<SteppedView>,
    /// True if the epilogue is more than to write the product down.
    pub has_epilogue: bool,
    /// Bytes of the epilogue's partial results of one panel of rows.
    pub partials: usize,
}

impl DotPlan {
    /// Creates the plan of a launch, by its parts, or `None` if its kernel is no product or an operand must
    /// be copied first (see [`dot_copies`](crate::product::dot_copies)).
    pub fn new(
        kernel: &Kernel,
        reads: &[Access],
        writes: &[Access],
        may_alias: &[(usize, usize)],
    ) -> Option<Self> {
        let (axes, epilogue): (&DotAxes, Option<&Body>) = match kernel {
            Kernel::Op(OpKind::Dot(axes)) => (axes, None),
            Kernel::Dot { axes, epilogue } => (axes, Some(epilogue)),
            _ => return None,
        };
        let (lhs, rhs) = (&reads[0].layout, &reads[1].layout);
        let (problem, stepped) = match DotProblem::new(axes, lhs, rhs) {
            Some(problem) => (problem, None),
            None => DotProblem::packing(axes, lhs, rhs).map(|(problem, steps)| (problem, Some(steps)))?,
        };
        let form = Form::of(&reads[1]);
        if form != Form::F32 && stepped.is_some() {
            return None;
        }
        if let Form::Blocks(format) = form {
            // Kernels go from block to block without looking.
            let bytes = axes.rhs_contract.iter().map(|&axis| rhs.shape[axis]).product();
            let whole = reads[1].dtype == DType::U8 && problem.rhs.contract_stride == 1;
            if !whole || format.bytes_of(problem.k) != Some(bytes) {
                return None;
            }
        }
        // The left operand is read as f32.
        let transposed = problem.n == 1 && problem.m > 1 && stepped.is_none() && form == Form::F32;
        let problem = if transposed { problem.transposed() } else { problem };
        let by_position = |body: &Body| {
            body.stores.iter().all(|store| matches!(store, Store::Value { level: Level::Element, .. }))
        };
        let schedule =
            DotSchedule::new(&problem, epilogue.is_none_or(by_position) && !matches!(form, Form::Blocks(_)));
        let [_, rows, _, _] = schedule.largest_task();
        let right_in_place = match (&stepped, problem.rhs.free_stride) {
            (Some(steps), _) => has_long_runs(steps, rows),
            (None, 1) if form == Form::F32 => {
                rows <= IN_PLACE_ROWS || problem.rhs.contract_stride <= IN_PLACE_STRIDE
            }
            (None, 1) if !matches!(form, Form::Blocks(_)) => problem.m <= FEW_ROWS,
            (None, _) => {
                problem.m <= FEW_ROWS && problem.rhs.contract_stride == 1 && problem.lhs.contract_stride == 1
            }
        };
        let direct = match epilogue {
            None => Some(0),
            Some(body) => {
                let taken = |&(write, read): &(usize, usize)| reads[read].layout == writes[write].layout;
                let free = |write| !may_alias.iter().any(|pair| pair.0 == write && taken(pair));
                direct_write(body, writes, free)
            }
        };
        Some(Self {
            packs_right: !right_in_place,
            stepped,
            direct,
            has_epilogue: epilogue.is_some_and(|body| direct.is_none() || !is_identity(body)),
            partials: epilogue.map_or(0, column_partials),
            schedule,
            form,
            transposed,
            problem,
        })
    }

    /// Returns the number of elements of the product.
    pub fn elements(&self) -> usize {
        self.problem.batch_count() * self.problem.m * self.problem.n
    }

    /// Returns the number of bytes of both operands of one product.
    pub fn operands_bytes(&self) -> usize {
        let DotProblem { m, n, k, .. } = self.problem;
        (m * k + k * n) * size_of::<f32>()
    }

    /// Returns the number of rows that a task takes through all its columns before the next.
    pub fn row_block(&self) -> usize {
        ROW_BLOCK
    }

    /// Returns the number of contracted indices of a task that are taken together; the last may be fewer.
    pub fn depth_block(&self) -> usize {
        let [_, _, _, depth] = self.schedule.largest_task();
        let most = if self.packs_right { PACKED_DEPTH_BLOCK } else { DEPTH_BLOCK };
        let block = depth.div_ceil(depth.div_ceil(most).max(1));
        if matches!(self.form, Form::Blocks(_)) { block.next_multiple_of(BLOCK) } else { block }
    }

    /// Returns true if a task takes all of its rows through a block of contracted indices before the next
    /// block; otherwise it takes each block of rows through all contracted indices.
    pub fn depth_first(&self) -> bool {
        self.packs_right && self.depth_block() < self.schedule.largest_task()[3]
    }

    /// Returns the panel of rows that a task belongs to, for the epilogue's partial results.
    pub fn panel(&self, index: usize) -> usize {
        self.schedule.panel(index, self.transposed)
    }

    /// Returns the number of panels of rows; at least 1.
    pub fn panels(&self) -> usize {
        self.schedule.panels(self.transposed).max(1)
    }

    /// Returns the rough cost of a task, in nanoseconds of one core.
    pub fn task_cost(&self) -> usize {
        let [products, rows, columns, depth] = self.schedule.largest_task();
        let touched = rows * depth + depth * columns + rows * columns;
        100 + products * (rows * columns * depth / 64 + touched / 8)
    }

    /// Returns the rows of the whole product (all products of a batch below each other) that task `index`
    /// of the second phase adds up, when sums were split.
    pub fn sum_rows(&self, index: usize) -> Range<usize> {
        let (rows, _) = self.positions();
        let chunk = self.sum_chunk();
        index * chunk..((index + 1) * chunk).min(rows)
    }

    /// Returns the number of tasks that add up split sums.
    pub fn sum_tasks(&self) -> usize {
        self.positions().0.div_ceil(self.sum_chunk())
    }

    fn sum_chunk(&self) -> usize {
        (SUM_CHUNK / self.positions().1.max(1)).max(1)
    }

    /// Returns the number of rows and of columns of the epilogue.
    pub fn positions(&self) -> (usize, usize) {
        let DotProblem { m, n, .. } = self.problem;
        let (rows, columns) = if self.transposed { (n, m) } else { (m, n) };
        (self.problem.batch_count() * rows, columns)
    }

    /// Returns the number of bytes of the parts of split sums: all of them, or all but the first if that
    /// goes to a write.
    pub fn parts_bytes(&self) -> usize {
        match self.schedule.parts() {
            1 => 0,
            parts => (parts - usize::from(self.direct.is_some())) * self.part_stride() * size_of::<f32>(),
        }
    }

    /// Returns the distance between parts of split sums, in floats.
    pub fn part_stride(&self) -> usize {
        self.elements().next_multiple_of(LINE)
    }

    /// Returns the number of bytes of the partial results of all panels.
    pub fn partials_bytes(&self) -> usize {
        self.partials * self.panels()
    }

    /// Lengths in floats of one thread's scratch: packed right operand, raw product.
    pub fn sections(&self) -> [usize; 2] {
        let [_, rows, columns, _] = self.schedule.largest_task();
        let columns = columns.next_multiple_of(LINE);
        let rows = if self.depth_first() { rows } else { rows.min(ROW_BLOCK) };
        let scratch = self.direct.is_none() && self.schedule.parts() == 1;
        [
            if self.packs_right { self.depth_block() * columns } else { 0 },
            if scratch { rows * self.product_stride() } else { 0 },
        ]
        .map(|floats| floats.next_multiple_of(LINE))
    }

    /// Returns the distance between rows of the raw product in a thread's scratch.
    pub fn product_stride(&self) -> usize {
        self.schedule.largest_task()[2].next_multiple_of(LINE)
    }

    /// Returns the number of bytes of scratch on this many threads: parts of split sums, partial results of
    /// the epilogue, then each thread's sections.
    pub fn workspace(&self, threads: usize) -> usize {
        let thread = self.sections().iter().sum::<usize>() * size_of::<f32>();
        self.parts_bytes() + self.partials_bytes() + threads * thread
    }

    /// Returns the task with this index.
    pub fn task(&self, index: usize) -> DotTask {
        self.schedule.task(index)
    }
}

/// Returns the number of bytes of scratch that a product needs on this many threads.
///
/// # Panics
/// When the kernel is no product, or an operand must be copied first.
pub fn dot_workspace(
    kernel: &Kernel,
    reads: &[Access],
    writes: &[Access],
    may_alias: &[(usize, usize)],
    threads: usize,
) -> usize {
    let plan = DotPlan::new(kernel, reads, writes, may_alias);
    plan.expect("the operands of a product were copied to fit").workspace(threads)
}

/// Returns true if columns lie in runs of neighbours that fill most of the widest vectors: the empty lanes
/// cost less than packing the columns would for so many rows.
fn has_long_runs(steps: &SteppedView, rows: usize) -> bool {
    let Some(&(run, 1)) = steps.free.last() else { return false };
    let empty = run.next_multiple_of(LINE) - run;
    empty < run && empty * rows <= ROWS_PER_PACKED * run
}

/// Returns a result that can hold the raw product until the epilogue overwrites it: of the right type and
/// size, and never in a read's place.
fn direct_write(body: &Body, writes: &[Access], free: impl Fn(usize) -> bool) -> Option<usize> {
    body.stores.iter().find_map(|store| match *store {
        Store::Value { node, level: Level::Element, write }
            if body.node(node).dtype == DType::F32 && writes[write].layout.is_contiguous() && free(write) =>
        {
            Some(write)
        }
        _ => None,
    })
}

/// Returns true if the body only writes the product down.
fn is_identity(body: &Body) -> bool {
    matches!(body.stores[..], [Store::Value { node, level: Level::Element, .. }]
        if body.node(node).kind == NodeKind::Accumulator)
}
