//! The backend: a page's device behind the runtime's traits.

use super::host::WebHost;
use super::memory::WebMemory;
use super::program::WebProgram;
use crate::backend::{Backend, Loaded};
use crate::cpu::Pool;
use crate::gpu::cuts;
use crate::memory::{Allocate, Memory};
use crate::store::Content;
use gradloom_codegen::pipeline::Code;
use gradloom_codegen::wgsl::{self, Choices, Context, Limits, Precision};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::{Fused, Fusion};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Lowered;
use gradloom_core::plan::{ALIGNMENT, Plan};
use std::sync::Arc;

/// # Errors
/// When the device cannot be relied on.
pub(super) fn check(host: &dyn WebHost) -> Result<()> {
    let lost = |why| {
        Error::new(ErrorKind::Lost, format!("the GPU was lost: {why}"))
            .help("compile the model again, and upload the parameters that were downloaded last")
    };
    host.trouble().map_or(Ok(()), |why| Err(lost(why)))
}

/// A page's GPU.
#[derive(Debug)]
pub(crate) struct WebBackend {
    host: Arc<dyn WebHost>,
    limits: Limits,
    buffer_bytes: u64,
    pool: Arc<Pool>,
}

impl WebBackend {
    pub(crate) fn new(host: Arc<dyn WebHost>, limits: Limits, buffer_bytes: u64) -> Self {
        Self { host, limits, buffer_bytes, pool: Arc::new(Pool::new(1)) }
    }

    /// Bytes of the buffers into which larger memory is cut.
    fn segment(&self) -> u64 {
        (self.buffer_bytes / ALIGNMENT * ALIGNMENT).max(ALIGNMENT)
    }
}

impl Backend for WebBackend {
    fn name(&self) -> &'static str {
        "webgpu"
    }

    fn description(&self) -> String {
        "WebGPU of a browser".to_string()
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
        // WebGPU does not report free memory.
        None
    }

    fn buffer_bytes(&self) -> Option<u64> {
        Some(self.segment())
    }

    fn check(&self) -> Result<()> {
        check(&*self.host)
    }

    #[cfg(feature = "files")]
    fn target(&self) -> gradloom_codegen::pipeline::Target {
        gradloom_codegen::pipeline::Target::Wgsl(gradloom_codegen::pipeline::Gpu::new(self.limits))
    }

    fn fusion(&self) -> Fusion {
        wgsl::FUSION
    }

    fn lower(&self, graph: &Graph, fused: Fused, precision: Precision) -> Result<Lowered> {
        Ok(wgsl::lower_fused(graph, fused, &self.limits, &Choices::by_rule(precision)))
    }

    fn emit(&self, graph: &Graph, plan: &Plan, store: &Content) -> Result<Code> {
        let cuts = cuts(plan, store, self.segment());
        Ok(Code::Wgsl(wgsl::units(&Context { plan, graph, limits: &self.limits, cuts: &cuts })?))
    }

    fn allocate(&self, bytes: u64) -> Option<Memory> {
        Some(Memory::Web(WebMemory::new(&self.host, usize::try_from(bytes).ok()?)))
    }

    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &Content,
        allocate: Allocate<'_>,
    ) -> Result<Loaded> {
        let program =
            WebProgram::load(&self.host, self.segment(), graph, plan, code.wgsl()?, store, allocate)?;
        Ok(Loaded::Queued(Box::new(program)))
    }
}
