//! A program on a GPU: buffers as planned, shaders compiled, everything bound. A step encodes one pass and submits it.

use super::gpu::Gpu;
use super::memory::DeviceMemory;
use super::pending::{PendingStep, Results, STATUS_BYTES, gather};
use super::pipelines::Pipeline;
use super::timestamps::Timestamps;
use crate::backend::{Deferred, Loaded, Pending, Work};
use crate::cpu::fill_constant;
use crate::memory::{Allocate, Memory};
use crate::profile::{LaunchSpan, Profile};
use crate::store::Content;
use gradloom_codegen::wgsl::{Bound, Choices, Dispatch, Operands, Shaders, guards, shaders};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::{Access, Launch};
use gradloom_core::plan::{Plan, Region, Role};
use std::collections::HashMap;
use std::sync::Arc;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, BufferBinding, CommandEncoder,
    CommandEncoderDescriptor, ComputePassDescriptor,
};

/// One dispatch, ready to be encoded.
struct Ready {
    /// The launch that it is part of; none for the guards.
    launch: Option<usize>,
    pipeline: Arc<Pipeline>,
    bindings: BindGroup,
    workgroups: [u32; 3],
}

pub(super) struct WgpuProgram {
    gpu: Arc<Gpu>,
    plan: Arc<Plan>,
    memory: Regions,
    /// The step's dispatches, in order.
    steps: Vec<Ready>,
    /// The first one that is run in a pass of its own, because the store's values from before it are results: guards that are parameters themselves.
    pause: usize,
    /// The per-step block, which is written as a whole.
    scalars: Vec<u8>,
    results: Arc<Results>,
    unique: usize,
    profile: Profile,
    timestamps: Option<Timestamps>,
}

/// The memory behind each region.
struct Regions {
    store: Vec<(std::ops::Range<usize>, Arc<Memory>)>,
    arena: Memory,
    constants: Memory,
    scratch: Memory,
    status: Memory,
    /// Of dispatches that have one, by their numbers among all.
    tables: HashMap<usize, Memory>,
}

fn device(memory: &Memory) -> &DeviceMemory {
    match memory {
        Memory::Wgpu(memory) => memory,
        Memory::Host(_) => unreachable!("the backend allocates on the device"),
    }
}

impl Regions {
    /// The memory of a region's byte, and where it stands there.
    fn place(&self, region: Region, offset: usize) -> (&DeviceMemory, usize) {
        match region {
            Region::Step => (device(&self.arena), offset),
            Region::Constants => (device(&self.constants), offset),
            Region::Store => {
                let (range, memory) = self
                    .store
                    .iter()
                    .find(|(range, _)| range.contains(&offset))
                    .expect("the store was extended first");
                (device(memory), offset - range.start)
            }
        }
    }
}

impl WgpuProgram {
    pub(super) fn load(
        gpu: &Arc<Gpu>,
        choices: &Choices,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        store: &Content,
        allocate: Allocate<'_>,
    ) -> Result<Self> {
        gpu.health.check()?;
        let allocate = |bytes: usize, what: &str| {
            allocate(bytes).ok_or_else(|| {
                Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of {what} on the GPU"))
                    .help("make the batch or the context smaller")
            })
        };
        let mut memory = Regions {
            store: store_memory(plan, store),
            arena: allocate(plan.totals.step, "temporaries")?,
            constants: allocate(plan.totals.constants, "constants")?,
            scratch: allocate(plan.totals.workspace, "scratch")?,
            status: allocate(STATUS_BYTES, "status")?,
            tables: HashMap::new(),
        };
        fill_constants(graph, plan, device(&memory.constants))?;
        let compiled = |launches: &[Launch]| -> Result<Vec<Vec<Shaders>>> {
            launches
                .iter()
                .enumerate()
                .map(|(i, launch)| shaders(launch, i, plan, graph, &gpu.limits, choices))
                .collect()
        };
        let hoisted = compiled(&plan.hoisted)?;
        let mut launches = compiled(&plan.launches)?;
        if let Some(launch) = plan.launches.first()
            && decides(plan, &launches)
        {
            launches.insert(plan.first_commit(), vec![guards(plan, launch, &gpu.limits)?]);
        }
        let guards = launches.len() > plan.launches.len();
        // The plan's launch that an entry of both lists is; the hoisted ones and the guards are none.
        let number = |at: usize| match at.checked_sub(hoisted.len())? {
            at if !guards || at < plan.first_commit() => Some(at),
            at => (at > plan.first_commit()).then(|| at - 1),
        };
        let all: Vec<(usize, &Operands, &Dispatch)> = hoisted
            .iter()
            .chain(&launches)
            .enumerate()
            .flat_map(|(i, shaders)| shaders.iter().map(move |shaders| (i, shaders)))
            .flat_map(|(i, shaders)| shaders.dispatches.iter().map(move |d| (i, &shaders.operands, d)))
            .collect();
        let texts: Vec<(&Operands, &Dispatch)> = all.iter().map(|&(_, operands, d)| (operands, d)).collect();
        let origin = |shader: usize, error: Error| {
            let at = all[shader].0;
            let launch = plan.hoisted.get(at).or_else(|| number(at).map(|launch| &plan.launches[launch]));
            let op = launch.map(|launch| &graph.ops[launch.op]);
            match op.and_then(|op| Some((graph.origin(op)?, op))) {
                Some((origin, op)) => error.at(origin.clone(), op.kind.name()),
                None => error,
            }
        };
        let pipelines = gpu.pipelines.get(gpu, &texts, origin)?;
        for (i, (_, _, dispatch)) in all.iter().enumerate() {
            for bound in &dispatch.bindings {
                if let Bound::Table(numbers) = bound {
                    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                    let table = allocate(bytes.len(), "tables")?;
                    table.write(0, &bytes)?;
                    memory.tables.insert(i, table);
                }
            }
        }
        let mut ready: Vec<(usize, Ready)> = all
            .iter()
            .zip(pipelines)
            .enumerate()
            .map(|(i, (&(launch, operands, dispatch), pipeline))| {
                let bindings = bind(gpu, &memory, &pipeline, operands, dispatch, i);
                (launch, Ready { launch: None, pipeline, bindings, workgroups: dispatch.workgroups })
            })
            .collect();
        let unique = texts.iter().map(|(_, d)| &d.source).collect::<std::collections::HashSet<_>>().len();
        let at = ready.partition_point(|(launch, _)| *launch < hoisted.len());
        // The guards stand between the phases.
        let commit = hoisted.len() + plan.first_commit() + usize::from(guards);
        let stored = |access: &Access| plan.buffers[plan.buffer_of[&access.buffer]].region == Region::Store;
        let steps = ready.split_off(at);
        let pause = match plan.guards.iter().any(|(_, access)| stored(access)) {
            true => steps.partition_point(|(launch, _)| *launch < commit),
            false => steps.len(),
        };
        let steps: Vec<Ready> =
            steps.into_iter().map(|(at, ready)| Ready { launch: number(at), ..ready }).collect();
        let once: Vec<Ready> = ready.into_iter().map(|(_, ready)| ready).collect();
        let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        encode(&mut encoder, &once, 0, None);
        gpu.queue.submit([encoder.finish()]);
        gpu.health.check()?;
        let scalars =
            plan.buffers.iter().filter(|b| b.role == Role::Scalar).map(|b| b.offset + b.bytes).max();
        Ok(Self {
            gpu: Arc::clone(gpu),
            plan: Arc::clone(plan),
            memory,
            steps,
            pause,
            scalars: vec![0; scalars.unwrap_or(0)],
            results: Arc::new(Results::new(gpu, graph, plan)),
            unique,
            profile: Profile::default(),
            timestamps: None,
        })
    }
}

/// The store's memory that a plan uses, by the range of the store that it holds.
fn store_memory(plan: &Plan, store: &Content) -> Vec<(std::ops::Range<usize>, Arc<Memory>)> {
    let mut kept: Vec<(std::ops::Range<usize>, Arc<Memory>)> = Vec::new();
    for buffer in plan.buffers.iter().filter(|b| b.region == Region::Store) {
        let (memory, offset) = store.place(buffer.offset).expect("the store was extended first");
        if !kept.iter().any(|(_, known)| Arc::ptr_eq(known, &memory)) {
            let start = buffer.offset - offset;
            kept.push((start..start + memory.len().max(1), memory));
        }
    }
    kept
}

fn fill_constants(graph: &Graph, plan: &Plan, memory: &DeviceMemory) -> Result<()> {
    let mut bytes = vec![0; plan.totals.constants];
    for buffer in plan.buffers.iter().filter(|b| b.role == Role::Constant) {
        let op = graph.defining_op(buffer.value).expect("constants are ops");
        fill_constant(&op.kind, buffer, &mut bytes[buffer.offset..buffer.offset + buffer.bytes]);
    }
    memory.write(0, &bytes)
}

/// Whether anything can keep a step from its commit, or from being a success.
fn decides(plan: &Plan, launches: &[Vec<Shaders>]) -> bool {
    let traps = |dispatch: &Dispatch| dispatch.bindings.contains(&Bound::Status { writable: true });
    let windows = |launch: &Launch| launch.kernel == gradloom_core::kernel::Kernel::WriteRegion;
    !plan.guards.is_empty()
        || plan.launches.iter().any(windows)
        || launches.iter().flatten().flat_map(|shaders| &shaders.dispatches).any(traps)
}

fn bind(
    gpu: &Gpu,
    memory: &Regions,
    pipeline: &Pipeline,
    operands: &Operands,
    dispatch: &Dispatch,
    number: usize,
) -> BindGroup {
    let resource = |bound: &Bound| {
        let (memory, range) = match bound {
            Bound::Operand(i) => {
                let binding = &operands.bindings[*i];
                let (memory, start) = memory.place(binding.region, binding.range.start);
                (memory, start..start + binding.range.len())
            }
            Bound::Workspace(range) => (device(&memory.scratch), range.clone()),
            Bound::Table(numbers) => (device(&memory.tables[&number]), 0..4 * numbers.len()),
            Bound::Status { .. } => (device(&memory.status), 0..STATUS_BYTES),
        };
        let size = (range.len() as u64).next_multiple_of(4);
        let size = std::num::NonZeroU64::new(size).expect("bindings are not empty");
        BindingResource::Buffer(BufferBinding {
            buffer: &memory.buffer,
            offset: range.start as u64,
            size: Some(size),
        })
    };
    let entries: Vec<BindGroupEntry<'_>> = dispatch
        .bindings
        .iter()
        .enumerate()
        .map(|(i, bound)| BindGroupEntry { binding: i as u32, resource: resource(bound) })
        .collect();
    gpu.device.create_bind_group(&BindGroupDescriptor {
        label: Some(&dispatch.label),
        layout: &pipeline.bindings,
        entries: &entries,
    })
}

/// One pass with the dispatches in order, the first of which is number `first`; the device keeps those apart that touch the same bytes.
fn encode(encoder: &mut CommandEncoder, steps: &[Ready], first: usize, timestamps: Option<&Timestamps>) {
    if steps.is_empty() {
        return;
    }
    let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
    let mut last: Option<&Arc<Pipeline>> = None;
    if let Some(timestamps) = timestamps.filter(|_| first == 0) {
        timestamps.note(&mut pass, 0);
    }
    for (i, step) in steps.iter().enumerate() {
        if last.is_none_or(|last| !Arc::ptr_eq(last, &step.pipeline)) {
            pass.set_pipeline(&step.pipeline.pipeline);
            last = Some(&step.pipeline);
        }
        pass.set_bind_group(0, &step.bindings, &[]);
        let [x, y, z] = step.workgroups;
        pass.dispatch_workgroups(x, y, z);
        if let Some(timestamps) = timestamps {
            timestamps.note(&mut pass, first + i + 1);
        }
    }
}

impl Deferred for WgpuProgram {
    fn submit(&mut self) -> Result<Arc<dyn Pending>> {
        self.gpu.health.check()?;
        let arena = &device(&self.memory.arena).buffer;
        if !self.scalars.is_empty() {
            self.gpu.queue.write_buffer(arena, 0, &self.scalars);
        }
        let status = &device(&self.memory.status).buffer;
        let staging = self.results.staging()?;
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        encoder.clear_buffer(status, 0, None);
        let timestamps = self.timestamps.as_ref();
        encode(&mut encoder, &self.steps[..self.pause], 0, timestamps);
        for (access, range, to) in &self.results.copies {
            if !range.is_empty() {
                let buffer = &self.plan.buffers[self.plan.buffer_of[&access.buffer]];
                let (memory, start) = self.memory.place(buffer.region, buffer.offset + range.start);
                let bytes = range.len() as u64;
                encoder.copy_buffer_to_buffer(&memory.buffer, start as u64, &staging, *to as u64, bytes);
            }
        }
        encode(&mut encoder, &self.steps[self.pause..], self.pause, timestamps);
        if let Some(timestamps) = timestamps {
            timestamps.resolve(&mut encoder);
        }
        encoder.copy_buffer_to_buffer(status, 0, &staging, 0, STATUS_BYTES as u64);
        let submission = self.gpu.queue.submit([encoder.finish()]);
        self.gpu.health.check()?;
        if let Some(timestamps) = &self.timestamps {
            self.profile.clear();
            let launches: Vec<Option<usize>> = self.steps.iter().map(|step| step.launch).collect();
            timestamps.read(&self.gpu, submission.clone(), &launches, &mut self.profile)?;
        }
        Ok(Arc::new(PendingStep::new(&self.results, staging, submission)))
    }
}

impl Loaded for WgpuProgram {
    fn write(&mut self, buffer: usize, bytes: &[u8]) {
        let buffer = &self.plan.buffers[buffer];
        assert_eq!(bytes.len(), buffer.bytes, "the feed was checked");
        if buffer.role == Role::Scalar {
            self.scalars[buffer.offset..buffer.offset + bytes.len()].copy_from_slice(bytes);
            return;
        }
        if bytes.is_empty() {
            return;
        }
        let (memory, start) = self.memory.place(buffer.region, buffer.offset);
        if bytes.len().is_multiple_of(4) {
            self.gpu.queue.write_buffer(&memory.buffer, start as u64, bytes);
        } else {
            // Buffers are padded.
            let mut words = bytes.to_vec();
            words.resize(bytes.len().next_multiple_of(4), 0);
            self.gpu.queue.write_buffer(&memory.buffer, start as u64, &words);
        }
    }

    fn deferred(&mut self) -> Option<&mut dyn Deferred> {
        Some(self)
    }

    fn compute(&mut self) -> Result<()> {
        unreachable!("steps are queued whole")
    }

    fn failed_guard(&self) -> Result<Option<&str>> {
        unreachable!("steps are queued whole")
    }

    fn check_commit(&self) -> Result<()> {
        unreachable!("steps are queued whole")
    }

    fn commit(&mut self) -> Result<()> {
        unreachable!("steps are queued whole")
    }

    fn read(&self, access: &Access, into: &mut Vec<u8>) -> Result<()> {
        let buffer = &self.plan.buffers[self.plan.buffer_of[&access.buffer]];
        let size = access.dtype.bytes();
        let (start, end) = (access.layout.offset * size, access.layout.end() * size);
        if start >= end {
            return Ok(());
        }
        let (memory, at) = self.memory.place(buffer.region, buffer.offset);
        let mut bytes = vec![0; end - start];
        memory.read(at + start, &mut bytes)?;
        into.extend(gather(access, start, &bytes));
        Ok(())
    }

    fn allocated(&self) -> usize {
        let Regions { arena, constants, scratch, .. } = &self.memory;
        arena.len() + constants.len() + scratch.len() + self.work().map_or(0, |work| work.extra_bytes)
    }

    fn work(&self) -> Option<Work> {
        let passes = [&self.steps[..self.pause], &self.steps[self.pause..]];
        let tables: usize = self.memory.tables.values().map(Memory::len).sum();
        Some(Work {
            dispatches: self.steps.len(),
            passes: passes.into_iter().filter(|pass| !pass.is_empty()).count(),
            submits: 1,
            readbacks: self.results.readbacks(),
            extra_bytes: STATUS_BYTES + tables,
        })
    }

    fn unique_kernels(&self) -> usize {
        self.unique
    }

    fn set_profiling(&mut self, on: bool) {
        self.profile.set(on, self.plan.launches.len());
        // A device that has no memory for its clock is one without.
        let new = || Timestamps::new(&self.gpu, self.steps.len()).ok().flatten();
        self.timestamps = if on { new() } else { None };
    }

    fn spans(&self) -> &[LaunchSpan] {
        self.profile.spans()
    }
}
