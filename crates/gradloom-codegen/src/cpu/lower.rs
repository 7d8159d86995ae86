//! Lowering for the CPU: the scratch of its kernels, and the operand layouts that make them faster.

use super::dot_plan::IN_PLACE_ROWS;
use super::{
    FEW_ROWS, Rows, SortPlan, attention_workspace, cumulate_workspace, dot_workspace, loop_workspace,
};
use crate::lower::{Request, Sharing};
use crate::pipeline::Target;
use crate::product::DotProblem;
use gradloom_core::ir::{DType, DotAxes, OpKind};
use gradloom_core::kernel::{Access, Kernel, Part, Schedule};

/// Division of kernels on the CPU: the runtime derives their tasks from shapes.
pub(crate) struct Tasks;

impl Sharing for Tasks {
    fn one(&self, request: &Request<'_>, target: &Target) -> (Schedule, u64) {
        let has_products = matches!(
            request.kernel,
            Kernel::Dot { .. } | Kernel::Op(OpKind::Dot(_) | OpKind::Attention(_) | OpKind::AttentionGrad(_))
        );
        let schedule = match target.half().filter(|_| has_products) {
            Some(dtype) => Schedule::Rounded(dtype),
            None => Schedule::Whole,
        };
        let workspace = workspace(request, schedule.operands(), target.threads);
        (schedule, workspace)
    }

    fn group(&self, _: &[Part], _: &[Access], _: &[Access], bytes: u64, _: &Target) -> (Schedule, u64) {
        (Schedule::Whole, bytes)
    }

    fn has_whole_rows(&self) -> bool {
        true
    }
}

/// Returns the number of bytes of scratch that a kernel needs while it runs. `operands` is the type that the
/// operands of its products are rounded to.
fn workspace(request: &Request<'_>, operands: DType, threads: usize) -> u64 {
    let Request { graph, op, kernel, reads, writes, aliases } = *request;
    let workspace = match kernel {
        Kernel::Op(OpKind::Dot(_)) | Kernel::Dot { .. } => {
            dot_workspace(kernel, reads, writes, aliases, operands, threads)
        }
        Kernel::Loop(body) => loop_workspace(body),
        Kernel::Op(OpKind::Attention(spec) | OpKind::AttentionGrad(spec)) => {
            attention_workspace(spec, &graph.ops[op], graph, operands, threads)
        }
        Kernel::Op(OpKind::Cumulate { .. }) => cumulate_workspace(&reads[0]),
        Kernel::Op(OpKind::Sort { count, .. }) => {
            let rows = Rows::of(&reads[0]);
            SortPlan::new(rows, *count).workspace(rows, *count)
        }
        _ => 0,
    };
    workspace as u64
}

/// Returns `true` if a product is faster with a copy of its right operand whose rows, one for each contracted
/// index, are contiguous, provided that several products share the copy. A product of few rows is not,
/// because it takes less time than packing a transposed operand.
pub(crate) fn shares_rows(axes: &DotAxes, reads: &[Access]) -> bool {
    DotProblem::new(axes, &reads[0].layout, &reads[1].layout).is_some_and(|problem| {
        let rhs = problem.rhs;
        reads[1].dtype == DType::F32
            && rhs.contract_stride == 1
            && rhs.free_stride != 1
            && problem.k > 1
            && (FEW_ROWS + 1..=IN_PLACE_ROWS).contains(&problem.m)
    })
}
