//! A program on a GPU: its memory, its loaded kernels, and the graph that a step launches. If the host runs
//! custom ops in between, there are several graphs.

use super::clock::Clock;
use super::driver::Call;
use super::exchange::Exchange;
use super::gpu::{Gpu, Mark};
use super::graph::Replayed;
use super::memory::{CudaMemory, HostBuffer, on_device};
use super::nvtx;
use super::pending::PendingStep;
use gradloom_codegen::cuda::{Member, Replay};
use gradloom_codegen::step::{Owner, Status};
use gradloom_core::error::Result;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Access;
use gradloom_core::plan::{Plan, Region, Role, Totals};
use gradloom_device::backend::{Pending, Queued, Resident, Work};
use gradloom_device::cancel::Stop;
use gradloom_device::elements::{Elements, zeroed};
use gradloom_device::memory::{DeviceMemory as _, Memory, counted};
use gradloom_device::queue::{
    HostLaunch, HostSpan, Regions, STATUS_BYTES, STEP_BYTES, Stagings, check_window,
};
use gradloom_device::spans::{LaunchSpan, Spans};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of steps in flight, enough for the device never to wait for the host.
pub(super) const IN_FLIGHT: usize = 4;

/// A program, created in `load.rs`.
pub(super) struct CudaProgram {
    pub(super) gpu: Arc<Gpu>,
    pub(super) plan: Arc<Plan>,
    pub(super) memory: Regions,
    /// Kernels of the step, and the memory that they access.
    pub(super) replay: Replay,
    /// Call for each node of `replay`.
    pub(super) calls: Vec<Call>,
    /// A graph for each segment; empty if kernels are launched one by one.
    pub(super) graphs: Vec<Replayed>,
    /// Launches that run on the host, one after each segment but the last.
    pub(super) host: Vec<HostLaunch>,
    pub(super) exchange: Exchange,
    /// Tables of numbers that kernels read.
    pub(super) tables: Vec<Memory>,
    /// Block of the step's scalars, which is at the start of the arena.
    pub(super) scalars: Vec<u8>,
    /// Ranges of `scalars` that were set since the last step or launch.
    pub(super) changed_scalars: Vec<Range<usize>>,
    /// Indices of inputs, with the tensors that a step copies to them.
    pub(super) bound: Vec<(usize, Arc<Memory>)>,
    /// Number of times that input data was copied from the host.
    pub(super) uploads: usize,
    pub(super) stagings: Arc<Stagings<HostBuffer>>,
    pub(super) runs: u64,
    /// Ends of the steps in flight, oldest first.
    pub(super) in_flight: VecDeque<Arc<Mark>>,
    pub(super) unique: usize,
    pub(super) profile: Spans,
    /// Clock with the start and the end of a whole step, if steps are timed.
    pub(super) clock: Option<Clock>,
    /// True if both points of `clock` belong to the last step.
    pub(super) is_timed: bool,
    /// True if arena and scratch are filled with NaN before each step; see [`Mode`](super::options::Mode).
    pub(super) poisoned: bool,
}

impl CudaProgram {
    fn place(&self, buffer: usize) -> (&CudaMemory, usize) {
        let buffer = &self.plan.buffers[buffer];
        let (memory, start) = self.memory.place(buffer.region, buffer.offset);
        (on_device(memory), start)
    }

    /// Returns the memory and offset of an access's first element.
    fn place_of(&self, access: &Access) -> (&CudaMemory, usize) {
        let (memory, start) = self.place(self.plan.buffer_of[&access.buffer]);
        (memory, start + access.layout.offset * access.dtype.bytes())
    }

    fn status(&self) -> &CudaMemory {
        on_device(self.memory.status())
    }

    /// Launches a kernel of a step. If a kernel other than the first is rejected, the device is marked as
    /// lost, because the step has already run in part, perhaps including its commit.
    ///
    /// # Errors
    /// Returns an error if the device is lost or rejects the kernel.
    pub(super) fn launch(&self, kernel: usize) -> Result<()> {
        self.gpu.run(&self.calls[kernel]).map_err(|error| {
            if kernel > 0 {
                self.gpu.lose(format!("the GPU cut a step off: {}", error.message()));
            }
            self.gpu.check().err().unwrap_or(error)
        })
    }

    /// Waits for the device and runs an op on the host, unless the step has trapped.
    ///
    /// # Errors
    /// Returns an error if the op fails (a trap), the device is lost, or there is not enough memory.
    pub(super) fn run_on_host(&self, host: &HostLaunch) -> Result<()> {
        let mut status = [0; STATUS_BYTES];
        self.status().read(0, &mut status)?;
        if Status::new(&status).trap().is_some() {
            return Ok(());
        }
        let read = |span: &HostSpan| {
            let mut bytes = zeroed(span.length(), &"an operand of an op on the host")?;
            let mut words = span.on_host()?;
            if !bytes.is_empty() {
                let (memory, start) = self.memory.place(span.region, span.bytes.start);
                memory.read(start, &mut bytes)?;
            }
            HostSpan::fill(&bytes, &mut words);
            Ok(words)
        };
        let operands: Vec<Vec<u64>> = host.reads.iter().map(read).collect::<Result<_>>()?;
        host.call(&self.memory, self.stagings.results(), &operands)
    }

    /// Clears the words of the status that belong to a single step.
    fn clear_status(&self) -> Result<()> {
        let (at, stream) = (self.status().at(0), self.gpu.stream);
        self.gpu.ask("clear the status", |driver| driver.fill(at, 0, STEP_BYTES as usize, stream))
    }

    /// Fills arena and scratch with NaN, for tests.
    fn poison(&self) -> Result<()> {
        let Totals { step, workspace, .. } = self.plan.totals;
        let fill = |memory: &Memory, bytes: u64| {
            let (at, stream) = (on_device(memory).at(0), self.gpu.stream);
            self.gpu.ask("fill memory", |driver| driver.fill(at, 0xff, counted(bytes), stream))
        };
        if step > 0 {
            fill(self.memory.place(Region::Step, 0).0, step)?;
        }
        if workspace > 0 { fill(self.memory.scratch(0).0, workspace) } else { Ok(()) }
    }

    fn extra_bytes(&self) -> u64 {
        let tables: usize = self.tables.iter().map(Memory::len).sum();
        (STATUS_BYTES + tables + self.exchange.extra_bytes()) as u64
    }
}

impl Queued for CudaProgram {
    fn make_room(&mut self, stop: Stop<'_>) -> Result<()> {
        while self.in_flight.len() >= IN_FLIGHT {
            self.in_flight[0].wait(stop)?;
            self.in_flight.pop_front();
        }
        Ok(())
    }

    fn can_keep(&self, output: usize) -> bool {
        let access = &self.plan.outputs[output].1;
        // The output is copied after the commit, so it can be kept only if the commit does not overwrite it.
        let buffer = &self.plan.buffers[self.plan.buffer_of[&access.buffer]];
        let bytes = buffer.offset..buffer.offset + buffer.bytes;
        let meets = |(memory, range): &(usize, Range<u64>)| {
            *memory == buffer.region as usize && range.start < bytes.end && bytes.start < range.end
        };
        let commit = self.replay.nodes.iter().skip_while(|node| node.member != Member::Results);
        access.layout.is_contiguous() && !commit.flat_map(|node| &node.touches.writes).any(meets)
    }

    fn submit(&mut self, stop: Stop<'_>, kept: &[(usize, Arc<Memory>)]) -> Result<Box<dyn Pending>> {
        self.gpu.check()?;
        stop.check()?;
        self.changed_scalars.clear();
        if self.poisoned {
            self.poison()?;
        }
        self.exchange.set_scalars(&self.scalars);
        // An earlier step whose results are not needed may still write the buffer, because steps run in
        // order.
        let staging = self.stagings.take(|bytes| HostBuffer::new(&self.gpu, bytes, "results"))?;
        self.exchange.hand_over(&self.plan, &self.memory, &staging, kept.is_empty())?;
        for (input, tensor) in &self.bound {
            let (to, start) = self.place(*input);
            let (from, bytes) = (on_device(tensor), counted(self.plan.buffers[*input].bytes));
            let stream = self.gpu.stream;
            self.gpu.ask("copy an input", |driver| driver.copy(from.at(0), to.at(start), bytes, stream))?;
        }
        let _range = nvtx::range(|| format!("step {}", self.runs));
        self.is_timed = false;
        if let Some(clock) = &mut self.clock {
            clock.set(0)?;
        }
        if self.profile.on {
            self.run_profiled(stop)?;
        } else {
            for (i, segment) in self.replay.segments.iter().enumerate() {
                match self.graphs.get(i) {
                    Some(graph) => {
                        self.gpu
                            .ask("start a step", |driver| driver.launch_graph(graph.exec, self.gpu.stream))?;
                    }
                    None => segment.clone().try_for_each(|kernel| self.launch(kernel))?,
                }
                if i == 0 {
                    self.exchange.advance();
                }
                if let Some(host) = self.host.get(i) {
                    stop.check()?;
                    self.run_on_host(host)?;
                }
            }
        }
        if let Some(clock) = &mut self.clock {
            clock.set(1)?;
            self.is_timed = true;
        }
        for (output, tensor) in kept {
            let access = &self.plan.outputs[*output].1;
            let bytes = access.layout.shape.elements() * access.dtype.bytes();
            let ((from, start), to, stream) = (self.place_of(access), on_device(tensor), self.gpu.stream);
            if bytes > 0 {
                self.gpu
                    .ask("keep a result", |driver| driver.copy(from.at(start), to.at(0), bytes, stream))?;
            }
        }
        let run = self.runs;
        self.runs += 1;
        let end = Arc::new(self.gpu.mark()?);
        self.in_flight.push_back(Arc::clone(&end));
        Ok(Box::new(PendingStep::new(&self.gpu, &self.stagings, run, staging, end)))
    }

    fn work(&self) -> Work {
        Work {
            dispatches: self.calls.len(),
            passes: self.replay.segments.len(),
            submits: self.replay.segments.len(),
            host_ops: self.host.len(),
            readbacks: self.stagings.readbacks(),
            uploads: self.uploads,
            extra_bytes: self.extra_bytes(),
        }
    }
}

impl Resident for CudaProgram {
    fn write(&mut self, buffer: usize, bytes: &[u8]) {
        let planned = &self.plan.buffers[buffer];
        assert_eq!(bytes.len() as u64, planned.bytes, "the feed was checked");
        if planned.role == Role::Scalar {
            let start = counted(planned.offset);
            let range = start..start + bytes.len();
            self.scalars[range.clone()].copy_from_slice(bytes);
            self.changed_scalars.push(range);
            return;
        }
        if bytes.is_empty() {
            return;
        }
        self.uploads += 1;
        if !self.exchange.set(buffer, bytes) {
            let (memory, start) = self.place(buffer);
            // Ignore a loss, which is reported when the step is submitted.
            let _ = memory.write(start, bytes);
        }
    }

    fn bind(&mut self, buffer: usize, bytes: u64, tensor: &Arc<Memory>) -> Result<()> {
        assert_eq!(bytes, self.plan.buffers[buffer].bytes, "the feed was checked");
        if bytes > 0 {
            self.bound.push((buffer, Arc::clone(tensor)));
        }
        Ok(())
    }

    fn unbind(&mut self) {
        self.bound.clear();
    }

    fn run_one(&mut self, launch: usize) -> Result<()> {
        check_window(&self.plan, launch, self.stagings.results(), |access, into| self.read(access, into))?;
        self.exchange.flush(&self.plan, &self.memory)?;
        // Only changed scalars are written, because the memory of the others may already hold later values.
        for range in self.changed_scalars.drain(..) {
            let (arena, start) = self.memory.place(Region::Step, range.start as u64);
            arena.write(start, &self.scalars[range])?;
        }
        self.clear_status()?;
        for (node, call) in self.replay.nodes.iter().zip(&self.calls) {
            if node.member == Member::Planned(Owner::Launch(launch)) {
                self.gpu.run(call)?;
            }
        }
        if let Some(host) = self.host.iter().find(|host| host.launch == launch) {
            self.run_on_host(host)?;
        }
        let mut status = [0; STATUS_BYTES];
        self.status().read(0, &mut status)?;
        let trap = Status::new(&status).trap();
        trap.map_or(Ok(()), |trap| self.stagings.results().outcome(trap).map(|_| ()))
    }

    fn read(&self, access: &Access, into: &mut Elements) -> Result<()> {
        self.memory.read(&self.plan, access, into)
    }

    fn allocated(&self) -> u64 {
        self.memory.planned() + self.extra_bytes()
    }

    fn unique_kernels(&self) -> usize {
        self.unique
    }

    fn replay(&self, _: &Graph) -> Option<Replay> {
        Some(self.replay.clone())
    }

    fn set_profiling(&mut self, on: bool) {
        self.profile.set(on, self.plan.launches.len());
        self.is_timed = false;
    }

    fn spans(&self) -> &[LaunchSpan] {
        self.profile.spans()
    }

    fn set_step_timing(&mut self, on: bool) {
        self.clock = on.then(|| Clock::new(&self.gpu));
        self.is_timed = false;
    }

    fn step_time(&self) -> Result<Option<Duration>> {
        let clock = self.clock.as_ref().filter(|_| self.is_timed);
        clock.map(|clock| clock.between(0, 1)).transpose()
    }
}

impl Drop for CudaProgram {
    fn drop(&mut self) {
        // Wait for the device, which may still be using the resources that are released here.
        let _ = self.gpu.wait_for_all();
        self.gpu.give_back(|driver| self.graphs.iter().for_each(|graph| graph.destroy(driver)));
    }
}
