//! The null device, which compiles, lowers and plans every model but runs nothing. It is used to test the
//! compiler and to plan models that do not fit this machine.

use crate::backend::{Backend, Immediate, Loaded, Resident, no_world};
use crate::cancel::Stop;
use crate::communicator::Communicator;
use crate::content::StoreMemory;
use crate::elements::Elements;
use crate::host::Pool;
use crate::memory::Allocate;
use gradloom_codegen::cuda::Replay;
use gradloom_codegen::pipeline::{Code, Target};
use gradloom_core::error::Result;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Access;
use gradloom_core::plan::Plan;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct NullBackend {
    pub(crate) target: Target,
    pub(crate) communicator: Option<Arc<dyn Communicator>>,
}

impl Backend for NullBackend {
    fn name(&self) -> &'static str {
        "null"
    }

    fn description(&self) -> String {
        "plans only".to_string()
    }

    fn pool(&self) -> Arc<Pool> {
        Arc::new(Pool::new(1))
    }

    fn is_resident(&self) -> bool {
        false
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn communicator(&self) -> Option<&Arc<dyn Communicator>> {
        self.communicator.as_ref()
    }

    fn in_world(&self, communicator: Arc<dyn Communicator>) -> Result<Arc<dyn Backend>> {
        if !self.target.can_communicate() {
            return Err(no_world(self.target.name()));
        }
        Ok(Arc::new(Self { target: self.target.clone(), communicator: Some(communicator) }))
    }

    fn emit(&self, _: &Graph, _: &Plan, _: &StoreMemory) -> Result<Code> {
        Ok(Code::default())
    }

    fn load(
        &self,
        _: &Arc<Graph>,
        plan: &Arc<Plan>,
        _: &Code,
        _: &StoreMemory,
        _: Allocate<'_>,
    ) -> Result<Loaded> {
        let (plan, target) = (Arc::clone(plan), self.target.clone());
        Ok(Loaded::Immediate(Box::new(NullProgram { plan, target, recorded: 0 })))
    }
}

/// A program that only counts launches.
struct NullProgram {
    plan: Arc<Plan>,
    target: Target,
    recorded: usize,
}

impl Resident for NullProgram {
    fn write(&mut self, _: usize, _: &[u8]) {}

    fn run_one(&mut self, _: usize) -> Result<()> {
        self.recorded += 1;
        Ok(())
    }

    fn read(&self, access: &Access, into: &mut Elements) -> Result<()> {
        // Append NaN, which cannot be mistaken for a result, because nothing was computed.
        for _ in 0..access.layout.shape.elements() {
            into.push(&f32::NAN.to_le_bytes()[..access.dtype.bytes()]);
        }
        Ok(())
    }

    fn allocated(&self) -> u64 {
        0
    }

    fn unique_kernels(&self) -> usize {
        crate::outcome::unique_kernels(&self.plan)
    }

    fn replay(&self, graph: &Graph) -> Option<Replay> {
        self.target.replay(graph, &self.plan)
    }
}

impl Immediate for NullProgram {
    fn compute(&mut self, _: Stop<'_>) -> Result<()> {
        self.recorded += self.plan.launches.len();
        Ok(())
    }

    fn check_commit(&self) -> Result<()> {
        Ok(())
    }

    fn failed_guard(&self) -> Result<Option<&str>> {
        Ok(None)
    }

    fn commit(&mut self) -> Result<()> {
        Ok(())
    }
}
