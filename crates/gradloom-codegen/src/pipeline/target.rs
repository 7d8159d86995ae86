//! The target that programs are compiled for.
//!
//! In: the limits of a device. Out: for the stages after the passes, the fusion of ops, the passes that turn
//! kernels into launches ([`Target::lower`]), and the kernels of a planned program, as text
//! ([`Target::emit`]) or ready to load ([`Target::code`]). A device has one target while it is open. A target
//! can also be created without a device, to generate text.

use super::dialect::{Code, Dialect, Source, Text};
use crate::cpu::Cpu;
use crate::cpu::loops::Machine;
use crate::cuda::{Cuda, Replay, may_use_library};
use crate::kernels::Cuts;
use crate::library::LibraryProduct;
use crate::limits::Limits;
use crate::lower::{self, Pass};
use crate::schedule::attention;
use crate::schedule::tuning::{Choices, Precision, Problem, problems};
use crate::wgsl::Wgsl;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::{Fused, Fusion};
use gradloom_core::ir::{DType, Graph, OpKind};
use gradloom_core::kernel::{Kernel, Launch, Lowered, Schedule};
use gradloom_core::plan::Plan;

/// The target that programs are compiled for.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Kind of device, which determines the passes and generates the kernels.
    pub(crate) dialect: &'static dyn Dialect,
    /// Number of threads of a CPU, which affects scratch memory but never results; 1 for a GPU.
    pub threads: usize,
    /// Fusion of ops into kernels.
    pub fusion: Fusion,
    /// Limits and features of a GPU. CPU kernels ignore them.
    pub limits: Limits,
    /// Precision, and the choice of kernels for products and attention on a GPU.
    pub choices: Choices,
    /// Machine that loops are compiled for on a CPU.
    pub machine: Machine,
}

impl Target {
    /// Creates the target of a CPU with this many threads.
    pub fn cpu(threads: usize) -> Self {
        // Kernels ignore the limits, but for the types that values are rounded to.
        let (limits, choices) = (Limits { bf16: true, ..Limits::portable() }, Choices::default());
        Self { dialect: &Cpu, threads, fusion: Fusion::On, limits, choices, machine: Machine::TYPICAL }
    }

    /// Creates the target of a GPU through WebGPU with these limits.
    pub fn wgsl(limits: Limits, precision: Precision) -> Self {
        Self::gpu(&Wgsl, limits, Choices::by_rule(precision))
    }

    /// Creates the target of an NVIDIA GPU through CUDA with these limits.
    pub fn cuda(limits: Limits, precision: Precision) -> Self {
        Self::gpu(&Cuda, limits, Choices::by_rule(precision))
    }

    fn gpu(dialect: &'static dyn Dialect, limits: Limits, choices: Choices) -> Self {
        let (threads, fusion, machine) = (1, lower::GPU_FUSION, Machine::TYPICAL);
        Self { dialect, threads, fusion, limits, choices, machine }
    }

    /// Returns this target with another fusion.
    #[must_use]
    pub fn with_fusion(self, fusion: Fusion) -> Self {
        Self { fusion, ..self }
    }

    /// Returns this target with loops that are compiled for another machine.
    #[must_use]
    pub fn with_machine(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }

    /// Returns this target with other choices.
    #[must_use]
    pub fn with_choices(self, choices: Choices) -> Self {
        Self { choices, ..self }
    }

    /// Returns the short name: `cpu`, `wgsl` or `cuda`.
    pub fn name(&self) -> &'static str {
        self.dialect.name()
    }

    /// Returns `true` if devices of this kind can be part of a world of several ranks.
    pub fn can_communicate(&self) -> bool {
        self.dialect.can_communicate()
    }

    /// Returns `true` if kernels run on a GPU.
    pub fn is_gpu(&self) -> bool {
        self.dialect.is_gpu()
    }

    /// Returns the default precision of programs.
    pub fn precision(&self) -> Precision {
        self.choices.precision()
    }

    /// Returns the 16-bit float type of the precision, if the device supports it.
    pub(crate) fn half(&self) -> Option<DType> {
        self.limits.half(self.precision())
    }

    /// Returns the target of the same device for programs of another precision, with rule-based choices.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Self {
        match self.precision() != precision {
            true => self.clone().with_choices(Choices::by_rule(precision)),
            false => self.clone(),
        }
    }

    /// Checks that programs are computed in the precision of the target, rather than in f32. GPUs that lack a
    /// type are refused when they are opened for it.
    ///
    /// # Errors
    /// Returns an error for a CPU in any precision but f32 and bf16.
    pub fn check_precision(&self) -> Result<()> {
        match self.precision() {
            Precision::F32 | Precision::Bf16 => Ok(()),
            _ if self.is_gpu() => Ok(()),
            precision => {
                let message = format!("the CPU does not compute in {}", precision.name());
                Err(Error::new(ErrorKind::Device, message)
                    .help("give `Precision::Bf16` or `Precision::F32`, or a GPU"))
            }
        }
    }

    /// Returns the target of the same device for one graph. The vendor library is left out if no product is
    /// large enough for it, or if `has_library` returns `false`. `has_library` is only called if there is
    /// such a product, because opening a library takes time.
    #[must_use]
    pub fn for_graph(mut self, graph: &Graph, has_library: impl FnOnce() -> bool) -> Self {
        let precision = self.precision();
        let has_use = |least: &usize| may_use_library(graph, precision, *least);
        self.limits.library = self.limits.library.filter(has_use).filter(|_| has_library());
        self
    }

    /// Returns the reason why attention or a large product uses a general kernel although the device has a
    /// faster one; `None` if no reason is known, and for all other launches.
    pub fn obstacle(&self, launch: &Launch) -> Option<String> {
        let (reads, write) = (&launch.reads, launch.writes.first()?);
        match (&launch.kernel, &launch.schedule) {
            (_, Schedule::Attention(schedule)) => {
                attention::obstacle(schedule, reads, self.half()?, &self.limits)
            }
            (Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. }, Schedule::Product(_)) => {
                let (dtype, least) = lower::library_support(self)?;
                let [left, right] = [0, 1].map(|read| &reads[read].layout);
                let is_large = LibraryProduct::multiplications(axes, &left.shape, &right.shape) >= least;
                let result = (&write.layout, write.dtype);
                is_large.then(|| LibraryProduct::obstacle(axes, [left, right], dtype, result))?
            }
            _ => None,
        }
    }

    /// Returns the number of launches after a value's last use for which its memory is not reused (see
    /// [`Plan::side_by_side`]).
    pub fn reuse_distance(&self) -> usize {
        self.dialect.reuse_distance(self.threads)
    }

    /// Returns the passes that lower kernels to launches, in order.
    pub(crate) fn passes(&self) -> &'static [Pass] {
        self.dialect.passes()
    }

    /// Lowers the kernels of a graph.
    pub fn lower(&self, graph: &Graph, fused: Fused) -> Lowered {
        lower::lower(graph, fused, self, true)
    }

    /// Returns the distinct problems of a program for which there are choices. They are those that lowering
    /// produces with the current choices, and the uncut forms of the products that it cuts into parts,
    /// because the cut is part of a product's choice.
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

    /// Generates the kernels of a plan for a device to load. `cuts` are the offsets at which memory regions
    /// are split into buffers.
    ///
    /// # Errors
    /// Returns an error if a kernel cannot run on this kind of device.
    pub fn code(&self, graph: &Graph, plan: &Plan, cuts: &Cuts) -> Result<Code> {
        self.dialect.code(&Source { target: self, graph, plan, cuts })
    }

    /// Returns the kernels of a plan in the language that all GPUs share, in execution order, or an empty
    /// list for a CPU.
    ///
    /// # Errors
    /// Returns an error if a kernel cannot run on this kind of device.
    pub fn kernels(&self, graph: &Graph, plan: &Plan) -> Result<Vec<Text>> {
        self.dialect.kernels(&Source { target: self, graph, plan, cuts: &Cuts::default() })
    }

    /// Returns the kernels of a plan as text, in execution order: source code for a GPU; for a CPU, the
    /// instructions of the tile loops that a kernel consists of or ends with.
    ///
    /// # Errors
    /// Returns an error if a kernel cannot run on this kind of device.
    pub fn emit(&self, graph: &Graph, plan: &Plan) -> Result<Vec<Text>> {
        self.dialect.texts(&Source { target: self, graph, plan, cuts: &Cuts::default() })
    }

    /// Returns the graphs that a step of a plan replays, or `None` if the device does not record steps as
    /// graphs.
    pub fn replay(&self, graph: &Graph, plan: &Plan) -> Option<Replay> {
        self.dialect.replay(&Source { target: self, graph, plan, cuts: &Cuts::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::fuse::fuse;
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

    /// Returns the obstacles of a graph's launches on a GPU of compute capability 9.0.
    fn obstacles(text: &str, precision: Precision) -> Vec<String> {
        let graph = parse(text).unwrap_or_else(|error| panic!("{error:?}"));
        let target = Target::cuda(Limits::cuda_of((9, 0)).with_library(), precision);
        let lowered = target.lower(&graph, fuse(&graph, target.fusion).unwrap());
        lowered.launches.iter().filter_map(|launch| target.obstacle(launch)).collect()
    }

    #[test]
    fn general_kernels_have_reasons() {
        let attention = |width: usize, operands: &str, scale: f64| {
            format!(
                "graph {{
                    %0: f32[2, 4, 256, {width}] = input \"x\"
                    %1: f32[2, 4, 256, {width}] = exp %0
                    %2: f32[2, 4, 256, {width}], %3: f32[2, 4, 256] = attention {operands} {{scale={scale}}}
                    %4: f32[2, 4, 256, {width}] = exp %2
                    output \"y\" %4
                }}"
            )
        };
        let of = |width, operands, scale| obstacles(&attention(width, operands, scale), Precision::Bf16);
        for width in [64, 80, 96, 128] {
            assert_eq!(of(width, "%1, %1, %1", 0.5), [""; 0]);
        }
        assert_eq!(
            of(72, "%1, %1, %1", 0.5),
            ["rows have 72 elements, not a multiple of 16 that is at most 128"]
        );
        assert_eq!(of(64, "%1, %0, %1", 0.5), ["the keys are f32 in memory"]);
        assert_eq!(of(64, "%1, %1, %1", -0.5), ["the scale of the scores is not positive"]);
        assert_eq!(obstacles(&attention(72, "%1, %1, %1", 0.5), Precision::F32), [""; 0]);
        let products = |columns: usize| {
            let text = format!(
                "graph {{
                    %0: f32[1024, 512] = input \"a\"
                    %1: f32[512, {columns}] = input \"b\"
                    %2: f32[1024, {columns}] = dot %0, %1 {{lhs_contract = [1], rhs_contract = [0]}}
                    output \"y\" %2
                }}"
            );
            obstacles(&text, Precision::Tf32)
        };
        assert_eq!(products(1024), [""; 0]);
        assert_eq!(
            products(1023),
            ["the right operand has an offset or stride of 4092 bytes, not a multiple of 16"]
        );
    }
}
