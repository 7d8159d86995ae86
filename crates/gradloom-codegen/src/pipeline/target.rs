//! What programs are compiled for.
//!
//! In: the kernels of a graph, a [`Target`]. Out: launches ([`Target::lower`]), and, once they are planned,
//! the text of their kernels ([`Target::emit`]).

use crate::cuda::{CudaUnit, Work};
use crate::kernels::{self, Program, Unit};
use crate::step::Owner;
use crate::wgsl::{self, Choices, Context, Cuts, Limits, Precision};
use crate::{cpu, cuda, lower};
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::{Launch, Lowered};
use gradloom_core::plan::Plan;

/// What programs are compiled for.
#[derive(Clone, Debug)]
pub enum Target {
    /// A CPU with this many threads.
    Cpu {
        /// They decide about scratch, never about results.
        threads: usize,
    },
    /// A GPU through WebGPU.
    Wgsl(Gpu),
    /// An NVIDIA GPU through CUDA.
    Cuda(Gpu),
}

/// What a GPU allows, and how its products and attention are computed.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// Limits and features.
    pub limits: Limits,
    /// Precision and measured choices.
    pub choices: Choices,
}

impl Gpu {
    /// The rule's choices in f32.
    pub fn new(limits: Limits) -> Self {
        Self::in_precision(limits, Precision::F32)
    }

    /// The rule's choices in a precision.
    pub fn in_precision(limits: Limits, precision: Precision) -> Self {
        Self { limits, choices: Choices::by_rule(precision) }
    }
}

/// The kernels of a launch as text, in the order in which they run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Number of the launch in its list.
    pub launch: usize,
    /// Whether it runs once, when the program is loaded.
    pub is_hoisted: bool,
    /// What it computes, for people.
    pub label: String,
    /// The source.
    pub source: String,
}

impl Target {
    /// What programs compute in, unless they say otherwise.
    pub fn precision(&self) -> Precision {
        match self {
            Self::Cpu { .. } => Precision::F32,
            Self::Wgsl(gpu) | Self::Cuda(gpu) => gpu.choices.precision(),
        }
    }

    /// The same device for programs of another precision.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Self {
        let gpu = |gpu: &Gpu| match gpu.choices.precision() == precision {
            true => gpu.clone(),
            false => Gpu::in_precision(gpu.limits, precision),
        };
        match self {
            Self::Cpu { .. } => self.clone(),
            Self::Wgsl(known) => Self::Wgsl(gpu(known)),
            Self::Cuda(known) => Self::Cuda(gpu(known)),
        }
    }

    /// How ops are joined into kernels.
    pub fn fusion(&self) -> Fusion {
        match self {
            Self::Cpu { .. } => Fusion::On,
            Self::Wgsl(_) | Self::Cuda(_) => lower::gpu::FUSION,
        }
    }

    /// For how many launches bytes rest before they are used again: see [`Plan::side_by_side`].
    pub fn reuse_distance(&self) -> usize {
        match self {
            Self::Cpu { .. } | Self::Wgsl(_) => 0,
            Self::Cuda(_) => cuda::REUSE_DISTANCE,
        }
    }

    /// Lowers the kernels of a graph.
    pub fn lower(&self, graph: &Graph, fused: Fused) -> Lowered {
        match self {
            Self::Cpu { threads } => cpu::lower_fused(graph, fused, *threads),
            Self::Wgsl(Gpu { limits, choices }) | Self::Cuda(Gpu { limits, choices }) => {
                lower::gpu::lower_fused(graph, fused, limits, choices)
            }
        }
    }

    /// Returns the kernels of a plan in the language that all GPUs share, in the order in which they run; none
    /// for a CPU.
    ///
    /// # Errors
    /// When a kernel cannot run on such a device.
    pub fn kernels(&self, graph: &Graph, plan: &Plan) -> Result<Vec<Text>> {
        let (program, cuts) = (Program { plan, graph }, Cuts::default());
        match self {
            Self::Cpu { .. } => Ok(Vec::new()),
            Self::Wgsl(Gpu { limits, .. }) => {
                let units = kernels::units(program, &Context { plan, graph, limits, cuts: &cuts })?;
                Ok(units.iter().flat_map(|unit| common(unit, plan)).collect())
            }
            Self::Cuda(Gpu { limits, .. }) => {
                let units = kernels::units(program, &cuda::Addresses { plan, limits, cuts: &cuts })?;
                Ok(units.iter().flat_map(|unit| common(unit, plan)).collect())
            }
        }
    }

    /// The texts of a plan's kernels, in the order in which they run: source for a GPU; for a CPU the loops
    /// over tiles that a kernel is or ends with, as instructions.
    ///
    /// # Errors
    /// When a kernel cannot run on such a device.
    pub fn emit(&self, graph: &Graph, plan: &Plan) -> Result<Vec<Text>> {
        let text = |launch, is_hoisted, label: &str, source: &str| Text {
            launch,
            is_hoisted,
            label: label.to_string(),
            source: source.to_string(),
        };
        let mut texts = Vec::new();
        match self {
            Self::Cpu { .. } => {
                for (is_hoisted, number, launch) in launches(plan) {
                    let made = cpu::loops::texts(launch);
                    texts.extend(made.iter().map(|(label, made)| text(number, is_hoisted, label, made)));
                }
            }
            Self::Wgsl(Gpu { limits, .. }) => {
                let cuts = Cuts::default();
                for unit in wgsl::units(&Context { plan, graph, limits, cuts: &cuts })? {
                    let (launch, is_hoisted) = place(unit.owner, plan);
                    let all = unit.shaders.dispatches.iter();
                    texts.extend(all.map(|made| text(launch, is_hoisted, &made.label, &made.source)));
                }
            }
            Self::Cuda(_) => {
                for CudaUnit { owner, kernel } in cuda::units(plan, graph, &Cuts::default())? {
                    let (launch, is_hoisted) = place(owner, plan);
                    let source = match &kernel.work {
                        Work::Function { source, .. } => source,
                        Work::Product(product) => &format!("// {product}\n"),
                    };
                    texts.push(text(launch, is_hoisted, &kernel.label, source));
                }
            }
        }
        Ok(texts)
    }
}

/// The kernels of a unit in the language that all GPUs share.
fn common<O>(unit: &Unit<O>, plan: &Plan) -> Vec<Text> {
    let (launch, is_hoisted) = place(unit.owner, plan);
    let text = |label: &str, source: String| Text { launch, is_hoisted, label: label.to_string(), source };
    match &unit.work {
        kernels::Work::Kernels(kernels) => {
            kernels.iter().map(|kernel| text(&kernel.label, kernel.to_string())).collect()
        }
        kernels::Work::Library(product) => vec![text("dot", format!("// {product}\n"))],
    }
}

/// The number of the launch before or in which a kernel runs, and whether that is a hoisted one.
fn place(owner: Owner, plan: &Plan) -> (usize, bool) {
    match owner {
        Owner::Hoisted(number) => (number, true),
        Owner::Launch(number) => (number, false),
        Owner::Guards => (plan.first_commit(), false),
    }
}

/// All launches of a plan: whether each is hoisted, and its number in its list.
fn launches(plan: &Plan) -> impl Iterator<Item = (bool, usize, &Launch)> {
    let hoisted = plan.hoisted.iter().enumerate().map(|(number, launch)| (true, number, launch));
    hoisted.chain(plan.launches.iter().enumerate().map(|(number, launch)| (false, number, launch)))
}
