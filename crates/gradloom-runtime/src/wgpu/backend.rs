//! The backend: an open device behind the runtime's traits.

use super::DeviceMemory;
use super::adapter::{Request, open};
use super::gpu::Gpu;
use super::program::WgpuProgram;
use crate::backend::{Backend, Loaded};
use crate::cpu::Pool;
use crate::memory::{Allocate, Memory};
use crate::store::Content;
use gradloom_codegen::wgsl;
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fusion, fuse};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Lowered;
use gradloom_core::plan::Plan;
use std::sync::Arc;

/// A GPU.
#[derive(Debug)]
pub(crate) struct WgpuBackend {
    gpu: Arc<Gpu>,
    fusion: Fusion,
    pool: Arc<Pool>,
}

impl WgpuBackend {
    pub(crate) fn new(request: &Request, fusion: Fusion) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { gpu: Arc::new(open(request)?), fusion, pool: Arc::new(Pool::new(threads)) })
    }
}

impl Backend for WgpuBackend {
    fn name(&self) -> &'static str {
        "wgpu"
    }

    fn description(&self) -> String {
        let report = &self.gpu.report;
        format!("{} ({}, {})", report.name, report.backend, report.driver)
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

    fn memory_limit(&self) -> Option<usize> {
        // Nobody says.
        None
    }

    fn buffer_bytes(&self) -> Option<usize> {
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

    fn lower(&self, graph: &Graph) -> Result<Lowered> {
        Ok(wgsl::lower_fused(graph, fuse(graph, self.fusion)?, &self.gpu.limits))
    }

    fn allocate(&self, bytes: usize) -> Option<Memory> {
        DeviceMemory::new(&self.gpu, bytes).map(Memory::Wgpu)
    }

    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        store: &Content,
        allocate: Allocate<'_>,
    ) -> Result<Box<dyn Loaded>> {
        Ok(Box::new(WgpuProgram::load(&self.gpu, graph, plan, store, allocate)?))
    }
}
