//! Lowering for the CPU: the scratch of its kernels, and the operands that they would rather have.

use super::dot_plan::IN_PLACE_ROWS;
use super::{
    FEW_ROWS, Rows, SortPlan, attention_workspace, cumulate_workspace, dot_workspace, loop_workspace,
};
use crate::lower::{Request, Sharing};
use crate::pipeline::Target;
use crate::product::DotProblem;
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion, fuse};
use gradloom_core::ir::{DType, DotAxes, Graph, OpKind};
use gradloom_core::kernel::{Access, Kernel, Lowered, Part, Schedule};

/// Fuses a graph and lowers it for a CPU with this many threads, which decide about scratch, never about
/// results.
///
/// # Errors
/// When a block op is left: passes expand them first.
pub fn lower(graph: &Graph, threads: usize) -> Result<Lowered> {
    Ok(lower_fused(graph, fuse(graph, Fusion::On)?, threads))
}

/// Lowers kernels for a CPU with this many threads.
pub fn lower_fused(graph: &Graph, fused: Fused, threads: usize) -> Lowered {
    Target::cpu(threads).lower(graph, fused)
}

/// Kernels whose tasks the runtime makes of their shapes.
pub(crate) struct Tasks;

impl Sharing for Tasks {
    fn one(&self, request: &Request<'_>, target: &Target) -> (Schedule, u64) {
        (Schedule::Whole, workspace(request, target.threads))
    }

    fn group(&self, _: &[Part], _: &[Access], _: &[Access], bytes: u64, _: &Target) -> (Schedule, u64) {
        (Schedule::Whole, bytes)
    }

    fn has_whole_rows(&self) -> bool {
        true
    }
}

/// Returns the bytes of scratch that a kernel needs while it runs.
fn workspace(request: &Request<'_>, threads: usize) -> u64 {
    let Request { graph, op, kernel, reads, writes, aliases } = *request;
    let workspace = match kernel {
        Kernel::Op(OpKind::Dot(_)) | Kernel::Dot { .. } => {
            dot_workspace(kernel, reads, writes, aliases, threads)
        }
        Kernel::Loop(body) => loop_workspace(body),
        Kernel::Op(OpKind::Attention(spec) | OpKind::AttentionGrad(spec)) => {
            attention_workspace(spec, &graph.ops[op], graph, threads)
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

/// Returns whether products like this one would rather share a copy of their right operand whose rows, for
/// each contracted index, are contiguous. Few rows are done before a transposed operand is packed.
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
