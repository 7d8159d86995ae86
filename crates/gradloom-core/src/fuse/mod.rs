//! Fuses ops into a small number of target-independent kernels.
//!
//! Converts a graph after the passes to [`Fused`]: one [`KernelSpec`] per kernel, in a valid execution order,
//! over values in memory. Each kernel reads only leaves and results of earlier kernels. Views are not kernels
//! but layouts of operands.
//!
//! The steps are:
//!
//! 1. `facts`: determines the role of each op (a map, a reduction along or over rows, a product, opaque), and
//!    how operands relate to the source values of their views.
//! 2. `merge`: merges ops into clusters by general rules, without special cases such as layer normalization
//!    or softmax.
//! 3. `stored`: determines which values are written to memory. Values that are cheap to compute from stored
//!    values are recomputed.
//! 4. `emit`: converts each cluster to a [`Body`](crate::kernel::Body), alone or as the epilogue of a
//!    product.
//! 5. `group`: combines independent kernels, such as the updates of all parameters or the squares of all
//!    gradients, into one launch.

mod clusters;
mod cut;
mod domain;
mod emit;
mod facts;
mod group;
mod link;
mod merge;
mod print;
mod single;
mod stored;

use crate::error::{Error, ErrorKind, Result};
use crate::ir::{DType, Graph, Op, OpId, OpKind, ValueId};
use crate::kernel::{Access, Kernel, Lowered};
pub use clusters::MOST_OPS;
use facts::Facts;
pub use group::as_one;
pub use single::single;

/// A kernel with its operands and results.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSpec {
    /// Op after which the kernel is named in messages and profiles.
    pub op: OpId,
    /// The computation of the kernel.
    pub kernel: Kernel,
    /// Operands of the kernel.
    pub reads: Vec<Access>,
    /// Results of the kernel.
    pub writes: Vec<Access>,
    /// True if only updates need the kernel.
    pub commit: bool,
    /// True if the kernel depends only on constants, so that it can run once, when the program is loaded.
    pub once: bool,
}

/// A graph converted to kernels.
#[derive(Clone, Debug)]
pub struct Fused {
    /// Kernels in a valid execution order.
    pub kernels: Vec<KernelSpec>,
    /// Buffers and layouts of values, without launches.
    pub memory: Lowered,
}

/// The mode of fusion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fusion {
    /// Merges ops into as few kernels as the rules allow.
    #[default]
    On,
    /// Like `On`, but prefers to merge sums over rows with loops that read the same product. Suits devices
    /// whose products cannot sum over their rows. Lowering groups the products.
    SumsApart,
    /// Creates a kernel for each op, for comparison.
    Off,
}

/// Converts the ops of a graph to kernels.
///
/// # Errors
/// Returns an error if the graph contains block ops or computations on i64, which passes must expand first.
pub fn fuse(graph: &Graph, fusion: Fusion) -> Result<Fused> {
    if let Some((_, op)) = graph.entry_ops().find(|(_, op)| op.kind.block().is_some()) {
        let message = format!("{} was not expanded before fusion", op.kind.name());
        return Err(Error::new(ErrorKind::Internal, message));
    }
    // Kernels access i64 values as words, so only leaves, `Words` and barriers may have i64 operands or
    // results.
    let has_i64 =
        |op: &Op| op.operands.iter().chain(&op.results).any(|&value| graph.ty(value).dtype == DType::I64);
    let stays = |kind: &OpKind| kind.is_external_leaf() || matches!(kind, OpKind::Words | OpKind::Barrier);
    if let Some((_, op)) = graph.entry_ops().find(|(_, op)| has_i64(op) && !stays(&op.kind)) {
        let message = format!("{} of i64 was not expanded before fusion", op.kind.name());
        return Err(Error::new(ErrorKind::Internal, message));
    }
    let mut memory = Lowered::leaves(graph);
    let facts = Facts::new(graph, &memory, fusion != Fusion::Off);
    let mut clusters = clusters::Clusters::new(&facts);
    if fusion != Fusion::Off {
        merge::merge(&mut clusters, fusion);
    }
    let stored = stored::decide(&clusters);
    let mut kernels = emit::emit(&clusters, &stored, &mut memory);
    if fusion != Fusion::Off {
        let watched = watched(graph).into_iter().map(|value| facts.source(value).value).collect();
        let targets = graph.updates.iter().map(|u| (facts.source(u.value).value, u.target)).collect();
        kernels = group::group(&watched, &targets, kernels, fusion);
    }
    for value in watched(graph) {
        let found = emit::access(facts.source(value), &memory);
        memory.access.get_or_insert_with(value, || found);
    }
    Ok(Fused { kernels, memory })
}

/// Returns the values that are read outside the kernels.
pub fn watched(graph: &Graph) -> Vec<ValueId> {
    let mut values: Vec<ValueId> = graph.outputs.iter().map(|o| o.value).collect();
    values.extend(graph.guards.iter().map(|g| g.value));
    for update in &graph.updates {
        values.extend([update.target, update.value]);
        values.extend(update.region.iter().flatten());
    }
    values
}

impl KernelSpec {
    /// Returns `true` if the kernel can fail depending on the elements of its operands.
    pub fn can_trap(&self, graph: &Graph) -> bool {
        self.kernel.can_trap(graph, self.op)
    }
}

impl Kernel {
    /// Returns `true` if the kernel, launched for `op`, can fail depending on the elements of its operands.
    pub fn can_trap(&self, graph: &Graph, op: OpId) -> bool {
        match self {
            Kernel::Op(kind) => {
                graph.can_trap(&crate::ir::Op { kind: kind.clone(), ..graph.ops[op].clone() })
            }
            Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } => body.can_trap(),
            Kernel::Attention { spec, epilogue } => {
                Kernel::Op(OpKind::Attention(*spec)).can_trap(graph, op) || epilogue.can_trap()
            }
            Kernel::Group(parts) => parts.iter().any(|part| part.kernel.can_trap(graph, op)),
            // The starts of windows are checked before the commit, so these kernels cannot fail.
            Kernel::Copy | Kernel::WriteRegion => false,
        }
    }
}
