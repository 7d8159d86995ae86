//! Lowering for WGSL: what its kernels can do, and the scratch that they need.

use super::attention::grad_workspace;
use super::reduce::as_body;
use super::rows::{reduces_columns, row_workspace};
use super::scatter::scatter_workspace;
use super::{Choices, Limits};
use crate::lower::Target;
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion, fuse};
use gradloom_core::ir::{Graph, OpId, OpKind};
use gradloom_core::kernel::{Access, Body, Kernel, Launch, Level, Lowered, Part, Phase, Store};

/// Fuses a graph and lowers it for an adapter with these limits; `choices` say how its products are computed.
///
/// # Errors
/// When a block op is left: passes expand them first.
pub fn lower(graph: &Graph, limits: &Limits, choices: &Choices) -> Result<Lowered> {
    Ok(lower_fused(graph, fuse(graph, Fusion::On)?, limits, choices))
}

/// Lowers kernels for an adapter with these limits; `choices` say how products are computed.
pub fn lower_fused(graph: &Graph, fused: Fused, limits: &Limits, choices: &Choices) -> Lowered {
    crate::lower::lower(graph, fused, &Wgsl { limits, choices })
}

struct Wgsl<'l> {
    limits: &'l Limits,
    choices: &'l Choices,
}

impl Target for Wgsl<'_> {
    fn workspace(
        &self,
        _: &Graph,
        op: OpId,
        kernel: &Kernel,
        reads: &[Access],
        writes: &[Access],
        _: &[(usize, usize)],
    ) -> usize {
        match kernel {
            Kernel::Op(OpKind::AttentionGrad(spec)) => grad_workspace(spec, reads),
            Kernel::Op(OpKind::ScatterAdd { batch }) => scatter_workspace(reads, *batch),
            Kernel::Op(OpKind::Reduce { op: reduce, axes }) => {
                let (reads, writes, kernel) = (reads.to_vec(), writes.to_vec(), Kernel::Copy);
                let (may_alias, phase) = (Vec::new(), Phase::Compute);
                let launch = Launch { op, kernel, reads, writes, may_alias, workspace: 0, phase };
                match as_body(*reduce, axes, &launch).kernel {
                    Kernel::Loop(body) => row_workspace(&body, self.limits),
                    _ => unreachable!("it is a body"),
                }
            }
            Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. } => {
                super::product::workspace(axes, reads, self.limits, self.choices)
            }
            Kernel::Loop(body) if reduces_columns(body) => row_workspace(body, self.limits),
            _ => 0,
        }
    }

    fn group_workspace(&self, parts: &[Part], reads: &[Access], writes: &[Access]) -> usize {
        super::group::workspace(parts, reads, writes)
    }

    fn may_replace(&self, _: &Kernel, level: Level) -> bool {
        // Other invocations read what a row has.
        level == Level::Element
    }

    fn takes_epilogue(&self, epilogue: &Body) -> bool {
        let by_position = |store: &Store| matches!(store, Store::Whole { level: Level::Element, .. });
        epilogue.stores.iter().all(by_position)
    }
}
