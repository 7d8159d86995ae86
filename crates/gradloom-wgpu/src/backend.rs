//! Implementation of the backend trait for an open device.

use super::WgpuOptions;
use super::adapter::open;
use super::gpu::Gpu;
use super::memory::WgpuMemory;
use super::program::WgpuProgram;
use super::tune::{Tuner, Tuning};
use gradloom_codegen::pipeline::{Code, Precision, Target};
use gradloom_codegen::wgsl::Unit;
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion};
use gradloom_core::ir::Graph;
use gradloom_core::plan::Plan;
use gradloom_device::backend::{Backend, Loaded};
use gradloom_device::content::StoreMemory;
use gradloom_device::host::Pool;
use gradloom_device::memory::{Allocate, Memory, counted};
use gradloom_device::queue::cuts;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct WgpuBackend {
    gpu: Arc<Gpu>,
    target: Target,
    /// Tuner for programs in the device's own precision; `None` if kernels are not measured.
    tuner: Option<Tuner>,
    pool: Arc<Pool>,
}

impl WgpuBackend {
    pub(crate) fn new(options: &WgpuOptions) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let gpu = Arc::new(open(options)?);
        let tuner = options.tuning.as_ref().map(|folder| Tuner::new(&gpu, options, folder));
        let target = Target::wgsl(gpu.limits, options.precision);
        Ok(Self { gpu, target, tuner, pool: Arc::new(Pool::new(threads)) })
    }

    /// Sets the fusion of ops into kernels, for tests.
    pub(crate) fn with_fusion(mut self, fusion: Fusion) -> Self {
        self.target.fusion = fusion;
        self
    }

    /// Returns the results of measuring so far; `None` if kernels are not measured.
    pub(crate) fn tuning(&self) -> Option<Tuning> {
        self.tuner.as_ref().map(Tuner::tuning)
    }
}

impl Backend for WgpuBackend {
    fn name(&self) -> &'static str {
        "wgpu"
    }

    fn description(&self) -> String {
        let report = &self.gpu.report;
        let precision = match self.target.precision() {
            Precision::F32 => "",
            Precision::F16 => ", in f16",
            Precision::Bf16 => ", in bf16 where it can",
            Precision::Tf32 | Precision::Tf32x3 => ", in f32, as it has no TF32",
        };
        format!("{} ({}, {}){precision}", report.name, report.backend, report.driver)
    }

    fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    fn memory_limit(&self) -> Option<u64> {
        // No limit is known, because wgpu does not report free memory.
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

    fn target(&self) -> &Target {
        &self.target
    }

    fn target_of(&self, graph: &Graph, fused: &Fused, precision: Precision) -> Target {
        let own = precision == self.target.precision();
        let Some(tuner) = self.tuner.as_ref().filter(|_| own) else {
            return self.target.in_precision(precision);
        };
        let mut target = self.target.clone().with_choices(tuner.choices());
        // Repeat until the choices no longer change: a measured choice may split a product into other parts,
        // which must be measured as well.
        loop {
            let measured = tuner.choices_for(&target.problems(graph, fused));
            if measured == target.choices {
                return target;
            }
            target.choices = measured;
        }
    }

    fn emit(&self, graph: &Graph, plan: &Plan, store: &StoreMemory) -> Result<Code> {
        self.gpu.check()?;
        let mut code = self.target.code(graph, plan, &cuts(plan, store, self.gpu.segment()))?;
        if let Some(change) = self.gpu.dispatch {
            let units = code.get_mut::<Vec<Unit>>()?;
            units.iter_mut().flat_map(|unit| &mut unit.dispatches).for_each(change);
        }
        Ok(code)
    }

    fn allocate(&self, bytes: u64) -> Option<Memory> {
        WgpuMemory::new(&self.gpu, counted(bytes)).map(Memory::of)
    }

    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &StoreMemory,
        allocate: Allocate<'_>,
    ) -> Result<Loaded> {
        let program = WgpuProgram::load(&self.gpu, graph, plan, code.get::<Vec<Unit>>()?, store, allocate)?;
        Ok(Loaded::Queued(Box::new(program)))
    }
}
