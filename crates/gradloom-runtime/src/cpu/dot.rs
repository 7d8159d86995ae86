//! Matrix products.
//!
//! In: a launch whose reads are the operands of a `Dot`, in layouts that [`DotProblem::new`] takes. Out: a kernel that runs the tasks
//! of its [`DotSchedule`], each with the single-threaded product of the `gemm` crate.
//! Always holds: the blocks and the order of every sum depend on the problem alone; our code allocates nothing in a run (the `gemm`
//! crate does: buffers for packed operands, for each block).

#[cfg(test)]
mod tests;

use super::{Call, Prepared, Trap};
use gradloom_codegen::cpu::{DotProblem, DotSchedule, DotTask, MatrixView};
use gradloom_core::ir::DotAxes;
use gradloom_core::kernel::Launch;
use std::ops::Range;

/// Up to this many multiplications, plain loops beat the `gemm` crate's set-up of some 200 ns.
const SMALL: usize = 512;

/// Elements of the result that one task adds up when the sums were split.
const SUM_CHUNK: usize = 16 * 1024;

/// A kernel for a `Dot`.
///
/// # Panics
/// When the reads' layouts are not those of a [`DotProblem`], or the workspace is too small: lowering must have seen to both.
pub(super) fn prepare_dot(launch: &Launch, axes: &DotAxes) -> Box<dyn Prepared> {
    let problem =
        DotProblem::new(axes, &launch.reads[0].layout, &launch.reads[1].layout).unwrap_or_else(|| {
            panic!("dot: lowering left operands that must be copied first: {:?}", launch.reads)
        });
    assert!(launch.writes[0].layout.is_contiguous(), "dot: the result must be contiguous");
    assert!(
        launch.workspace >= gradloom_codegen::cpu::dot_workspace(&problem),
        "dot: the workspace is too small"
    );
    let schedule = DotSchedule::new(&problem);
    Box::new(Dot { result: launch.writes[0].layout.offset, problem, schedule })
}

/// A kernel for a product with an epilogue.
pub(super) fn prepare_dot_with_epilogue(
    _launch: &Launch,
    _axes: &DotAxes,
    _epilogue: &gradloom_core::kernel::Body,
) -> Box<dyn Prepared> {
    todo!()
}

struct Dot {
    problem: DotProblem,
    schedule: DotSchedule,
    /// Offset of the result in its buffer.
    result: usize,
}

impl Prepared for Dot {
    fn run(&self, call: &Call<'_>) -> Result<(), Trap> {
        call.pool.run(self.schedule.tasks(), &|index| self.task(call, &self.schedule.task(index)));
        if self.schedule.parts() > 1 {
            let elements = self.elements();
            call.pool.run(elements.div_ceil(SUM_CHUNK), &|index| {
                let start = index * SUM_CHUNK;
                self.add_parts(call, start..(start + SUM_CHUNK).min(elements));
            });
        }
        Ok(())
    }
}

impl Dot {
    fn elements(&self) -> usize {
        self.problem.batch_count() * self.problem.m * self.problem.n
    }

    fn task(&self, call: &Call<'_>, task: &DotTask) {
        let DotProblem { m, n, lhs, rhs, .. } = self.problem;
        let result = match task.part {
            0 => call.write::<f32>(0, self.result),
            part => call.scratch(0).cast::<f32>().wrapping_add((part - 1) * self.elements()),
        };
        for product in task.products.clone() {
            let (lhs_offset, rhs_offset) = self.problem.batch_offsets(product);
            let block = Block {
                m: task.rows.len(),
                n: task.columns.len(),
                k: task.depth.len(),
                lhs: call.read(0, lhs_offset + at(lhs, task.rows.start, task.depth.start)),
                lhs_view: lhs,
                rhs: call.read(1, rhs_offset + at(rhs, task.columns.start, task.depth.start)),
                rhs_view: rhs,
                result: result.wrapping_add((product * m + task.rows.start) * n + task.columns.start),
                row_stride: n,
            };
            // SAFETY: the task's ranges lie within the problem, whose elements the call's buffers hold; tasks of one part have
            // disjoint blocks of the result, and each part has a result of its own.
            unsafe { block.multiply() };
        }
    }

    /// Adds the parts of the sums in `range`, in order.
    fn add_parts(&self, call: &Call<'_>, range: Range<usize>) {
        let elements = self.elements();
        for part in 1..self.schedule.parts() {
            let part = call.scratch(0).cast::<f32>().wrapping_add((part - 1) * elements + range.start);
            // SAFETY: all parts were written by the tasks of the run before; ranges of different tasks are disjoint.
            let (sum, part) = unsafe {
                let sum = call.write::<f32>(0, self.result + range.start);
                (
                    std::slice::from_raw_parts_mut(sum, range.len()),
                    std::slice::from_raw_parts(part, range.len()),
                )
            };
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }
}

fn at(view: MatrixView, free: usize, contract: usize) -> usize {
    free * view.free_stride + contract * view.contract_stride
}

/// One product of matrices, by address.
struct Block {
    m: usize,
    n: usize,
    k: usize,
    lhs: *const f32,
    lhs_view: MatrixView,
    rhs: *const f32,
    rhs_view: MatrixView,
    result: *mut f32,
    /// Distance between rows of the result; its columns are neighbours.
    row_stride: usize,
}

impl Block {
    /// Overwrites the result with the product.
    ///
    /// # Safety
    /// The addresses with their strides must lead to `m·k`, `k·n` and `m·n` elements, and nobody else may touch the result.
    unsafe fn multiply(&self) {
        if self.m * self.n * self.k <= SMALL {
            // SAFETY: as promised by the caller.
            return unsafe { self.multiply_small() };
        }
        let stride = |elements: usize| elements as isize;
        // SAFETY: as promised by the caller. Without `read_dst` the result's old contents are ignored.
        unsafe {
            gemm::gemm(
                self.m,
                self.n,
                self.k,
                self.result,
                1,
                stride(self.row_stride),
                false,
                self.lhs,
                stride(self.lhs_view.contract_stride),
                stride(self.lhs_view.free_stride),
                self.rhs,
                stride(self.rhs_view.free_stride),
                stride(self.rhs_view.contract_stride),
                0.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }

    /// # Safety
    /// As [`Block::multiply`].
    unsafe fn multiply_small(&self) {
        for i in 0..self.m {
            for j in 0..self.n {
                let mut sum = 0.0;
                for p in 0..self.k {
                    // SAFETY: `i < m`, `j < n` and `p < k`.
                    sum += unsafe {
                        *self.lhs.add(at(self.lhs_view, i, p)) * *self.rhs.add(at(self.rhs_view, j, p))
                    };
                }
                // SAFETY: as above.
                unsafe { *self.result.add(i * self.row_stride + j) = sum };
            }
        }
    }
}
