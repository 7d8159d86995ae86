//! Matrix products and their epilogues, which are computed position by position.
//!
//! In: a launch of a `Dot` or a [`Kernel::Dot`](gradloom_core::kernel::Kernel), with operands in layouts that
//! [`DotProblem::new`](gradloom_codegen::cpu::DotProblem) takes. Out: a kernel that runs the tasks of its
//! [`DotPlan`]: each computes a block of the product, and the epilogue on it while it is in the cache.
//! Operands that are rounded, and that several tasks read, are first packed by other tasks. Always holds:
//! blocks and the order of every sum depend on the launch alone; a run allocates nothing; the raw product is
//! never written where the epilogue still has to read.

mod block;
mod epilogue;
#[cfg(test)]
mod tests;

use super::fused::Faults;
use super::kernel::Tasks;
use super::simd::dispatch;
use super::{Call, InstructionSet, Prepared, Trap};
use crate::matrix::rounded::Arithmetic;
use block::{
    MatrixOperand, Pack, Packed, Product, ProductBlock, Rounding, SharedOperand, Stepped, StoredOperand,
    padded,
};
use epilogue::Epilogue;
use gradloom_codegen::cpu::{DotPlan, DotStage, DotTask, Form, PackTask, loops};
use gradloom_codegen::product::SteppedView;
use gradloom_core::kernel::Launch;
use gradloom_device::host::current_worker;
use gradloom_device::memory::counted;
use std::ops::Range;
use std::sync::Arc;

/// Total bytes of the operands of a product up to which they are assumed to be in the second-level cache.
const NEAR: usize = 1 << 20;

/// Returns a kernel for a product, with the loop over its result if it has an epilogue.
///
/// # Panics
/// Panics if the launch has less scratch than the plan requires.
pub(super) fn prepare_dot(
    launch: &Launch,
    plan: &Arc<DotPlan>,
    epilogue: Option<&Arc<loops::Program>>,
    level: InstructionSet,
) -> Box<dyn Prepared> {
    Box::new(Dot::new(launch, Arc::clone(plan), epilogue, level))
}

struct Dot {
    plan: Arc<DotPlan>,
    epilogue: Option<Epilogue>,
    /// Write and offset of the result that takes the raw product.
    direct: Option<(usize, usize)>,
    /// Threads that the workspace has room for.
    threads: usize,
    /// Floats of the workspace before the threads' scratch, and of the sections of one thread's
    /// ([`DotPlan::sections`]).
    shared: usize,
    sections: [usize; 4],
    /// Tasks that pack operands for all others.
    packs: Vec<PackTask>,
    /// Row offsets of a right operand that is read in place although its indices take several strides.
    row_offsets: Vec<usize>,
    level: InstructionSet,
    /// Faults of the run in progress.
    faults: Faults,
}

impl Dot {
    fn new(
        launch: &Launch,
        plan: Arc<DotPlan>,
        epilogue: Option<&Arc<loops::Program>>,
        level: InstructionSet,
    ) -> Self {
        let (shared, thread) = (plan.workspace(0), plan.workspace(1) - plan.workspace(0));
        let workspace = counted(launch.workspace);
        assert!(workspace >= shared + thread, "dot: the workspace is too small");
        let threads = (workspace - shared).checked_div(thread).unwrap_or(usize::MAX);
        let direct = plan.direct.map(|write| (write, launch.writes[write].layout.offset));
        let epilogue = epilogue.map(|program| Epilogue::new(program, launch, &plan, level));
        let (shared, sections) = (shared / size_of::<f32>(), plan.sections());
        let row_offsets = match &plan.stepped {
            Some(steps) if !plan.packs_right => {
                (0..plan.problem.k).map(|p| SteppedView::offset(&steps.contract, p)).collect()
            }
            _ => Vec::new(),
        };
        let faults = Faults::new();
        let packs = plan.pack_tasks();
        Self { plan, epilogue, direct, threads, shared, sections, packs, row_offsets, level, faults }
    }
}

impl Tasks for Dot {
    fn phases(&self) -> usize {
        self.plan.phases()
    }

    fn count(&self, phase: usize) -> usize {
        match (self.plan.stage(phase), self.plan.elements()) {
            (DotStage::Pack, _) => self.packs.len(),
            // An epilogue has something to do even for no rows: reductions of nothing.
            (DotStage::Multiply, 0) => usize::from(self.epilogue.is_some()),
            (DotStage::Multiply, _) => self.plan.schedule.tasks(),
            (DotStage::Add, _) => self.plan.sum_tasks(),
            (DotStage::Finish, _) => self.epilogue.as_ref().map_or(0, Epilogue::finish_tasks),
        }
    }

    fn cost(&self, phase: usize) -> usize {
        match self.plan.stage(phase) {
            DotStage::Pack => self.plan.pack_cost(),
            DotStage::Multiply => self.plan.task_cost(),
            DotStage::Add | DotStage::Finish => 2_000,
        }
    }

    unsafe fn run_task(&self, call: &Call<'_>, phase: usize, index: usize) {
        match self.plan.stage(phase) {
            DotStage::Pack => self.pack(call, &self.packs[index]),
            DotStage::Multiply => self.multiply(call, index),
            DotStage::Add => self.add_parts(call, index),
            DotStage::Finish => self.epilogue.iter().for_each(|epilogue| epilogue.finish(call, index)),
        }
    }

    fn outcome(&self, _: &Call<'_>, _: usize) -> Result<(), Trap> {
        let can_trap = self.epilogue.as_ref().is_some_and(Epilogue::can_trap);
        if can_trap { self.faults.take() } else { Ok(()) }
    }
}

impl Dot {
    /// Packs a block of an operand for all tasks.
    fn pack(&self, call: &Call<'_>, task: &PackTask) {
        let PackTask { operand, product, ref free, ref depth } = *task;
        let [rows, columns] = [0, 1].map(|i| if i == operand { free.clone() } else { 0..0 });
        let count = if operand == 0 { rows.len() } else { padded(columns.len()) };
        let to = self.shared_operand(call, operand, product, [free.start, depth.start]).block(0, count, 0);
        let task = DotTask { products: product..product + 1, rows, columns, part: 0, depth: depth.clone() };
        // Nothing is multiplied.
        let target = Product { start: std::ptr::null_mut(), row_stride: 0, reused: true };
        let mut finish = |_: Range<usize>, _| {};
        let block = &self.product_block(call, &task, product, target, &mut finish);
        // SAFETY: the level is one of this machine's; the workspace has room for the blocks of all tasks,
        // which are disjoint, and no product is computed before they are packed.
        unsafe { dispatch(self.level, Pack { block, operand, depth: &(0..depth.len()), to }) };
    }

    /// Returns an operand that is packed for all tasks, from a free and a contracted index on.
    fn shared_operand(
        &self,
        call: &Call<'_>,
        operand: usize,
        product: usize,
        [free, depth]: [usize; 2],
    ) -> SharedOperand {
        let start = call.scratch(0).cast::<f32>().wrapping_add(self.plan.packed_start(operand, product));
        SharedOperand { start, extent: self.plan.problem.k, free, depth }
    }

    /// Computes a block of the product, and runs the epilogue on it unless sums were split.
    fn multiply(&self, call: &Call<'_>, index: usize) {
        if self.plan.elements() == 0 {
            return self.epilogue.iter().for_each(|epilogue| epilogue.run_on_nothing(call, &self.faults));
        }
        let task = self.plan.task(index);
        match &self.epilogue {
            Some(epilogue) if self.plan.schedule.parts() == 1 => {
                let (panel, columns) = (self.plan.panel(index), self.columns(&task));
                epilogue.with_panel(call, panel, columns.clone(), &self.faults, |panel| {
                    for product in task.products.clone() {
                        self.block(call, &task, product, |rows, from, stride| {
                            panel.run(rows, columns.clone(), from, stride);
                        });
                    }
                });
            }
            _ => task.products.clone().for_each(|product| self.block(call, &task, product, |_, _, _| {})),
        }
    }

    /// Returns the epilogue's columns of a task.
    fn columns(&self, task: &DotTask) -> Range<usize> {
        if self.plan.transposed { 0..1 } else { task.columns.clone() }
    }

    /// Computes one task's block of one product. `finish` gets rows of the epilogue, the address of their
    /// first element, and the distance between rows.
    fn block(
        &self,
        call: &Call<'_>,
        task: &DotTask,
        product: usize,
        mut finish: impl FnMut(Range<usize>, *const f32, usize),
    ) {
        let (plan, problem) = (&self.plan, &self.plan.problem);
        let first = product * problem.m + task.rows.start;
        let in_place = first * problem.n + task.columns.start;
        let target = match (self.part(call, task.part), plan.schedule.parts()) {
            (Some(start), _) => {
                Product { start: start.wrapping_add(in_place), row_stride: problem.n, reused: false }
            }
            (None, _) => {
                let start = self.scratch(call)[3];
                Product { start, row_stride: plan.product_stride(), reused: !plan.depth_first() }
            }
        };
        let mut finish = |rows: Range<usize>, from| match plan.transposed {
            // The one row is the epilogue's column.
            true => {
                let first = product * problem.n + task.columns.start;
                finish(first..first + task.columns.len(), from, 1);
            }
            false => finish(first + rows.start..first + rows.end, from, target.row_stride),
        };
        let block = self.product_block(call, task, product, target, &mut finish);
        // SAFETY: the level is one of this machine's.
        unsafe { dispatch(self.level, block) };
    }

    /// Returns a task's block of one product.
    fn product_block<'a>(
        &'a self,
        call: &Call<'_>,
        task: &DotTask,
        product: usize,
        target: Product,
        finish: &'a mut dyn FnMut(Range<usize>, *const f32),
    ) -> ProductBlock<'a> {
        let (plan, problem) = (&self.plan, &self.plan.problem);
        let (lhs, rhs) = match plan.transposed {
            false => (0, 1),
            true => (1, 0),
        };
        let (lhs_offset, rhs_offset) = problem.batch_offsets(product);
        let operand = |read, offset| call.read::<f32>(read, offset);
        let left = MatrixOperand::new(operand(lhs, lhs_offset), problem.lhs);
        let right = MatrixOperand::new(operand(rhs, rhs_offset), problem.rhs);
        let stored = (plan.form != Form::F32).then(|| {
            let unit = if matches!(plan.form, Form::Blocks(_)) { 1 } else { size_of::<u16>() };
            let view = problem.rhs;
            let bytes = (rhs_offset + task.columns.start * view.free_stride) * unit
                + StoredOperand::bytes_to(plan.form, task.depth.start, view.contract_stride);
            StoredOperand { start: call.read::<u8>(rhs, bytes), form: plan.form }
        });
        let (free, depth) = ([task.rows.start, task.columns.start], task.depth.start);
        debug_assert!(!plan.shares[0] || free[0].is_multiple_of(plan.row_block()), "blocks start elsewhere");
        let [packed_right, packed_left, panel, _] = self.scratch(call);
        let packed = |operand: usize, own| match plan.shares[operand] {
            true => Packed::Shared(self.shared_operand(call, operand, product, [free[operand], depth])),
            false => Packed::Own(own),
        };
        ProductBlock {
            rows: task.rows.len(),
            columns: task.columns.len(),
            depth: task.depth.len(),
            left: left.from(free[0], depth),
            right: right.from(free[1], depth),
            product: target,
            row_block: plan.row_block(),
            depth_block: plan.depth_block(),
            far: plan.operands_bytes() > NEAR,
            packed_right: plan.packs_right.then(|| packed(1, packed_right)),
            rounding: plan.rounds.then(|| Rounding {
                arithmetic: Arithmetic::of(self.level),
                left: packed(0, packed_left),
                panel,
            }),
            stepped: plan.stepped.as_ref().map(|steps| Stepped {
                start: operand(rhs, rhs_offset),
                steps,
                column: free[1],
                depth,
                row_offsets: self.row_offsets.get(task.depth.clone()),
            }),
            stored,
            finish,
        }
    }

    /// Returns the address of a part of the product, or `None` if the part goes to the thread's scratch.
    fn part(&self, call: &Call<'_>, part: usize) -> Option<*mut f32> {
        match (self.direct, self.plan.schedule.parts()) {
            (Some((write, offset)), _) if part == 0 => Some(call.write(write, offset)),
            (None, 1) => None,
            (direct, _) => {
                let number = part - usize::from(direct.is_some());
                Some(call.scratch(0).cast::<f32>().wrapping_add(number * self.plan.part_stride()))
            }
        }
    }

    /// Returns the sections of this thread's scratch.
    fn scratch(&self, call: &Call<'_>) -> [*mut f32; 4] {
        let worker = current_worker();
        assert!(worker < self.threads, "dot: no scratch for this many threads");
        let thread = self.sections.iter().sum::<usize>();
        let mut start = call.scratch(0).cast::<f32>().wrapping_add(self.shared + worker * thread);
        self.sections.map(|length| {
            let section = start;
            start = start.wrapping_add(length);
            section
        })
    }

    /// Adds up the parts of the sums of some rows, in order; then the epilogue on them.
    fn add_parts(&self, call: &Call<'_>, index: usize) {
        let rows = self.plan.sum_rows(index);
        let (_, columns) = self.plan.positions();
        let count = rows.len() * columns;
        let part =
            |part| self.part(call, part).expect("split sums have a place").wrapping_add(rows.start * columns);
        let sum = part(0);
        for number in 1..self.plan.schedule.parts() {
            // SAFETY: all parts were written in the phase before; ranges of different tasks are disjoint.
            let (sum, part) = unsafe {
                (std::slice::from_raw_parts_mut(sum, count), std::slice::from_raw_parts(part(number), count))
            };
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        if let Some(epilogue) = &self.epilogue {
            epilogue.with_panel(call, 0, 0..0, &self.faults, |panel| {
                panel.run(rows, 0..columns, sum, columns);
            });
        }
    }
}
