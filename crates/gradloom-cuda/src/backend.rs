//! Implementation of the backend trait for an open device.

use super::devices::open;
use super::gpu::Gpu;
use super::memory::CudaMemory;
use super::options::{CudaOptions, Mode};
use super::program::CudaProgram;
use gradloom_codegen::cuda::CudaKernel;
use gradloom_codegen::pipeline::{Code, Limits, Precision, Target};
use gradloom_core::error::Result;
use gradloom_core::fuse::Fused;
use gradloom_core::ir::Graph;
use gradloom_core::plan::Plan;
use gradloom_device::backend::{Backend, Loaded};
use gradloom_device::communicator::Communicator;
use gradloom_device::content::StoreMemory;
use gradloom_device::host::Pool;
use gradloom_device::memory::{Allocate, Memory, counted};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Clone, Debug)]
pub(crate) struct CudaBackend {
    gpu: Arc<Gpu>,
    target: Target,
    mode: Mode,
    pool: Arc<Pool>,
}

impl CudaBackend {
    pub(crate) fn new(options: &CudaOptions) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let gpu = Arc::new(open(options)?);
        let (mut target, mode) = (options.target(), options.mode);
        target.limits =
            Limits { library: target.limits.library, ..Limits::cuda_of(gpu.properties.capability) };
        Ok(Self { gpu, target, mode, pool: Arc::new(Pool::new(threads)) })
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn description(&self) -> String {
        let own = self.target.precision();
        let precision = match own {
            Precision::F32 => String::new(),
            Precision::F16 | Precision::Bf16 => format!(", in {}", own.name()),
            Precision::Tf32 | Precision::Tf32x3 => format!(", products in {}", own.name()),
        };
        let library = self.target.limits.library;
        let has_library = || library.is_some() && self.gpu.products().is_some();
        let products = match own {
            _ if library.is_none() => ", without cuBLASLt",
            // Do not open the library just for this text, since few programs have products large enough for
            // it.
            Precision::F32 | Precision::Tf32x3 => "",
            _ if has_library() => ", large products by cuBLASLt",
            _ => ", without cuBLASLt",
        };
        let (major, minor) = (self.gpu.version / 1000, self.gpu.version % 1000 / 10);
        let name = &self.gpu.properties.name;
        format!("{name} ({}, driver of CUDA {major}.{minor}){precision}{products}", self.gpu.architecture())
    }

    fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    fn memory_limit(&self) -> Option<u64> {
        self.gpu.ask("tell its free memory", |driver| driver.free_bytes()).ok().map(|bytes| bytes as u64)
    }

    fn check(&self) -> Result<()> {
        self.gpu.check()
    }

    fn kept_bytes(&self) -> Option<usize> {
        Some(self.gpu.kernels.found.load(Ordering::Relaxed))
    }

    fn communicator(&self) -> Option<&Arc<dyn Communicator>> {
        self.gpu.communicator()
    }

    fn in_world(&self, communicator: Arc<dyn Communicator>) -> Result<Arc<dyn Backend>> {
        self.gpu.join(communicator)?;
        Ok(Arc::new(self.clone()))
    }

    fn lose(&self) {
        self.gpu.lose("the GPU was lost: it was taken away".to_string());
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn target_of(&self, graph: &Graph, _: &Fused, precision: Precision) -> Target {
        self.target.in_precision(precision).for_graph(graph, || self.gpu.products().is_some())
    }

    fn allocate(&self, bytes: u64) -> Option<Memory> {
        CudaMemory::new(&self.gpu, counted(bytes)).map(Memory::of)
    }

    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &StoreMemory,
        allocate: Allocate<'_>,
    ) -> Result<Loaded> {
        let units = code.get::<Vec<CudaKernel>>()?;
        let program = CudaProgram::load(&self.gpu, graph, plan, units, store, allocate, self.mode)?;
        Ok(Loaded::Queued(Box::new(program)))
    }
}
