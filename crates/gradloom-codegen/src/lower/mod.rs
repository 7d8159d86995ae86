//! From fused kernels to launches: a list of passes for each kind of target.
//!
//! In: a graph without block ops, fused, and a [`Target`]. Out: [`Lowered`]. Each pass is a function over all
//! kernels, one idea in a file of its own; the lists below are the order in which a target's run. What only
//! one kind of device does is a pass that the others do not list. Always holds: a copy is made only where the
//! kernel that reads a view cannot index through it (a matrix operand without single strides, a user's op).

mod apart;
mod followed;
mod joined;
mod launches;
mod library;
mod narrow;
mod operands;
mod pad;
mod parts;
mod products;
mod reduce;
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
use std::ops::{Deref, DerefMut};

/// The joining of ops into kernels for GPUs.
pub(crate) const GPU_FUSION: Fusion = Fusion::SumsApart;

/// A step of lowering.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// Name in lists for people.
    pub(crate) name: &'static str,
    run: fn(&mut Lowering<'_>),
}

macro_rules! passes {
    ($($pass:path),* $(,)?) => { &[$(Pass { name: stringify!($pass), run: $pass }),*] };
}

/// Passes for CPUs.
pub(crate) const CPU: &[Pass] =
    passes![stored::floats_and_blocks, operands::with_shared_rows, launches::on_cpu];

/// Passes for GPUs through WebGPU.
pub(crate) const WGSL: &[Pass] = passes![
    reduce::as_bodies,
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
pub(crate) const CUDA: &[Pass] = passes![
    reduce::as_bodies,
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

/// Lowers kernels; with `cuts_products`, long sums of products may be cut into parts that wait.
pub(crate) fn lower(graph: &Graph, fused: Fused, target: &Target, cuts_products: bool) -> Lowered {
    let kernels = fused.kernels.into_iter().map(Draft::from).collect();
    let (memory, padded, launches) = (fused.memory, Vec::new(), Vec::new());
    let mut lowering = Lowering { graph, target, cuts_products, kernels, memory, padded, launches };
    target.passes().iter().for_each(|pass| (pass.run)(&mut lowering));
    let Lowering { launches, mut memory, .. } = lowering;
    memory.launches = launches.into_iter().map(|(launch, _)| launch).collect();
    memory
}

/// The kernels of a program on their way to launches.
pub(crate) struct Lowering<'l> {
    graph: &'l Graph,
    target: &'l Target,
    cuts_products: bool,
    /// In an order in which they can run; none once there are launches.
    kernels: Vec<Draft>,
    /// The buffers and layouts of values.
    memory: Lowered,
    /// Buffers that are larger than what is in them.
    padded: Vec<Padded>,
    /// Each with the part of the program that it is of.
    launches: Vec<(Launch, Section)>,
}

/// The part of a program that a kernel is of: whether only updates need it, and whether it runs once, when
/// the program is loaded.
type Section = (bool, bool);

/// A kernel on its way to a launch.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    spec: KernelSpec,
    /// True if the next kernel reads its sums, so that they do not wait in parts.
    is_read_next: bool,
    /// The schedule of the vendor's library, if that computes it.
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
    /// Another kernel of the same op and part of the program.
    fn beside(&self, kernel: Kernel, reads: Vec<Access>, writes: Vec<Access>) -> Self {
        let KernelSpec { op, commit, once, .. } = self.spec;
        KernelSpec { op, kernel, reads, writes, commit, once }.into()
    }
}

impl Lowering<'_> {
    /// Replaces each kernel by those that `f` adds to a list in its place.
    fn replace(&mut self, mut f: impl FnMut(&mut Self, Draft, &mut Vec<Draft>)) {
        let kernels = std::mem::take(&mut self.kernels);
        let mut replaced = Vec::with_capacity(kernels.len());
        for kernel in kernels {
            f(self, kernel, &mut replaced);
        }
        self.kernels = replaced;
    }

    /// The buffers that outputs, guards and updates look at.
    fn watched(&self) -> Vec<ValueId> {
        let watched = gradloom_core::fuse::watched(self.graph);
        watched.iter().filter_map(|value| Some(self.memory.access.get(value)?.buffer)).collect()
    }
}
