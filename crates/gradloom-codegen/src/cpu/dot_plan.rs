//! Plan of a product with its epilogue: blocks, the destination of the raw product, and scratch memory.
//!
//! In: a `Dot` or [`Kernel::Dot`] with its operands and results. Out: a [`DotPlan`], which determines both
//! the launch's workspace and the kernel. Invariant: only [`DotPlan::workspace`] depends on the number of
//! threads.

use super::{DotSchedule, DotTask, FEW_ROWS, column_partials};
use crate::product::{DotProblem, SteppedView};
use gradloom_core::ir::{BLOCK, BlockFormat, DType, DotAxes, OpKind};
use gradloom_core::kernel::{Access, Body, Kernel, Level, NodeKind, Store};
use std::ops::Range;

/// Maximum number of contracted indices that are processed together. A panel of two vectors of columns then
/// fits, or almost fits, a first-level cache.
const DEPTH_BLOCK: usize = 256;
/// Maximum number of contracted indices that are processed together if the right operand is packed. It is
/// larger than [`DEPTH_BLOCK`] because a task finishes one block before it packs the next.
const PACKED_DEPTH_BLOCK: usize = 384;
/// Unit of the contracted indices that are processed together if operands are rounded to 16 bits: those that
/// a tile register has of a row.
pub(super) const ROUNDED_DEPTH: usize = 32;
/// Number of rows that are processed with all columns of a task before the next block of rows. With
/// [`DEPTH_BLOCK`], they take a part of a second-level cache. They are whole strips, and whole pairs of tile
/// registers, which have 16 rows.
pub(super) const ROW_BLOCK: usize = 8 * super::STRIP;
/// Maximum size of the operands that are packed once for all tasks, in floats: 256 MiB.
const MOST_SHARED: usize = 1 << 26;
/// Maximum distance between the contiguous rows of a right operand that is not packed, in elements. Larger
/// strides would exhaust the sets of the first-level cache and the TLB.
const IN_PLACE_STRIDE: usize = 4096;
/// Maximum number of rows of a task for which packing a right operand with contiguous rows always costs more
/// than it saves.
pub(super) const IN_PLACE_ROWS: usize = 48;
/// Number of rows whose products with an element take as long as packing the element, if its neighbors are
/// scattered.
const ROWS_PER_PACKED: usize = 16;
/// Number of elements of the product that one task adds up if sums were split.
const SUM_CHUNK: usize = 16 * 1024;
/// Alignment of scratch sections, in floats: a cache line, which holds one of the widest vectors.
const LINE: usize = 16;

/// Format of a right operand in memory. Strides of the problem count its elements, or the bytes of its
/// blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// f32 elements, which need no conversion.
    F32,
    /// f16 elements, which are converted to f32 when they are read.
    F16,
    /// bf16 elements, which are converted to f32 when they are read.
    Bf16,
    /// Consecutive blocks along the contracted index.
    Blocks(BlockFormat),
}

impl Form {
    /// Returns the format of a right operand.
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
    /// The launch's product, or its transpose if `transposed` is true.
    pub problem: DotProblem,
    /// True if `problem` is the transpose of the launch's product. Only products with a single column are
    /// transposed.
    pub transposed: bool,
    /// Format of the right operand in memory.
    pub form: Form,
    /// Split of the product into tasks.
    pub schedule: DotSchedule,
    /// Index of the write that holds the raw product, if any write can hold it.
    pub direct: Option<usize>,
    /// True if the right operand is packed. The left one is packed only if operands are rounded: kernels
    /// broadcast its elements one at a time, so it need not be contiguous.
    pub packs_right: bool,
    /// True if both operands are rounded to bf16 while they are packed. Products of few rows, whose time is
    /// that of reading the right operand, are computed from the operands as they are.
    pub rounds: bool,
    /// Offsets of the right operand's elements, if its indices have several strides. If the operand is not
    /// packed, its columns are read in runs of neighbors.
    pub stepped: Option<SteppedView>,
    /// True if the epilogue does more than store the product.
    pub has_epilogue: bool,
    /// Size of the epilogue's partial results for one panel of rows, in bytes.
    pub partials: usize,
    /// For each operand, true if it is packed once, into memory that all tasks read: if several tasks read it
    /// and it is not too large. Otherwise, each task packs its part, if the operand is packed.
    pub shares: [bool; 2],
}

/// Work of the tasks of a phase of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotStage {
    /// Operands are packed for all tasks.
    Pack,
    /// Blocks of the product are computed, with the epilogue unless sums are split.
    Multiply,
    /// Parts of sums are added up, and the epilogue runs on them.
    Add,
    /// The epilogue's partial results are combined.
    Finish,
}

/// A block of an operand that one task packs for all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackTask {
    /// Index of the operand: 0 for the left one, 1 for the right one.
    pub operand: usize,
    /// Index of the product in the batch.
    pub product: usize,
    /// Range of rows of the left operand, or of columns of the right one.
    pub free: Range<usize>,
    /// Range of contracted indices.
    pub depth: Range<usize>,
}

impl DotPlan {
    /// Creates the plan of a launch from its kernel, operands, results, possible aliases, and the type that
    /// the operands are rounded to ([`Schedule::operands`](gradloom_core::kernel::Schedule::operands)).
    /// Returns `None` if the kernel is not a product or an operand must be copied first (see
    /// [`dot_copies`](crate::product::dot_copies)).
    pub fn new(
        kernel: &Kernel,
        reads: &[Access],
        writes: &[Access],
        may_alias: &[(usize, usize)],
        operands: DType,
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
            // Reject operands that do not consist of whole blocks, because kernels advance from block to
            // block without checks.
            let bytes = axes.rhs_contract.iter().map(|&axis| rhs.shape[axis]).product();
            let whole = reads[1].dtype == DType::U8 && problem.rhs.contract_stride == 1;
            if !whole || format.bytes_of(problem.k) != Some(bytes) {
                return None;
            }
        }
        // Only transpose f32 products, because the right operand becomes the left one, whose elements are
        // read as f32.
        let transposed = problem.n == 1 && problem.m > 1 && stepped.is_none() && form == Form::F32;
        let problem = if transposed { problem.transposed() } else { problem };
        let by_position = |body: &Body| {
            body.stores.iter().all(|store| matches!(store, Store::Value { level: Level::Element, .. }))
        };
        let rounds = operands == DType::BF16 && problem.m > FEW_ROWS;
        let may_split_sums = epilogue.is_none_or(by_position) && !matches!(form, Form::Blocks(_));
        let schedule = match rounds {
            true => DotSchedule::of_rounded(&problem, may_split_sums),
            false => DotSchedule::new(&problem, may_split_sums),
        };
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
        let mut free = if rounds { MOST_SHARED } else { 0 };
        let shares = [0, 1].map(|operand| {
            let floats = Self::packed_lengths(&problem)[operand].saturating_mul(problem.batch_count());
            let is_shared = schedule.readers()[operand] > 1 && floats <= free;
            free -= if is_shared { floats } else { 0 };
            is_shared
        });
        Some(Self {
            shares,
            packs_right: rounds || !right_in_place,
            rounds,
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

    /// Returns the number of phases.
    pub fn phases(&self) -> usize {
        2 + usize::from(self.shares != [false; 2])
    }

    /// Returns the work of the tasks of a phase.
    pub fn stage(&self, phase: usize) -> DotStage {
        match (self.shares, phase) {
            ([false, false], 0) => DotStage::Multiply,
            (_, 0) => DotStage::Pack,
            ([true, _] | [_, true], 1) => DotStage::Multiply,
            _ if self.schedule.parts() > 1 => DotStage::Add,
            _ => DotStage::Finish,
        }
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

    /// Returns the number of rows that a task processes with all its columns before the next block of rows.
    pub fn row_block(&self) -> usize {
        ROW_BLOCK
    }

    /// Returns the number of contracted indices that a task processes together. The last block may be
    /// shorter.
    pub fn depth_block(&self) -> usize {
        let [_, _, _, depth] = self.schedule.largest_task();
        let most = if self.packs_right { PACKED_DEPTH_BLOCK } else { DEPTH_BLOCK };
        let block = depth.div_ceil(depth.div_ceil(most).max(1));
        match self.form {
            Form::Blocks(_) => block.next_multiple_of(BLOCK),
            _ if self.rounds => block.next_multiple_of(ROUNDED_DEPTH),
            _ => block,
        }
    }

    /// Returns `true` if a task processes all of its rows with one block of contracted indices before the
    /// next block. Otherwise, it processes each block of rows with all contracted indices.
    pub fn depth_first(&self) -> bool {
        self.packs_right && self.depth_block() < self.schedule.largest_task()[3]
    }

    /// Returns the index of a task's panel of rows, which selects the epilogue's partial results.
    pub fn panel(&self, index: usize) -> usize {
        self.schedule.panel(index, self.transposed)
    }

    /// Returns the number of panels of rows; at least 1.
    pub fn panels(&self) -> usize {
        self.schedule.panels(self.transposed).max(1)
    }

    /// Returns the approximate cost of packing the largest block of an operand, in nanoseconds of one core.
    pub fn pack_cost(&self) -> usize {
        let [_, rows, columns, _] = self.schedule.largest_task();
        100 + rows.min(ROW_BLOCK).max(columns) * self.depth_block() / 4
    }

    /// Returns the approximate cost of a task, in nanoseconds of one core.
    pub fn task_cost(&self) -> usize {
        let [products, rows, columns, depth] = self.schedule.largest_task();
        let touched = rows * depth + depth * columns + rows * columns;
        100 + products * (rows * columns * depth / 64 + touched / 8)
    }

    /// Returns the rows of the whole product that task `index` of [`DotStage::Add`] adds up if sums were
    /// split. The whole product consists of the products of a batch, one below the other.
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

    /// Returns the number of bytes of the parts of split sums, without the first part if a write holds it.
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

    /// Returns the number of floats of each operand of one product, if it is packed for all tasks.
    fn packed_lengths(problem: &DotProblem) -> [usize; 2] {
        let DotProblem { m, n, k, .. } = *problem;
        [m, n.next_multiple_of(LINE)].map(|free| free.saturating_mul(k).div_ceil(LINE).saturating_mul(LINE))
    }

    /// Returns the number of floats of each operand in the workspace, if it is packed for all tasks.
    fn shared_floats(&self) -> [usize; 2] {
        let lengths = Self::packed_lengths(&self.problem);
        [0, 1].map(|i| usize::from(self.shares[i]) * self.problem.batch_count() * lengths[i])
    }

    /// Returns the position in the workspace of an operand of a product that is packed for all tasks, in
    /// floats.
    pub fn packed_start(&self, operand: usize, product: usize) -> usize {
        let before = (self.parts_bytes() + self.partials_bytes()) / size_of::<f32>();
        let lengths = Self::packed_lengths(&self.problem);
        before + self.shared_floats()[..operand].iter().sum::<usize>() + product * lengths[operand]
    }

    /// Returns the tasks that pack operands for all others: one for each block of rows or piece of columns,
    /// and of the contracted indices that a task processes together.
    pub fn pack_tasks(&self) -> Vec<PackTask> {
        let depths = self.schedule.depth_pieces().flat_map(|piece| blocks(piece, self.depth_block()));
        let depths: Vec<Range<usize>> = depths.collect();
        let mut tasks = Vec::new();
        for operand in (0..2).filter(|&operand| self.shares[operand]) {
            let free: Vec<Range<usize>> = match operand {
                0 => blocks(0..self.problem.m, self.row_block()).collect(),
                _ => self.schedule.column_pieces().collect(),
            };
            for product in 0..self.problem.batch_count() {
                for free in &free {
                    let task = |depth: &Range<usize>| PackTask {
                        operand,
                        product,
                        free: free.clone(),
                        depth: depth.clone(),
                    };
                    tasks.extend(depths.iter().map(task));
                }
            }
        }
        tasks
    }

    /// Returns the lengths in floats of one thread's scratch sections: the packed right operand, a block of
    /// rows of the packed left operand, a panel of the right operand that is not yet rounded, and the raw
    /// product.
    pub fn sections(&self) -> [usize; 4] {
        let [_, rows, columns, _] = self.schedule.largest_task();
        let columns = columns.next_multiple_of(LINE);
        let (block, depth) = (rows.min(ROW_BLOCK), self.depth_block());
        let rows = if self.depth_first() { rows } else { block };
        let scratch = self.direct.is_none() && self.schedule.parts() == 1;
        [
            if self.packs_right && !self.shares[1] { depth * columns } else { 0 },
            if self.rounds && !self.shares[0] { depth * block } else { 0 },
            if self.rounds { depth * columns.min(2 * LINE) } else { 0 },
            if scratch { rows * self.product_stride() } else { 0 },
        ]
        .map(|floats| floats.next_multiple_of(LINE))
    }

    /// Returns the distance between rows of the raw product in a thread's scratch.
    pub fn product_stride(&self) -> usize {
        self.schedule.largest_task()[2].next_multiple_of(LINE)
    }

    /// Returns the number of bytes of scratch on this many threads: parts of split sums, partial results of
    /// the epilogue, operands that are packed for all tasks, then each thread's sections.
    pub fn workspace(&self, threads: usize) -> usize {
        let floats =
            self.shared_floats().iter().sum::<usize>() + threads * self.sections().iter().sum::<usize>();
        self.parts_bytes() + self.partials_bytes() + floats * size_of::<f32>()
    }

    /// Returns the task with this index.
    pub fn task(&self, index: usize) -> DotTask {
        self.schedule.task(index)
    }
}

/// Returns the number of bytes of scratch that a product, whose operands are rounded to the type `operands`,
/// needs on this many threads.
///
/// # Panics
/// Panics if the kernel is not a product, or an operand must be copied first.
pub fn dot_workspace(
    kernel: &Kernel,
    reads: &[Access],
    writes: &[Access],
    may_alias: &[(usize, usize)],
    operands: DType,
    threads: usize,
) -> usize {
    let plan = DotPlan::new(kernel, reads, writes, may_alias, operands);
    plan.expect("the operands of a product were copied to fit").workspace(threads)
}

/// Splits a range into blocks of this size; the last one may be smaller.
fn blocks(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(size.max(1)).map(move |start| start..(start + size).min(end))
}

/// Returns `true` if columns lie in runs of neighbors that fill most of the widest vectors, so that the empty
/// lanes cost less than packing the columns would for this many rows.
fn has_long_runs(steps: &SteppedView, rows: usize) -> bool {
    let Some(&(run, 1)) = steps.free.last() else { return false };
    let empty = run.next_multiple_of(LINE) - run;
    empty < run && empty * rows <= ROWS_PER_PACKED * run
}

/// Returns the index of a result that can hold the raw product until the epilogue overwrites it: one of the
/// right type and size that does not overwrite an operand.
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

/// Returns `true` if the body only stores the product.
fn is_identity(body: &Body) -> bool {
    matches!(body.stores[..], [Store::Value { node, level: Level::Element, .. }]
        if body.node(node).kind == NodeKind::Accumulator)
}
