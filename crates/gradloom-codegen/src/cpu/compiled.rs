//! Kernels of a plan for a CPU.
//!
//! In: a launch. Out: its loops over tiles with their machine code, and the division of a product into tasks.
//! Other kernels are functions of the runtime.

use super::DotPlan;
use super::loops::{Machine, Program};
use super::machine::Assembler;
use gradloom_core::ir::OpKind;
use gradloom_core::kernel::{Body, Kernel, Launch, Part};
use gradloom_core::plan::Plan;
use std::sync::Arc;

/// Kernels of a plan, in the order of its launches.
#[derive(Debug)]
pub struct CpuKernels {
    /// Kernels that run once, when the program is loaded.
    pub hoisted: Vec<CpuKernel>,
    /// Kernels of a step.
    pub launches: Vec<CpuKernel>,
}

/// The kernel of a launch.
#[derive(Clone, Debug)]
pub enum CpuKernel {
    /// A function of the runtime.
    Function,
    /// A fused loop.
    Loop(Arc<Program>),
    /// A matrix product, and the loop over its result.
    Product(Arc<DotPlan>, Option<Arc<Program>>),
    /// The kernels of a group's parts.
    Group(Vec<CpuKernel>),
}

/// Compiler of kernels for one machine. Equal machine code is made once.
#[derive(Debug)]
pub struct CpuCompiler {
    machine: Machine,
    assembler: Option<Assembler>,
}

impl CpuCompiler {
    /// Creates a compiler of kernels for a machine.
    pub fn new(machine: Machine) -> Self {
        Self { machine, assembler: machine.isa.map(Assembler::new) }
    }

    /// Compiles the launches of a plan.
    pub fn plan(&mut self, plan: &Plan) -> CpuKernels {
        let hoisted = plan.hoisted.iter().map(|launch| self.launch(launch)).collect();
        CpuKernels { hoisted, launches: plan.launches.iter().map(|launch| self.launch(launch)).collect() }
    }

    /// Compiles a launch.
    ///
    /// # Panics
    /// If lowering left operands of a product that must be copied first.
    pub fn launch(&mut self, launch: &Launch) -> CpuKernel {
        // Nothing is computed.
        if launch.writes.iter().all(|write| write.layout.shape.elements() == 0) {
            return CpuKernel::Function;
        }
        match &launch.kernel {
            Kernel::Loop(body) => CpuKernel::Loop(self.body(body, launch)),
            kernel @ (Kernel::Op(OpKind::Dot(_)) | Kernel::Dot { .. }) => {
                let (aliases, operands) = (&launch.may_alias, launch.schedule.operands());
                let plan = DotPlan::new(kernel, &launch.reads, &launch.writes, aliases, operands);
                let plan = plan.unwrap_or_else(|| {
                    panic!("dot: lowering left operands that must be copied first: {:?}", launch.reads)
                });
                let body = kernel.body().filter(|_| plan.has_epilogue);
                let epilogue = body.map(|body| self.body(body, launch));
                CpuKernel::Product(Arc::new(plan), epilogue)
            }
            Kernel::Group(parts) => {
                CpuKernel::Group(parts.iter().map(|part| self.launch(&part.alone(launch))).collect())
            }
            _ => CpuKernel::Function,
        }
    }

    fn body(&mut self, body: &Body, launch: &Launch) -> Arc<Program> {
        Arc::new(Program::new(body, launch, self.machine, self.assembler.as_mut()))
    }
}

impl CpuKernel {
    /// Returns the loops as text, each with a label.
    pub fn texts(&self, launch: &Launch) -> Vec<(String, String)> {
        let program = match (self, &launch.kernel) {
            (Self::Group(members), Kernel::Group(parts)) => {
                let of_part = |(member, part): (&Self, &Part)| member.texts(&part.alone(launch));
                return members.iter().zip(parts).flat_map(of_part).collect();
            }
            (Self::Loop(program) | Self::Product(_, Some(program)), _) => Some(program),
            _ => None,
        };
        let text = program.map_or_else(|| "a function of the runtime\n".to_string(), ToString::to_string);
        vec![(launch.kernel.title(), text)]
    }
}
