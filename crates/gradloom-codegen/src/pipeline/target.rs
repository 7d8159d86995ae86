//! The target that programs are compiled for.
//!
//! In: what a device allows. Out: what the stages after the passes ask of it: how ops are fused, the passes
//! that turn kernels into launches ([`Target::lower`]), and the kernels of a planned program, as text
//! ([`Target::emit`]) or ready to load ([`Target::code`]). A device has one target while it is open; output
//! that needs no device is made from the same type.

use super::dialect::{Code, Dialect, Source, Text};
use crate::cpu::Cpu;
use crate::cuda::{Cuda, Replay, may_use_library};
use crate::kernels::Cuts;
use crate::limits::Limits;
use crate::lower::{self, Pass};
use crate::schedule::tuning::{Choices, Precision, Problem, problems};
use crate::wgsl::Wgsl;
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion, fuse};
use gradloom_core::ir::{DType, Graph};
use gradloom_core::kernel::Lowered;
use gradloom_core::plan::Plan;

/// The target that programs are compiled for.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Kind of device, which has the passes and makes the kernels.
    pub(crate) dialect: &'static dyn Dialect,
    /// Threads of a CPU: they decide about scratch, never about results. 1 of a GPU.
    pub threads: usize,
    /// The joining of ops into kernels.
    pub fusion: Fusion,
    /// Limits and features of a GPU. No kernel of a CPU asks for them.
    pub limits: Limits,
    /// Precision, and how a GPU's products and attention are computed.
    pub choices: Choices,
}

impl Target {
    /// A CPU with this many threads.
    pub fn cpu(threads: usize) -> Self {
        let (limits, choices) = (Limits::portable(), Choices::default());
        Self { dialect: &Cpu, threads, fusion: Fusion::On, limits, choices }
    }

    /// A GPU through WebGPU with these limits.
    pub fn wgsl(limits: Limits, precision: Precision) -> Self {
        Self::gpu(&Wgsl, limits, Choices::by_rule(precision))
    }

    /// An NVIDIA GPU through CUDA with these limits.
    pub fn cuda(limits: Limits, precision: Precision) -> Self {
        Self::gpu(&Cuda, limits, Choices::by_rule(precision))
    }

    fn gpu(dialect: &'static dyn Dialect, limits: Limits, choices: Choices) -> Self {
        Self { dialect, threads: 1, fusion: lower::GPU_FUSION, limits, choices }
    }

    /// The same with this joining of ops.
    #[must_use]
    pub fn with_fusion(self, fusion: Fusion) -> Self {
        Self { fusion, ..self }
    }

    /// The same with these choices.
    #[must_use]
    pub fn with_choices(self, choices: Choices) -> Self {
        Self { choices, ..self }
    }

    /// Returns a short name: `cpu`, `wgsl`, `cuda`.
    pub fn name(&self) -> &'static str {
        self.dialect.name()
    }

    /// Returns whether kernels are those of a GPU.
    pub fn is_gpu(&self) -> bool {
        self.dialect.is_gpu()
    }

    /// Returns the precision of programs that ask for none.
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

    /// Returns for how many launches bytes rest before they are used again: see [`Plan::side_by_side`].
    pub fn reuse_distance(&self) -> usize {
        self.dialect.reuse_distance()
    }

    /// Returns the passes that make launches of kernels, in order.
    pub(crate) fn passes(&self) -> &'static [Pass] {
        self.dialect.passes()
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

    /// Makes the kernels of a plan, for a device to load; `cuts` are where regions of memory are cut into
    /// buffers.
    ///
    /// # Errors
    /// When a kernel cannot run on such a device.
    pub fn code(&self, graph: &Graph, plan: &Plan, cuts: &Cuts) -> Result<Code> {
        self.dialect.code(&Source { target: self, graph, plan, cuts })
    }

    /// Returns the kernels of a plan in the language that all GPUs share, in the order in which they run;
    /// none for a CPU.
    ///
    /// # Errors
    /// When a kernel cannot run on such a device.
    pub fn kernels(&self, graph: &Graph, plan: &Plan) -> Result<Vec<Text>> {
        self.dialect.kernels(&Source { target: self, graph, plan, cuts: &Cuts::default() })
    }

    /// Returns the texts of a plan's kernels, in the order in which they run: source for a GPU; for a CPU the
    /// loops over tiles that a kernel is or ends with, as instructions.
    ///
    /// # Errors
    /// When a kernel cannot run on such a device.
    pub fn emit(&self, graph: &Graph, plan: &Plan) -> Result<Vec<Text>> {
        self.dialect.texts(&Source { target: self, graph, plan, cuts: &Cuts::default() })
    }

    /// Returns the graphs that a step of a plan replays; `None` where steps are no graphs.
    pub fn replay(&self, graph: &Graph, plan: &Plan) -> Option<Replay> {
        self.dialect.replay(&Source { target: self, graph, plan, cuts: &Cuts::default() })
    }
}

/// Fuses a graph and lowers it for a GPU with these limits, an NVIDIA one if kernels run side by side;
/// `choices` say how its products and attention are computed.
///
/// # Errors
/// When a block op is left: passes expand them first.
pub fn lower_for(graph: &Graph, limits: &Limits, choices: &Choices) -> Result<Lowered> {
    let dialect: &'static dyn Dialect = if limits.branches { &Cuda } else { &Wgsl };
    let target = Target::gpu(dialect, *limits, choices.clone());
    Ok(target.lower(graph, fuse(graph, target.fusion)?))
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
            ["stored::floats_and_blocks", "operands::with_shared_rows", "launches::on_cpu"]
        );
        assert!(cuda.contains(&"library::take") && !wgsl.contains(&"library::take"));
        let common = |list: &[&'static str], of: &[&'static str]| {
            list.iter().copied().filter(|name| of.contains(name)).collect::<Vec<_>>()
        };
        assert_eq!(common(&wgsl, &cuda), common(&cuda, &wgsl), "what both have comes in one order");
    }
}
