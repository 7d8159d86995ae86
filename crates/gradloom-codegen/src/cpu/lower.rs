//! Lowering for the CPU: what its kernels can do, and the scratch that they need.

use super::dot_plan::IN_PLACE_ROWS;
use super::{
    FEW_ROWS, Rows, SortPlan, attention_workspace, cumulate_workspace, dot_workspace, loop_workspace,
};
use crate::lower::{OfProducts, Request, Target, read_stored};
use crate::product::DotProblem;
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion, fuse};
use gradloom_core::ir::{DType, DotAxes, Graph, OpKind};
use gradloom_core::kernel::{Access, Body, Kernel, Level, Lowered, Schedule};

/// Fuses a graph and lowers it for a CPU with this many threads, which decide about scratch, never about
/// results.
///
/// # Errors
/// When a block op is left: passes expand them first.
pub fn lower(graph: &Graph, threads: usize) -> Result<Lowered> {
    Ok(lower_fused(graph, fuse(graph, Fusion::On)?, threads))
}

/// Lowers kernels for a CPU with this many threads.
pub fn lower_fused(graph: &Graph, mut fused: Fused, threads: usize) -> Lowered {
    read_stored(graph, &mut fused, OfProducts::FloatsAndBlocks);
    crate::lower::lower(graph, fused, &Cpu { threads })
}

struct Cpu {
    threads: usize,
}

impl Target for Cpu {
    fn schedule(&self, request: Request<'_>) -> (Schedule, u64) {
        let Request { graph, op, kernel, reads, writes, aliases } = request;
        let workspace = match kernel {
            Kernel::Op(OpKind::Dot(_)) | Kernel::Dot { .. } => {
                dot_workspace(kernel, reads, writes, aliases, self.threads)
            }
            Kernel::Loop(body) => loop_workspace(body),
            Kernel::Op(OpKind::Attention(spec) | OpKind::AttentionGrad(spec)) => {
                attention_workspace(spec, &graph.ops[op], graph, self.threads)
            }
            Kernel::Op(OpKind::Cumulate { .. }) => cumulate_workspace(&reads[0]),
            Kernel::Op(OpKind::Sort { count, .. }) => {
                let rows = Rows::of(&reads[0]);
                SortPlan::new(rows, *count).workspace(rows, *count)
            }
            _ => 0,
        };
        (Schedule::Whole, workspace as u64)
    }

    fn may_replace(&self, kernel: &Kernel, level: Level) -> bool {
        // Several blocks of columns of a product read what a row has.
        matches!(kernel, Kernel::Loop(_)) || level == Level::Element
    }

    fn takes_epilogue(&self, _: &Body) -> bool {
        true
    }

    fn packs_windows(&self) -> bool {
        true
    }

    /// Few rows are done before a transposed operand is packed.
    fn shares_rows(&self, axes: &DotAxes, reads: &[Access]) -> bool {
        DotProblem::new(axes, &reads[0].layout, &reads[1].layout).is_some_and(|problem| {
            let rhs = problem.rhs;
            reads[1].dtype == DType::F32
                && rhs.contract_stride == 1
                && rhs.free_stride != 1
                && problem.k > 1
                && (FEW_ROWS + 1..=IN_PLACE_ROWS).contains(&problem.m)
        })
    }
}
