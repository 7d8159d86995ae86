//! Runs the epilogue of a product on blocks of the product.
//!
//! In: rectangles of the product. Out: the launch's results. Invariant: partial results of a panel of rows
//! (sums over columns) are those of the plan's panels, and are combined in panel order.

use crate::fused::{Faults, Program, Rectangle, Task};
use crate::{Call, InstructionSet};
use gradloom_codegen::cpu::{DotPlan, loops};
use gradloom_core::kernel::Launch;
use std::ops::Range;
use std::sync::Arc;

pub(super) struct Epilogue {
    program: Program,
    rows: usize,
    columns: usize,
    panels: usize,
    /// Offset in bytes of the partial results in the workspace.
    partials: usize,
    /// Size in bytes of the partial results of one panel.
    partials_stride: usize,
}

/// A panel of rows that is being processed.
pub(super) struct Panel<'a, 'b> {
    epilogue: &'a Epilogue,
    task: &'a mut Task<'b>,
    partials: *mut u8,
}

impl Panel<'_, '_> {
    /// Runs the epilogue on a rectangle of the product, which starts at `product`.
    pub(super) fn run(
        &mut self,
        rows: Range<usize>,
        columns: Range<usize>,
        product: *const f32,
        row_stride: usize,
    ) {
        let block =
            Rectangle { rows, columns, accumulator: Some((product, row_stride)), partials: self.partials };
        // SAFETY: blocks of a launch are disjoint, and blocks of a panel that run concurrently have disjoint
        // columns.
        unsafe { self.epilogue.program.run_block(self.task, block) };
    }
}

impl Epilogue {
    pub(super) fn new(
        program: &Arc<loops::Program>,
        launch: &Launch,
        plan: &DotPlan,
        level: InstructionSet,
    ) -> Self {
        let (rows, columns) = plan.positions();
        Self {
            program: Program::new(Arc::clone(program), launch, level),
            rows,
            columns,
            panels: plan.panels(),
            partials: plan.parts_bytes(),
            partials_stride: plan.partials,
        }
    }

    pub(super) fn can_trap(&self) -> bool {
        self.program.can_trap()
    }

    /// Calls `run` with a panel, after initializing its partial results for these columns.
    pub(super) fn with_panel(
        &self,
        call: &Call<'_>,
        panel: usize,
        columns: Range<usize>,
        faults: &Faults,
        run: impl FnOnce(&mut Panel<'_, '_>),
    ) {
        let partials = call.scratch(self.partials + panel * self.partials_stride);
        // SAFETY: the addresses are those of the launch; one task initializes the columns of each panel,
        // before its blocks run.
        unsafe {
            self.program.start_partials(partials, columns);
            self.program.with_task(call.reads, call.writes, faults, |task| {
                run(&mut Panel { epilogue: self, task, partials });
            });
        }
    }

    /// Runs the epilogue of an empty product, in which reductions and rows without columns still have
    /// results.
    pub(super) fn run_on_nothing(&self, call: &Call<'_>, faults: &Faults) {
        self.with_panel(call, 0, 0..self.columns, faults, |panel| {
            panel.run(0..self.rows, 0..self.columns, std::ptr::dangling(), self.columns);
        });
    }

    /// Returns the number of tasks of [`Epilogue::finish`].
    pub(super) fn finish_tasks(&self) -> usize {
        self.program.finish_tasks()
    }

    /// Runs one of the tasks that combine the panels' partial results, after all blocks have run.
    pub(super) fn finish(&self, call: &Call<'_>, index: usize) {
        let partials = call.scratch(self.partials);
        // SAFETY: the addresses are those of the launch; all panels have been initialized and processed.
        unsafe { self.program.finish(call.writes, partials, self.panels, index) };
    }
}
