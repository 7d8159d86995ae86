//! Choice of schedules, which divide the work of launches on a GPU.
//!
//! In: the computation of a launch, and the limits of the device. Out: a [`Schedule`]. This module also
//! defines the exceptions for devices that compute on a CPU.

pub mod attention;
pub mod group;
mod order;
pub(crate) mod precision;
pub mod product;
mod rows;
mod scatter;
pub mod tuning;

pub(crate) use rows::rows;
pub(crate) use scatter::scatter;

use tuning::Choices;

use crate::limits::Limits;
use crate::lower::{Request, Sharing};
use crate::pipeline::Target;
use crate::product::problem_of;
use crate::schedule::precision::Precision;
use crate::simt::custom;
use crate::simt::kernels::WORKGROUP;
use gradloom_core::ir::{DType, OpKind};
use gradloom_core::kernel::{Access, Kernel, Part, RowSchedule, Schedule};

/// Division of the work of kernels among workgroups.
pub(crate) struct Workgroups;

impl Sharing for Workgroups {
    fn one(&self, request: &Request<'_>, target: &Target) -> (Schedule, u64) {
        let Request { graph, kernel, reads, writes, .. } = *request;
        let schedule = match kernel {
            Kernel::Op(OpKind::Custom(_)) => {
                Schedule::Custom(custom::scratch(kernel, graph, reads, writes, &target.limits))
            }
            _ => schedule(kernel, reads, writes, &target.limits, &target.choices),
        };
        let workspace = schedule.workspace(kernel);
        (schedule, workspace)
    }

    fn group(
        &self,
        parts: &[Part],
        reads: &[Access],
        writes: &[Access],
        bytes: u64,
        target: &Target,
    ) -> (Schedule, u64) {
        let mut schedule = group::schedule(&target.limits);
        schedule.workspace = group::workspace(parts, reads, writes, &schedule);
        (Schedule::Group(schedule), bytes.max(schedule.workspace))
    }

    /// Returns `false`, because several invocations read the elements of a row.
    fn has_whole_rows(&self) -> bool {
        false
    }
}

/// Minimum extent of an axis that a whole workgroup processes together.
const LONG_AXIS: usize = 128;

/// Returns the schedule of a kernel.
pub fn schedule(
    kernel: &Kernel,
    reads: &[Access],
    writes: &[Access],
    limits: &Limits,
    choices: &Choices,
) -> Schedule {
    let choose = |kernel, problem: &_| choices.attention(kernel, problem, limits);
    // The defaults have no effect, as nothing is rounded without matrix instructions.
    let half = limits.attention_operands(choices.precision()).unwrap_or(DType::F16);
    let operands = limits.operands(choices.precision()).unwrap_or(DType::F16);
    if let Kernel::Attention { spec, .. } = kernel {
        let schedule = attention::schedule(&OpKind::Attention(*spec), reads, half, limits, choose);
        return Schedule::Attention(schedule.expect("it is attention"));
    }
    if let Kernel::Op(op) = kernel
        && let Some(schedule) = attention::schedule(op, reads, half, limits, choose)
    {
        return Schedule::Attention(schedule);
    }
    match kernel {
        Kernel::Loop(body) if group::is_short(body, reads, writes) => {
            Schedule::Group(group::schedule(limits))
        }
        Kernel::Op(OpKind::Dot(_)) | Kernel::Dot { .. } => {
            let problem = problem_of(kernel, reads).expect("it is a product");
            let choice = choices.product(&problem, limits);
            let mut schedule = product::schedule(&problem, choice, operands, limits);
            schedule.splits = choices.precision() == Precision::Tf32x3;
            Schedule::Product(schedule)
        }
        Kernel::Loop(body) if body.has_row_reductions() || body.has_column_reductions() => {
            let schedule = rows(body, limits);
            Schedule::Rows(RowSchedule { kept: rows::kept(body, &schedule, reads, limits), ..schedule })
        }
        Kernel::Op(OpKind::ArgReduce { axis, .. })
            if reads[0].layout.shape[*axis] >= LONG_AXIS && !limits.software =>
        {
            Schedule::Axes(if limits.branches { limits.invocations } else { WORKGROUP })
        }
        Kernel::Op(OpKind::Scatter { op, batch }) => Schedule::Scatter(scatter(*op, reads, *batch, limits)),
        Kernel::Op(OpKind::Cumulate { .. }) => order::cumulate(&reads[0], limits),
        Kernel::Op(OpKind::Sort { count, .. }) => Schedule::Sort(order::sort(&reads[0], *count)),
        Kernel::Group(_) => Schedule::Group(group::schedule(limits)),
        _ => Schedule::Whole,
    }
}
