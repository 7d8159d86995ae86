//! The target of programs, as one value.
//!
//! In: what a device allows. Out: all that the stages after the passes ask of it: how ops are fused, the
//! passes that make launches of kernels ([`Target::lower`]), and, once these are planned, the text of their
//! kernels ([`Target::emit`], [`Target::code`]). A device has one for as long as it is open; what is shown
//! without a device is made of the same value.

use super::Code;
use crate::cuda::{Addresses, CudaUnit, REUSE_DISTANCE, Work, may_use_library};
use crate::kernels::{self, Program, Unit};
use crate::limits::Limits;
use crate::lower::{self, Pass};
use crate::schedule::tuning::{Choices, Precision, Problem, problems};
use crate::step::Owner;
use crate::wgsl::{self, Context, Cuts};
use crate::{cpu, cuda};
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion, fuse};
use gradloom_core::ir::{DType, Graph};
use gradloom_core::kernel::{Launch, Lowered};
use gradloom_core::plan::Plan;

/// What programs are compiled for.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Kind of the kernels, which says what passes make them.
    pub dialect: Dialect,
    /// Threads of a CPU: they decide about scratch, never about results. 1 of a GPU.
    pub threads: usize,
    /// The joining of ops into kernels.
    pub fusion: Fusion,
    /// Limits and features of a GPU. No kernel of a CPU asks for them.
    pub limits: Limits,
    /// Precision, and how a GPU's products and attention are computed.
    pub choices: Choices,
}

/// The language of a target's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Loops over tiles, and functions of the runtime.
    Cpu,
    /// WGSL.
    Wgsl,
    /// CUDA C.
    Cuda,
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
    /// A CPU with this many threads.
    pub fn cpu(threads: usize) -> Self {
        let (limits, choices) = (Limits::portable(), Choices::default());
        Self { dialect: Dialect::Cpu, threads, fusion: Fusion::On, limits, choices }
    }

    /// A GPU through WebGPU with these limits.
    pub fn wgsl(limits: Limits, precision: Precision) -> Self {
        Self::gpu(Dialect::Wgsl, limits, Choices::by_rule(precision))
    }

    /// An NVIDIA GPU through CUDA with these limits.
    pub fn cuda(limits: Limits, precision: Precision) -> Self {
        Self::gpu(Dialect::Cuda, limits, Choices::by_rule(precision))
    }

    fn gpu(dialect: Dialect, limits: Limits, choices: Choices) -> Self {
        Self { dialect, threads: 1, fusion: lower::GPU_FUSION, limits, choices }
    }

    /// The same with these choices.
    #[must_use]
    pub fn with_choices(self, choices: Choices) -> Self {
        Self { choices, ..self }
    }

    /// Short name: `cpu`, `wgsl`, `cuda`.
    pub fn name(&self) -> &'static str {
        match self.dialect {
            Dialect::Cpu => "cpu",
            Dialect::Wgsl => "wgsl",
            Dialect::Cuda => "cuda",
        }
    }

    /// Returns whether kernels are those of a GPU.
    pub fn is_gpu(&self) -> bool {
        self.dialect != Dialect::Cpu
    }

    /// What programs compute in, unless they say otherwise.
    pub fn precision(&self) -> Precision {
        self.choices.precision()
    }

    /// The floats of 16 bits of the precision, where the device has them.
    pub(crate) fn half(&self) -> Option<DType> {
        self.limits.half(self.precision())
    }

    /// The same device for programs of another precision, by the rule's choices. A CPU computes in f32.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Self {
        match self.is_gpu() && self.precision() != precision {
            true => self.clone().with_choices(Choices::by_rule(precision)),
            false => self.clone(),
        }
    }

    /// The same device for one graph: without the vendor's library if no product is for it or it is not
    /// there. `has_library` is asked only where there is such a product, as opening a library takes time.
    #[must_use]
    pub fn for_graph(mut self, graph: &Graph, has_library: impl FnOnce() -> bool) -> Self {
        let precision = self.precision();
        let has_use = |least: &usize| may_use_library(graph, precision, *least);
        self.limits.library = self.limits.library.filter(has_use).filter(|_| has_library());
        self
    }

    /// For how many launches bytes rest before they are used again: see [`Plan::side_by_side`].
    pub fn reuse_distance(&self) -> usize {
        match self.dialect {
            Dialect::Cpu | Dialect::Wgsl => 0,
            Dialect::Cuda => REUSE_DISTANCE,
        }
    }

    /// The passes that make launches of kernels, in order.
    pub(crate) fn passes(&self) -> &'static [Pass] {
        match self.dialect {
            Dialect::Cpu => lower::CPU,
            Dialect::Wgsl => lower::WGSL,
            Dialect::Cuda => lower::CUDA,
        }
    }

    /// The names of the passes that make launches of kernels, in order.
    pub fn pass_names(&self) -> impl Iterator<Item = &'static str> {
        self.passes().iter().map(|pass| pass.name)
    }

    /// Lowers the kernels of a graph.
    pub fn lower(&self, graph: &Graph, fused: Fused) -> Lowered {
        lower::lower(graph, fused, self, true)
    }

    /// Returns what there are choices for in a program, each once: what lowering makes with these choices,
    /// and, whole, the products that it cuts into parts, as how a product is cut is part of its choice.
    pub fn problems(&self, graph: &Graph, fused: &Fused) -> Vec<Problem> {
        let mut found = Vec::new();
        for cuts_products in [false, true] {
            for problem in problems(&lower::lower(graph, fused.clone(), self, cuts_products)) {
                if !found.contains(&problem) {
                    found.push(problem);
                }
            }
        }
        found
    }

    /// Makes the kernels of a plan, for a device to load; `cuts` are where values lie in several buffers.
    ///
    /// # Errors
    /// When a kernel cannot run on such a device.
    pub fn code(&self, graph: &Graph, plan: &Plan, cuts: &Cuts) -> Result<Code> {
        Ok(match self.dialect {
            Dialect::Cpu => Code::None,
            Dialect::Wgsl => Code::Wgsl(wgsl::units(&Context { plan, graph, limits: &self.limits, cuts })?),
            Dialect::Cuda => Code::Cuda(cuda::units(plan, graph, cuts)?),
        })
    }

    /// Returns the kernels of a plan in the language that all GPUs share, in the order in which they run;
    /// none for a CPU.
    ///
    /// # Errors
    /// When a kernel cannot run on such a device.
    pub fn kernels(&self, graph: &Graph, plan: &Plan) -> Result<Vec<Text>> {
        let (program, limits, cuts) = (Program { plan, graph }, &self.limits, &Cuts::default());
        Ok(match self.dialect {
            Dialect::Cpu => Vec::new(),
            Dialect::Wgsl => common(&kernels::units(program, &Context { plan, graph, limits, cuts })?, plan),
            Dialect::Cuda => common(&kernels::units(program, &Addresses { plan, limits, cuts })?, plan),
        })
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
        match self.code(graph, plan, &Cuts::default())? {
            Code::None => {
                for (is_hoisted, number, launch) in launches(plan) {
                    let made = cpu::loops::texts(launch);
                    texts.extend(made.iter().map(|(label, made)| text(number, is_hoisted, label, made)));
                }
            }
            Code::Wgsl(units) => {
                for unit in units {
                    let (launch, is_hoisted) = place(unit.owner, plan);
                    let all = unit.shaders.dispatches.iter();
                    texts.extend(all.map(|made| text(launch, is_hoisted, &made.label, &made.source)));
                }
            }
            Code::Cuda(units) => {
                for CudaUnit { owner, kernel } in units {
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

/// Fuses a graph and lowers it for a GPU with these limits, an NVIDIA one if kernels run side by side;
/// `choices` say how its products and attention are computed.
///
/// # Errors
/// When a block op is left: passes expand them first.
pub fn lower_for(graph: &Graph, limits: &Limits, choices: &Choices) -> Result<Lowered> {
    let dialect = if limits.branches { Dialect::Cuda } else { Dialect::Wgsl };
    let target = Target::gpu(dialect, *limits, choices.clone());
    Ok(target.lower(graph, fuse(graph, target.fusion)?))
}

/// The kernels of units in the language that all GPUs share.
fn common<O>(units: &[Unit<O>], plan: &Plan) -> Vec<Text> {
    let of_unit = |unit: &Unit<O>| -> Vec<Text> {
        let (launch, is_hoisted) = place(unit.owner, plan);
        let text = |label: &str, source: String| Text { launch, is_hoisted, label: label.into(), source };
        match &unit.work {
            kernels::Work::Kernels(kernels) => {
                kernels.iter().map(|kernel| text(&kernel.label, kernel.to_string())).collect()
            }
            kernels::Work::Library(product) => vec![text("dot", format!("// {product}\n"))],
        }
    };
    units.iter().flat_map(of_unit).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::ir::parse;

    fn product(rows: usize) -> Graph {
        let text = format!(
            "graph {{
                %0: f32[{rows}, 512] = input \"a\"
                %1: f32[512, 1024] = input \"b\"
                %2: f32[{rows}, 1024] = dot %0, %1 {{lhs_contract = [1], rhs_contract = [0]}}
                output \"product\" %2
            }}"
        );
        parse(&text).unwrap_or_else(|error| panic!("{error:?}"))
    }

    #[test]
    fn a_library_is_looked_for_where_a_product_is_for_it() {
        let target = Target::cuda(Limits::cuda().with_library(), Precision::Bf16);
        let asked = |rows, has_library| {
            let mut asked = false;
            let own = target.clone().for_graph(&product(rows), || {
                asked = true;
                has_library
            });
            (own.limits.library.is_some(), asked)
        };
        assert_eq!(asked(1024, true), (true, true));
        assert_eq!(asked(1024, false), (false, true));
        assert_eq!(asked(8, true), (false, false));
    }

    #[test]
    fn a_target_lowers_as_its_device_does() {
        let target = Target::cuda(Limits::cuda().with_library(), Precision::Bf16);
        for (rows, has_library) in [(8, true), (1024, true), (8, false), (1024, false)] {
            let graph = product(rows);
            let mut shown = target.clone();
            shown.limits.library = shown.limits.library.filter(|_| has_library);
            let own = target.clone().for_graph(&graph, || has_library);
            let [shown, own] = [shown, own].map(|target| {
                let lowered = target.lower(&graph, fuse(&graph, target.fusion).unwrap());
                format!("{:?}", lowered.launches)
            });
            assert_eq!(shown, own, "{rows} rows, {has_library}");
        }
    }

    #[test]
    fn each_dialect_has_its_list_of_passes() {
        let names = |target: Target| target.pass_names().collect::<Vec<_>>();
        let cuda = names(Target::cuda(Limits::cuda(), Precision::F32));
        let wgsl = names(Target::wgsl(Limits::desktop(), Precision::F32));
        assert_eq!(
            names(Target::cpu(1)),
            ["stored::floats_and_blocks", "operands::with_shared_rows", "launches::schedule"]
        );
        assert!(cuda.contains(&"library::take") && !wgsl.contains(&"library::take"));
        let common = |list: &[&'static str], of: &[&'static str]| {
            list.iter().copied().filter(|name| of.contains(name)).collect::<Vec<_>>()
        };
        assert_eq!(common(&wgsl, &cuda), common(&cuda, &wgsl), "what both have comes in one order");
    }
}
