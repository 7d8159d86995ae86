//! Lowering of fused kernels to launches: a list of passes for each kind of target.
//!
//! In: a fused graph without block ops, and a [`Target`]. Out: [`Lowered`]. Each pass is a function over all
//! kernels, in a separate file. The lists below contain the passes of each target, in order. Passes that only
//! one kind of device needs are missing from the other lists. Invariant: an operand is copied only if its
//! kernel cannot index through it (a matrix operand without single strides, or an operand of a custom op that
//! runs on the host), or if products share a copy that is faster to read.

mod apart;
mod bias;
mod followed;
mod joined;
mod launches;
mod library;
mod narrow;
mod operands;
mod pad;
mod parts;
mod products;
mod rounding;
mod scatters;
mod stored;
mod streamed;

use crate::pipeline::Target;
use gradloom_core::fuse::{Fused, Fusion, KernelSpec};
use gradloom_core::ir::{Graph, ValueId};
use gradloom_core::kernel::{Access, Kernel, Launch, LibrarySchedule, Lowered};
pub(crate) use launches::{Request, Sharing};
use library::Padded;
pub(crate) use library::library_support;
use std::ops::{Deref, DerefMut};

/// Fusion of ops into kernels for GPUs.
pub(crate) const GPU_FUSION: Fusion = Fusion::SumsApart;

/// A pass of the lowering.
pub(crate) type Pass = fn(&mut Lowering<'_>);

/// Passes for CPUs.
pub(crate) const CPU: &[Pass] = &[stored::floats_and_blocks, operands::with_shared_rows, launches::on_cpu];

/// Passes for GPUs through WebGPU.
pub(crate) const WGSL: &[Pass] = &[
    stored::of_attention,
    rounding::at_scatters,
    narrow::narrow,
    apart::ungroup,
    apart::split,
    parts::cut,
    operands::copied,
    launches::on_gpu,
    products::together,
];

/// Passes for NVIDIA GPUs.
pub(crate) const CUDA: &[Pass] = &[
    stored::floats,
    rounding::at_scatters,
    scatters::together,
    narrow::narrow,
    pad::rows,
    followed::follow,
    apart::ungroup,
    streamed::in_parts,
    library::apart,
    apart::split,
    parts::cut,
    library::take,
    operands::copied,
    launches::on_gpu,
    products::together,
];

/// Lowers kernels. With `cuts_products`, long sums of products may be cut into parts that a later kernel adds
/// up.
pub(crate) fn lower(graph: &Graph, fused: Fused, target: &Target, cuts_products: bool) -> Lowered {
    let kernels = fused.kernels.into_iter().map(Draft::from).collect();
    let (memory, padded, launches) = (fused.memory, Vec::new(), Vec::new());
    let mut lowering = Lowering { graph, target, cuts_products, kernels, memory, padded, launches };
    target.passes().iter().for_each(|pass| pass(&mut lowering));
    let Lowering { launches, mut memory, .. } = lowering;
    memory.launches = launches.into_iter().map(|(launch, _)| launch).collect();
    memory
}

/// The kernels of a program during lowering.
pub(crate) struct Lowering<'l> {
    graph: &'l Graph,
    target: &'l Target,
    cuts_products: bool,
    /// Kernels in execution order; empty once they have become launches.
    kernels: Vec<Draft>,
    /// Buffers and layouts of values.
    memory: Lowered,
    /// Buffers with padding.
    padded: Vec<Padded>,
    /// Launches, each with its section of the program.
    launches: Vec<(Launch, Section)>,
}

/// Section of a program that a kernel belongs to. The first element is true if only updates need the kernel,
/// the second if the kernel runs once, when the program is loaded.
type Section = (bool, bool);

/// A kernel during lowering.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    spec: KernelSpec,
    /// True if the next kernel reads this kernel's sums, which must therefore not be left in parts.
    is_read_next: bool,
    /// Schedule of the vendor library, if the library computes the kernel.
    library: Option<LibrarySchedule>,
}

impl From<KernelSpec> for Draft {
    fn from(spec: KernelSpec) -> Self {
        Self { spec, is_read_next: false, library: None }
    }
}

impl Deref for Draft {
    type Target = KernelSpec;

    fn deref(&self) -> &KernelSpec {
        &self.spec
    }
}

impl DerefMut for Draft {
    fn deref_mut(&mut self) -> &mut KernelSpec {
        &mut self.spec
    }
}

impl Draft {
    /// Creates another kernel of the same op and section.
    fn beside(&self, kernel: Kernel, reads: Vec<Access>, writes: Vec<Access>) -> Self {
        let KernelSpec { op, commit, once, .. } = self.spec;
        KernelSpec { op, kernel, reads, writes, commit, once }.into()
    }
}

impl Lowering<'_> {
    /// Replaces each kernel by those that `f` appends to the list.
    fn replace(&mut self, mut f: impl FnMut(&mut Self, Draft, &mut Vec<Draft>)) {
        let kernels = std::mem::take(&mut self.kernels);
        let mut replaced = Vec::with_capacity(kernels.len());
        for kernel in kernels {
            f(self, kernel, &mut replaced);
        }
        self.kernels = replaced;
    }

    /// Returns the buffers that outputs, guards and updates read.
    fn watched(&self) -> Vec<ValueId> {
        let watched = gradloom_core::fuse::watched(self.graph);
        watched.iter().filter_map(|value| Some(self.memory.access.get(value)?.buffer)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::fn_addr_eq;

    #[test]
    fn passes_of_both_gpu_dialects_come_in_one_order() {
        let place = |list: &[Pass], pass: Pass| list.iter().position(|other| fn_addr_eq(*other, pass));
        let places: Vec<usize> = WGSL.iter().filter_map(|pass| place(CUDA, *pass)).collect();
        assert!(places.len() > 5 && places.is_sorted_by(|a, b| a < b), "{places:?}");
        assert!(place(CUDA, library::take).is_some() && place(WGSL, library::take).is_none());
    }
}
