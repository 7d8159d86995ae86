//! Fuses ops into few kernels, for no target in particular.
//!
//! In: a graph after the passes. Out: [`Fused`]: a [`KernelSpec`] for each kernel, in an order in which they
//! can run, over values in memory. Always holds: each kernel reads leaves and what earlier kernels wrote;
//! views are not kernels but layouts of operands.
//!
//! The way there:
//!
//! 1. `facts`: what each op is to fusion (a map, a reduction along rows or over rows, a product, opaque), and
//!    how operands line up with the values behind their views.
//! 2. `merge`: ops are put into clusters by general rules; nothing knows a layer normalisation or a softmax
//!    by name.
//! 3. `stored`: which values reach memory. What is cheap to compute again from what is stored anyway is
//!    computed again.
//! 4. `emit`: a cluster becomes a [`Body`](crate::kernel::Body), alone or as the epilogue of a product.
//! 5. `group`: independent kernels (the updates of all parameters, the squares of all gradients) become one
//!    launch.

mod clusters;
mod cut;
mod domain;
mod emit;
mod facts;
mod group;
mod link;
mod merge;
mod print;
mod stored;

use crate::error::{Error, ErrorKind, Result};
use crate::ir::{DType, Graph, Op, OpId, OpKind, ValueId};
use crate::kernel::{Access, Kernel, Lowered};
pub use clusters::MOST_OPS;
use facts::Facts;
pub use group::as_one;

/// A kernel with its operands and results.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSpec {
    /// The op that it is named after, for messages and profiles.
    pub op: OpId,
    /// The computation.
    pub kernel: Kernel,
    /// The operands.
    pub reads: Vec<Access>,
    /// The results.
    pub writes: Vec<Access>,
    /// True if only updates need it.
    pub commit: bool,
    /// True if it depends on constants alone, so that it can run once, when the program is loaded.
    pub once: bool,
}

/// A graph as kernels.
#[derive(Clone, Debug)]
pub struct Fused {
    /// Kernels in an order in which they can run.
    pub kernels: Vec<KernelSpec>,
    /// The buffers and layouts of values; it has no launches yet.
    pub memory: Lowered,
}

/// Mode of fusion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fusion {
    /// Merges ops into as few kernels as the rules find.
    #[default]
    On,
    /// The same for devices whose products cannot sum over their rows: such a sum rather joins a loop that
    /// reads what the product computes. Lowering says which products run together.
    SumsApart,
    /// A kernel for each op, to compare with.
    Off,
}

/// Puts the ops of a graph into kernels.
///
/// # Errors
/// When a block op is left: passes expand them first.
pub fn fuse(graph: &Graph, fusion: Fusion) -> Result<Fused> {
    if let Some((_, op)) = graph.entry_ops().find(|(_, op)| op.kind.block().is_some()) {
        let message = format!("{} was not expanded before fusion", op.kind.name());
        return Err(Error::new(ErrorKind::Internal, message));
    }
    // They are seen as words.
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

/// Returns the values that something outside of the kernels reads.
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
    /// Returns whether running the kernel can fail on the values of its operands.
    pub fn can_trap(&self, graph: &Graph) -> bool {
        self.kernel.can_trap(graph, self.op)
    }
}

impl Kernel {
    /// Returns whether running the kernel, on behalf of `op`, can fail on the values of its operands.
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
            // Starts of windows are checked before the commit.
            Kernel::Copy | Kernel::WriteRegion => false,
        }
    }
}
