//! Lowering for WGSL: what its kernels can do, and the scratch that they need.

use super::Limits;
use super::rows::{reduces_columns, row_workspace};
use crate::lower::Target;
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion, fuse};
use gradloom_core::ir::{Graph, OpId};
use gradloom_core::kernel::{Access, Body, Kernel, Level, Lowered, Store};

/// Fuses a graph and lowers it for an adapter with these limits.
///
/// # Errors
/// When a block op is left: passes expand them first.
pub fn lower(graph: &Graph, limits: &Limits) -> Result<Lowered> {
    Ok(lower_fused(graph, fuse(graph, Fusion::On)?, limits))
}

/// Lowers kernels for an adapter with these limits.
pub fn lower_fused(graph: &Graph, fused: Fused, limits: &Limits) -> Lowered {
    crate::lower::lower(graph, fused, &Wgsl { limits })
}

struct Wgsl<'l> {
    limits: &'l Limits,
}

impl Target for Wgsl<'_> {
    fn workspace(
        &self,
        _: &Graph,
        _: OpId,
        kernel: &Kernel,
        _: &[Access],
        _: &[Access],
        _: &[(usize, usize)],
    ) -> usize {
        match kernel {
            Kernel::Loop(body) if reduces_columns(body) => row_workspace(body, self.limits),
            _ => 0,
        }
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
