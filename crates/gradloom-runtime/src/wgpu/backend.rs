//! The backend: an open device behind the runtime's traits.

use super::adapter::open;
use super::gpu::Gpu;
use super::program::WgpuProgram;
use super::tune::{Tuner, Tuning};
use super::{DeviceMemory, WgpuOptions};
use crate::backend::{Backend, Loaded};
use crate::cpu::Pool;
use crate::gpu::cuts;
use crate::memory::{Allocate, Memory, counted};
use crate::store::Content;
use gradloom_codegen::pipeline::Code;
#[cfg(feature = "files")]
use gradloom_codegen::pipeline::Target;
use gradloom_codegen::wgsl::{self, Choices, Context, Precision};
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Lowered;
use gradloom_core::plan::Plan;
use std::sync::Arc;

/// A GPU.
#[derive(Debug)]
pub(crate) struct WgpuBackend {
    gpu: Arc<Gpu>,
    precision: Precision,
    /// Of programs of the device's own precision.
    tuner: Option<Tuner>,
    fusion: Fusion,
    pool: Arc<Pool>,
}

impl WgpuBackend {
    pub(crate) fn new(options: &WgpuOptions, fusion: Fusion) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let gpu = Arc::new(open(options)?);
        let tuner = options.tuning.as_ref().map(|folder| Tuner::new(&gpu, options, folder));
        let pool = Arc::new(Pool::new(threads));
        Ok(Self { gpu, precision: options.precision, tuner, fusion, pool })
    }

    /// What measures for programs of a precision.
    fn tuner(&self, precision: Precision) -> Option<&Tuner> {
        self.tuner.as_ref().filter(|_| precision == self.precision)
    }
}

impl Backend for WgpuBackend {
    fn name(&self) -> &'static str {
        "wgpu"
    }

    fn description(&self) -> String {
        let report = &self.gpu.report;
        let precision = match self.precision {
            Precision::F32 => "",
            Precision::F16 => ", in f16",
            Precision::Bf16 => ", in bf16 where it can",
            Precision::Tf32 | Precision::Tf32x3 => ", in f32, as it has no TF32",
        };
        format!("{} ({}, {}){precision}", report.name, report.backend, report.driver)
    }

    fn threads(&self) -> usize {
        1
    }

    fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    fn is_resident(&self) -> bool {
        true
    }

    fn is_gpu(&self) -> bool {
        true
    }

    fn memory_limit(&self) -> Option<u64> {
        // wgpu does not report free memory.
        None
    }

    fn buffer_bytes(&self) -> Option<u64> {
        Some(self.gpu.segment())
    }

    fn check(&self) -> Result<()> {
        self.gpu.check()
    }

    fn kept_bytes(&self) -> Option<usize> {
        self.gpu.pipelines.found()
    }

    fn lose(&self) {
        self.gpu.device.destroy();
    }

    fn tuning(&self) -> Option<Tuning> {
        self.tuner.as_ref().map(Tuner::tuning)
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    #[cfg(feature = "files")]
    fn target(&self) -> Target {
        Target::Wgsl(gradloom_codegen::pipeline::Gpu::in_precision(self.gpu.limits, self.precision))
    }

    fn fusion(&self) -> Fusion {
        self.fusion
    }

    fn lower(&self, graph: &Graph, fused: Fused, precision: Precision) -> Result<Lowered> {
        let (limits, tuner) = (&self.gpu.limits, self.tuner(precision));
        let mut choices = tuner.map_or_else(|| Choices::by_rule(precision), Tuner::choices);
        if let Some(tuner) = tuner {
            // What was measured may cut a product into other parts, which are to be measured too.
            loop {
                let measured = tuner.choices_for(&wgsl::problems(graph, &fused, limits, &choices));
                if measured == choices {
                    break;
                }
                choices = measured;
            }
        }
        Ok(wgsl::lower_fused(graph, fused, limits, &choices))
    }

    fn emit(&self, graph: &Graph, plan: &Plan, store: &Content) -> Result<Code> {
        self.gpu.check()?;
        let cuts = cuts(plan, store, self.gpu.segment());
        let context = Context { plan, graph, limits: &self.gpu.limits, cuts: &cuts };
        let mut units = wgsl::units(&context)?;
        if let Some(change) = self.gpu.dispatch {
            units.iter_mut().flat_map(|unit| &mut unit.shaders.dispatches).for_each(change);
        }
        Ok(Code::Wgsl(units))
    }

    fn allocate(&self, bytes: u64) -> Option<Memory> {
        DeviceMemory::new(&self.gpu, counted(bytes)).map(Memory::Wgpu)
    }

    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &Content,
        allocate: Allocate<'_>,
    ) -> Result<Loaded> {
        let program = WgpuProgram::load(&self.gpu, graph, plan, code.wgsl()?, store, allocate)?;
        Ok(Loaded::Queued(Box::new(program)))
    }
}
