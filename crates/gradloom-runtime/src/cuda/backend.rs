//! The backend: an open device behind the runtime's traits.

use super::devices::open;
use super::gpu::Gpu;
use super::memory::CudaMemory;
use super::options::{CudaOptions, Mode};
use super::program::CudaProgram;
use crate::backend::{Backend, Loaded};
use crate::cpu::Pool;
use crate::gpu::cuts;
use crate::memory::{Allocate, Memory, counted};
use crate::store::Content;
use gradloom_codegen::cuda;
#[cfg(feature = "files")]
use gradloom_codegen::pipeline;
use gradloom_codegen::pipeline::Code;
use gradloom_codegen::wgsl::{self, Choices, Limits, Precision};
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Lowered;
use gradloom_core::plan::Plan;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An NVIDIA GPU.
#[derive(Debug)]
pub(crate) struct CudaBackend {
    gpu: Arc<Gpu>,
    precision: Precision,
    mode: Mode,
    library: Option<usize>,
    fusion: Fusion,
    pool: Arc<Pool>,
}

impl CudaBackend {
    pub(crate) fn new(options: &CudaOptions, fusion: Fusion) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (precision, mode) = (options.precision, options.mode);
        let gpu = Arc::new(open(options)?);
        let library = options.library;
        Ok(Self { gpu, precision, mode, library, fusion, pool: Arc::new(Pool::new(threads)) })
    }

    fn limits(&self, graph: &Graph, precision: Precision) -> Limits {
        // Where the library has nothing to do, opening it would only take time.
        let has_use = |least: &usize| cuda::may_use_library(graph, precision, *least);
        let library = self.library.filter(has_use).filter(|_| self.gpu.products().is_some());
        Limits { library, ..Limits::cuda() }
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn description(&self) -> String {
        let precision = match self.precision {
            Precision::F32 => String::new(),
            Precision::F16 | Precision::Bf16 => format!(", in {}", self.precision.name()),
            Precision::Tf32 | Precision::Tf32x3 => format!(", products in {}", self.precision.name()),
        };
        let has_library = || self.library.is_some() && self.gpu.products().is_some();
        let products = match self.precision {
            _ if self.library.is_none() => ", without cuBLASLt",
            // It is not opened for the few programs that are large enough.
            Precision::F32 | Precision::Tf32x3 => "",
            _ if has_library() => ", large products by cuBLASLt",
            _ => ", without cuBLASLt",
        };
        let (major, minor) = (self.gpu.version / 1000, self.gpu.version % 1000 / 10);
        let name = &self.gpu.properties.name;
        format!("{name} ({}, driver of CUDA {major}.{minor}){precision}{products}", self.gpu.architecture())
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
        self.gpu.ask("tell its free memory", |driver| driver.free_bytes()).ok().map(|bytes| bytes as u64)
    }

    fn reuse_distance(&self) -> usize {
        cuda::REUSE_DISTANCE
    }

    fn check(&self) -> Result<()> {
        self.gpu.check()
    }

    fn kept_bytes(&self) -> Option<usize> {
        Some(self.gpu.kernels.found.load(Ordering::Relaxed))
    }

    fn lose(&self) {
        self.gpu.lose("the GPU was lost: it was taken away".to_string());
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    #[cfg(feature = "files")]
    fn target(&self) -> pipeline::Target {
        pipeline::Target::Cuda(pipeline::Gpu::in_precision(Limits::cuda(), self.precision))
    }

    fn fusion(&self) -> Fusion {
        self.fusion
    }

    fn lower(&self, graph: &Graph, fused: Fused, precision: Precision) -> Result<Lowered> {
        Ok(wgsl::lower_fused(graph, fused, &self.limits(graph, precision), &Choices::by_rule(precision)))
    }

    fn emit(&self, graph: &Graph, plan: &Plan, store: &Content) -> Result<Code> {
        Ok(Code::Cuda(cuda::units(plan, graph, &cuts(plan, store, u64::MAX))?))
    }

    fn allocate(&self, bytes: u64) -> Option<Memory> {
        CudaMemory::new(&self.gpu, counted(bytes)).map(Memory::Cuda)
    }

    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &Content,
        allocate: Allocate<'_>,
    ) -> Result<Loaded> {
        let units = code.cuda()?;
        let program = CudaProgram::load(&self.gpu, graph, plan, units, store, allocate, self.mode)?;
        Ok(Loaded::Queued(Box::new(program)))
    }
}
