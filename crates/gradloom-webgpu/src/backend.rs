//! Implementation of the backend trait for a web page's device.

use super::host::WebHost;
use super::memory::WebMemory;
use super::program::WebProgram;
use gradloom_codegen::pipeline::{Code, Limits, Precision, Target};
use gradloom_codegen::wgsl::Unit;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Graph;
use gradloom_core::plan::{ALIGNMENT, Plan};
use gradloom_device::backend::{Backend, Loaded};
use gradloom_device::content::StoreMemory;
use gradloom_device::host::Pool;
use gradloom_device::memory::{Allocate, Memory};
use gradloom_device::queue::cuts;
use std::sync::Arc;

/// Checks that the device had no errors.
///
/// # Errors
/// Returns an error if the script reports that results of the device cannot be relied on.
pub(super) fn check(host: &dyn WebHost) -> Result<()> {
    let lost = |why| {
        Error::new(ErrorKind::Lost, format!("the GPU was lost: {why}"))
            .help("compile the model again, and upload the parameters that were downloaded last")
    };
    host.trouble().map_or(Ok(()), |why| Err(lost(why)))
}

#[derive(Debug)]
pub(crate) struct WebBackend {
    host: Arc<dyn WebHost>,
    target: Target,
    buffer_bytes: u64,
    pool: Arc<Pool>,
}

impl WebBackend {
    pub(crate) fn new(host: Arc<dyn WebHost>, limits: Limits, buffer_bytes: u64) -> Self {
        let target = Target::wgsl(limits, Precision::F32);
        Self { host, target, buffer_bytes, pool: Arc::new(Pool::new(1)) }
    }

    /// Returns the maximum size of a buffer in bytes, a multiple of the plan's alignment. Larger memory is
    /// split into several buffers.
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

    fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    fn memory_limit(&self) -> Option<u64> {
        // No limit is known, because WebGPU does not report free memory.
        None
    }

    fn buffer_bytes(&self) -> Option<u64> {
        Some(self.segment())
    }

    fn check(&self) -> Result<()> {
        check(&*self.host)
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn emit(&self, graph: &Graph, plan: &Plan, store: &StoreMemory) -> Result<Code> {
        self.target.code(graph, plan, &cuts(plan, store, self.segment()))
    }

    fn allocate(&self, bytes: u64) -> Option<Memory> {
        Some(Memory::of(WebMemory::new(&self.host, usize::try_from(bytes).ok()?)))
    }

    fn load(
        &self,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        code: &Code,
        store: &StoreMemory,
        allocate: Allocate<'_>,
    ) -> Result<Loaded> {
        let program = WebProgram::load(
            &self.host,
            self.segment(),
            graph,
            plan,
            code.get::<Vec<Unit>>()?,
            store,
            allocate,
        )?;
        Ok(Loaded::Queued(Box::new(program)))
    }
}
