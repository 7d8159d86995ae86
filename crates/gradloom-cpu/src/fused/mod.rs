//! Fused loops, each of which evaluates a [`Body`] on operands in any strided layouts.
//!
//! In: a body, and a launch with its operands. Out: a [`Program`] from the compiler
//! ([`gradloom_codegen::cpu::loops`]) with its loops and machine code, and a kernel that runs it on all of
//! the body's positions. A program can also run on any rectangle of positions, as in the epilogue of a matrix
//! product. Invariant: tasks are divided by shape alone, and every instruction set computes the same bits.

mod execute;
mod faults;
mod finish;
mod lines;
mod native;
mod pick;
mod prefetch;
mod program;
mod reductions;
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "wasm32")), path = "no_segment.rs")]
mod segment;
mod task;
#[cfg(test)]
mod tests;

use super::InstructionSet;
use super::kernel::{Call, Prepared, Tasks, Trap};
pub(crate) use execute::{Rectangle, Task};
pub(crate) use faults::Faults;
use gradloom_codegen::cpu::{LoopSchedule, loop_workspace, loops};
use gradloom_core::kernel::{Body, Launch};
pub(crate) use program::Program;
use std::sync::Arc;

/// Returns a kernel for a `Loop` launch.
///
/// # Panics
/// Panics if the launch has less scratch than [`loop_workspace`] requires.
pub(super) fn prepare_loop(
    launch: &Launch,
    body: &Body,
    program: &Arc<loops::Program>,
    level: InstructionSet,
) -> Box<dyn Prepared> {
    assert!(launch.workspace >= loop_workspace(body) as u64, "a fused loop: the workspace is too small");
    let program = Program::new(Arc::clone(program), launch, level);
    Box::new(Loop { program, schedule: LoopSchedule::new(body), faults: Faults::new() })
}

struct Loop {
    program: Program,
    schedule: LoopSchedule,
    /// Faults of the run in progress.
    faults: Faults,
}

impl Loop {
    /// Runs a task on its rectangle.
    ///
    /// # Safety
    /// `call` must meet the requirements documented on [`Call`] for the launch that this kernel was prepared
    /// from. Per call, each task must run at most once.
    unsafe fn run_rectangle(&self, call: &Call<'_>, task: &mut Task<'_>, index: usize) {
        let (panel, rows, columns) = self.schedule.task(index);
        let partials = call.scratch(panel * self.program.partials);
        // SAFETY: rectangles are disjoint, and those of the same panel have disjoint columns.
        unsafe {
            self.program.start_partials(partials, columns.clone());
            self.program.run_block(task, Rectangle { rows, columns, accumulator: None, partials });
        }
    }
}

impl Tasks for Loop {
    fn phases(&self) -> usize {
        2
    }

    fn count(&self, phase: usize) -> usize {
        if phase == 0 { self.schedule.tasks() } else { self.program.finish_tasks() }
    }

    fn cost(&self, phase: usize) -> usize {
        if phase == 0 { self.schedule.cost() } else { self.program.finish_cost(self.schedule.row_pieces()) }
    }

    unsafe fn run_task(&self, call: &Call<'_>, phase: usize, index: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if phase == 0 {
                let run = |task: &mut Task<'_>| self.run_rectangle(call, task, index);
                self.program.with_task(call.reads, call.writes, &self.faults, run);
            } else {
                self.program.finish(call.writes, call.scratch(0), self.schedule.row_pieces(), index);
            }
        }
    }

    fn outcome(&self, _: &Call<'_>, phase: usize) -> Result<(), Trap> {
        if phase == 0 && self.program.can_trap() { self.faults.take() } else { Ok(()) }
    }
}
