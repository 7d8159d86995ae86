//! A program that the script of a web page runs.

use super::backend::check;
use super::host::{WebCopy, WebHost, WebKernel, WebRange};
use super::memory::WebMemory;
use gradloom_codegen::step::{Owner, pause};
use gradloom_codegen::wgsl::{Shader, Unit, writable};
use gradloom_core::collections::sort;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Access;
use gradloom_core::plan::{Plan, Region, Role};
use gradloom_device::backend::{Finished, Pending, Queued, Resident, Work};
use gradloom_device::cancel::Stop;
use gradloom_device::content::StoreMemory;
use gradloom_device::elements::Elements;
use gradloom_device::memory::{Allocate, DeviceMemory as _, Memory, counted};
use gradloom_device::queue::{Regions, Results, STATUS_BYTES, STEP_BYTES, Tables, bound_bytes};
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A program that was described to the script.
pub(super) struct WebProgram {
    host: Arc<dyn WebHost>,
    id: u32,
    plan: Arc<Plan>,
    memory: Regions,
    tables: Tables,
    /// Block of the step's scalars, which is written as a whole.
    scalars: Vec<u8>,
    results: Arc<Results>,
    runs: u64,
    work: Work,
    unique: usize,
}

/// Returns the memory as memory of a web page's device.
fn on_page(memory: &Memory) -> &WebMemory {
    memory.own()
}

impl WebProgram {
    /// Describes a plan to the script.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, or the scratch of a kernel exceeds the maximum size of
    /// a buffer.
    pub(super) fn load(
        host: &Arc<dyn WebHost>,
        segment: u64,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        units: &[Unit],
        store: &StoreMemory,
        with: Allocate<'_>,
    ) -> Result<Self> {
        let memory = Regions::new(graph, plan, store, segment, with)?;
        let shaders: Vec<Shader<'_>> = units.iter().flat_map(Unit::shaders).collect();
        let tables = Tables::new(shaders.iter().copied(), with)?;

        let status = on_page(memory.status());
        let results = Results::new(graph, plan, memory.status());
        let id = host.program(results.bytes(), status.range(0, STEP_BYTES as usize));
        let steps =
            shaders.iter().map(|shader| shader.owner).filter(|owner| !matches!(owner, Owner::Hoisted(_)));
        let steps: Vec<Owner> = steps.collect();
        let pause = pause(plan, &steps);
        let (mut next_table, mut next_step) = (tables.iter(), 0);
        for shader in &shaders {
            let once = matches!(shader.owner, Owner::Hoisted(_));
            let places = bound_bytes(shader, &memory, &mut next_table);
            let bindings: Vec<(WebRange, bool)> = places
                .iter()
                .map(|place| on_page(place.memory).range(place.start, place.bytes))
                .zip(writable(shader.operands, shader.dispatch))
                .collect();
            host.kernel(
                id,
                &WebKernel {
                    once,
                    late: !once && next_step >= pause,
                    label: &shader.dispatch.label,
                    source: &shader.dispatch.source,
                    workgroups: shader.dispatch.workgroups,
                    bindings: &bindings,
                },
            );
            next_step += usize::from(!once);
        }
        drop(next_table);
        for copy in results.copies(&memory) {
            let from = on_page(copy.memory).range(copy.start, copy.bytes);
            host.copy(id, &WebCopy { from, to: copy.to, late: false });
        }
        host.copy(id, &WebCopy { from: status.range(0, STATUS_BYTES), to: 0, late: true });

        let work = Work {
            dispatches: steps.len(),
            passes: usize::from(pause > 0) + usize::from(pause < steps.len()),
            submits: 1,
            host_ops: 0,
            readbacks: 0,
            uploads: 0,
            extra_bytes: 0,
        };
        let mut sources: Vec<&str> = shaders.iter().map(|shader| &shader.dispatch.source[..]).collect();
        sort(&mut sources);
        sources.dedup();
        let unique = sources.len();
        Ok(Self {
            host: Arc::clone(host),
            id,
            plan: Arc::clone(plan),
            scalars: vec![0; counted(plan.scalar_bytes())],
            results: Arc::new(results),
            memory,
            tables,
            runs: 0,
            work,
            unique,
        })
    }
}

impl WebProgram {
    fn extra_bytes(&self) -> u64 {
        (STATUS_BYTES + self.tables.bytes()) as u64
    }
}

impl Drop for WebProgram {
    fn drop(&mut self) {
        self.host.drop_program(self.id);
    }
}

impl Queued for WebProgram {
    fn make_room(&mut self, _: Stop<'_>) -> Result<()> {
        // Return immediately, because the script waits for earlier steps before it requests another one.
        Ok(())
    }

    fn submit(&mut self, _: Stop<'_>, _: &[(usize, Arc<Memory>)]) -> Result<Box<dyn Pending>> {
        check(&*self.host)?;
        if !self.scalars.is_empty() {
            let (arena, start) = self.memory.place(Region::Step, 0);
            on_page(arena).write(start, &self.scalars)?;
        }
        let ticket = self.host.submit(self.id);
        let run = self.runs;
        self.runs += 1;
        Ok(Box::new(WebPending {
            host: Arc::clone(&self.host),
            results: Arc::clone(&self.results),
            ticket,
            run,
        }))
    }

    fn work(&self) -> Work {
        Work { extra_bytes: self.extra_bytes(), ..self.work }
    }
}

impl Resident for WebProgram {
    fn write(&mut self, buffer: usize, bytes: &[u8]) {
        let buffer = &self.plan.buffers[buffer];
        assert_eq!(bytes.len() as u64, buffer.bytes, "the feed was checked");
        if buffer.role == Role::Scalar {
            self.scalars[counted(buffer.offset)..][..bytes.len()].copy_from_slice(bytes);
        } else if !bytes.is_empty() {
            let (memory, start) = self.memory.place(buffer.region, buffer.offset);
            // Ignore a failed write, which is reported when the step is submitted or read.
            let _ = on_page(memory).write(start, bytes);
        }
    }

    fn read(&self, access: &Access, _: &mut Elements) -> Result<()> {
        let buffer = &self.plan.buffers[self.plan.buffer_of[&access.buffer]];
        on_page(self.memory.place(buffer.region, buffer.offset).0).read(0, &mut [])
    }

    fn allocated(&self) -> u64 {
        self.memory.planned() + self.extra_bytes()
    }

    fn unique_kernels(&self) -> usize {
        self.unique
    }
}

/// A submitted step whose results the script provides.
#[derive(Debug)]
struct WebPending {
    host: Arc<dyn WebHost>,
    results: Arc<Results>,
    ticket: u32,
    run: u64,
}

impl Pending for WebPending {
    fn run(&self) -> u64 {
        self.run
    }

    fn poll(&mut self, _: &Waker) -> Poll<()> {
        // The results have arrived, because the script polls only after it has waited for them.
        Poll::Ready(())
    }

    fn wait(self: Box<Self>) -> Result<Finished> {
        let Some(bytes) = self.host.results(self.ticket) else {
            check(&*self.host)?;
            let message = "results were asked for before the device gave them";
            return Err(Error::new(ErrorKind::Internal, message));
        };
        self.results.finished(&bytes)
    }
}

impl Drop for WebPending {
    fn drop(&mut self) {
        self.host.drop_results(self.ticket);
    }
}
