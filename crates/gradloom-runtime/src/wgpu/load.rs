//! From a plan to a program that is ready to run.
//!
//! In: a graph, its plan, the store. Out: a [`WgpuProgram`]. The way: memory ([`Regions`]), kernels as text ([`units`]), pipelines, bindings ([`Binder`]), and
//! one run of what never changes.

use super::gpu::Gpu;
use super::pending::Results;
use super::pipelines::{Pipeline, refused};
use super::program::{Ready, WgpuProgram, encode};
use super::regions::{Regions, allocate, on_device};
use super::status::STATUS_BYTES;
use crate::memory::{Allocate, Memory};
use crate::profile::Profile;
use crate::store::Content;
use gradloom_codegen::wgsl::{Bound, Choices, Context, Dispatch, Operands, Shaders, guards, shaders};
use gradloom_core::error::{Error, Result};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::{Access, Kernel, Launch};
use gradloom_core::plan::{Plan, Region};
use std::collections::{HashSet, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, BufferBinding, CommandEncoderDescriptor,
};

/// What a kernel is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A launch that runs once, by its number among those.
    Hoisted(usize),
    /// A launch of the step.
    Launch(usize),
    /// What decides whether the step commits.
    Guards,
}

impl Part {
    fn launch(self, plan: &Plan) -> Option<&Launch> {
        match self {
            Self::Hoisted(i) => Some(&plan.hoisted[i]),
            Self::Launch(i) => Some(&plan.launches[i]),
            Self::Guards => None,
        }
    }

    /// An error of a kernel, with the place in the user's source that it computes.
    fn blame(self, plan: &Plan, graph: &Graph, error: Error) -> Error {
        let op = self.launch(plan).map(|launch| &graph.ops[launch.op]);
        match op.and_then(|op| Some((graph.origin(op)?, op))) {
            Some((origin, op)) => error.at(origin.clone(), op.kind.name()),
            None => error,
        }
    }
}

/// Some shaders over the same operands.
struct Unit {
    part: Part,
    shaders: Shaders,
}

/// One shader of a unit.
#[derive(Clone, Copy)]
struct Shader<'a> {
    part: Part,
    operands: &'a Operands,
    dispatch: &'a Dispatch,
}

impl Shader<'_> {
    fn refused(&self, plan: &Plan, graph: &Graph, why: &wgpu::Error) -> Error {
        self.part.blame(plan, graph, refused(self.dispatch, why))
    }
}

impl WgpuProgram {
    /// Loads a plan.
    ///
    /// # Errors
    /// When the device is lost, has not enough memory, or refuses a kernel.
    pub(super) fn load(
        gpu: &Arc<Gpu>,
        choices: &Choices,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        store: &Content,
        with: Allocate<'_>,
    ) -> Result<Self> {
        gpu.check()?;
        let memory = Regions::new(graph, plan, store, gpu.segment(), with)?;
        let context = Context { plan, graph, limits: &gpu.limits, choices, cuts: &memory.cuts() };
        let units = units(gpu, &context)?;
        let shaders: Vec<Shader<'_>> = units.iter().flat_map(Unit::shaders).collect();

        let texts: Vec<(&Operands, &Dispatch)> = shaders.iter().map(|s| (s.operands, s.dispatch)).collect();
        let blame = |shader: usize, error| shaders[shader].part.blame(plan, graph, error);
        let pipelines = gpu.pipelines.get(gpu, &texts, blame)?;

        let mut binder = Binder { gpu, memory: &memory, with, tables: Vec::new() };
        let mut ready = Vec::with_capacity(shaders.len());
        for (shader, pipeline) in shaders.iter().zip(pipelines) {
            let bindings = gpu.validated(|| binder.bind(&pipeline, shader));
            let bindings = bindings.map_err(|error| shader.refused(plan, graph, &error))??;
            ready.push(Ready {
                part: shader.part,
                pipeline,
                bindings,
                workgroups: shader.dispatch.workgroups,
            });
        }
        let tables = binder.tables;
        if let Some((i, error)) = invalid(gpu, &ready) {
            return Err(shaders[i].refused(plan, graph, &error));
        }

        let (once, steps): (Vec<Ready>, Vec<Ready>) =
            ready.into_iter().partition(|ready| matches!(ready.part, Part::Hoisted(_)));
        let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        encode(&mut encoder, &once, 0, None);
        gpu.submit(encoder)?;

        let results = Results::new(gpu, graph, plan, &memory.status().buffer);
        Ok(Self {
            gpu: Arc::clone(gpu),
            plan: Arc::clone(plan),
            memory,
            pause: pause(plan, &steps),
            steps,
            scalars: vec![0; plan.scalar_bytes()],
            changed_scalars: Vec::new(),
            results: Arc::new(results),
            runs: 0,
            in_flight: VecDeque::new(),
            unique: texts.iter().map(|(_, dispatch)| &dispatch.source).collect::<HashSet<_>>().len(),
            table_bytes: tables.iter().map(Memory::len).sum(),
            profile: Profile::default(),
            timestamps: None,
        })
    }
}

/// The kernels of a plan: those that run once, then a step's in order, with the guards between its phases.
fn units(gpu: &Gpu, context: &Context<'_>) -> Result<Vec<Unit>> {
    let plan = context.plan;
    let of = |part: fn(usize) -> Part, number: usize, launch: &Launch| -> Result<Vec<Unit>> {
        let shaders = shaders(launch, number, context)?;
        Ok(shaders.into_iter().map(|shaders| Unit { part: part(number), shaders }).collect())
    };
    let all = |part: fn(usize) -> Part, launches: &[Launch]| -> Result<Vec<Vec<Unit>>> {
        launches.iter().enumerate().map(|(number, launch)| of(part, number, launch)).collect()
    };
    let hoisted = all(Part::Hoisted, &plan.hoisted)?;
    let mut step = all(Part::Launch, &plan.launches)?;
    if let Some(launch) = plan.launches.first()
        && decides(plan, step.iter().flatten())
    {
        let guards = Unit { part: Part::Guards, shaders: guards(launch, context)? };
        step.insert(plan.first_commit(), vec![guards]);
    }
    let mut units: Vec<Unit> = hoisted.into_iter().chain(step).flatten().collect();
    if let Some(change) = gpu.dispatch {
        units.iter_mut().flat_map(|unit| &mut unit.shaders.dispatches).for_each(change);
    }
    Ok(units)
}

impl Unit {
    fn shaders(&self) -> impl Iterator<Item = Shader<'_>> {
        let Self { part, shaders: Shaders { operands, dispatches } } = self;
        dispatches.iter().map(|dispatch| Shader { part: *part, operands, dispatch })
    }
}

/// The first dispatch that cannot be encoded, and why: an encoder says it of all of its dispatches together.
fn invalid(gpu: &Gpu, all: &[Ready]) -> Option<(usize, wgpu::Error)> {
    let tried = |some: &[Ready]| {
        let tried = gpu.validated(|| {
            let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
            encode(&mut encoder, some, 0, None);
            encoder.finish()
        });
        tried.err()
    };
    tried(all)?;
    all.chunks(1).enumerate().find_map(|(i, one)| Some((i, tried(one)?)))
}

/// Whether anything can keep a step from its commit, or from being a success.
fn decides<'a>(plan: &Plan, mut step: impl Iterator<Item = &'a Unit>) -> bool {
    let traps = |shader: Shader<'_>| shader.dispatch.bindings.contains(&Bound::Status { writable: true });
    let windows = |launch: &Launch| launch.kernel == Kernel::WriteRegion;
    !plan.guards.is_empty() || plan.launches.iter().any(windows) || step.any(|unit| unit.shaders().any(traps))
}

/// The first dispatch that is run in a pass of its own, because the store's values from before it are results: guards that are parameters
/// themselves.
fn pause(plan: &Plan, steps: &[Ready]) -> usize {
    let stored = |access: &Access| plan.buffers[plan.buffer_of[&access.buffer]].region == Region::Store;
    if !plan.guards.iter().any(|(_, access)| stored(access)) {
        return steps.len();
    }
    let commits = |ready: &Ready| matches!(ready.part, Part::Launch(launch) if launch >= plan.first_commit());
    steps.iter().position(commits).unwrap_or(steps.len())
}

/// Makes bind groups, with the tables that shaders have of their own.
struct Binder<'a> {
    gpu: &'a Gpu,
    memory: &'a Regions,
    with: Allocate<'a>,
    tables: Vec<Memory>,
}

impl Binder<'_> {
    /// What a shader binds. The group keeps its buffers alive.
    fn bind(&mut self, pipeline: &Pipeline, shader: &Shader<'_>) -> Result<BindGroup> {
        let first = self.tables.len();
        for bound in &shader.dispatch.bindings {
            if let Bound::Table(numbers) = bound {
                let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                let table = allocate(self.with, bytes.len(), "tables")?;
                table.write(0, &bytes)?;
                self.tables.push(table);
            }
        }
        let mut tables = self.tables[first..].iter();
        let mut entries = Vec::new();
        for (i, bound) in shader.dispatch.bindings.iter().enumerate() {
            let (memory, start, bytes) = match bound {
                Bound::Operand(i) => {
                    let binding = &shader.operands.bindings[*i];
                    let (memory, start) = self.memory.place(binding.region, binding.range.start);
                    (memory, start, binding.range.len())
                }
                Bound::Piece(i, bytes) => {
                    let binding = &shader.operands.bindings[*i];
                    let (memory, start) = self.memory.place(binding.region, binding.range.start);
                    (memory, start + bytes.start, bytes.len())
                }
                Bound::Workspace(range) => {
                    let (memory, start) = self.memory.scratch(range.start);
                    (memory, start, range.len())
                }
                Bound::Table(numbers) => {
                    (on_device(tables.next().expect("it was made above")), 0, 4 * numbers.len())
                }
                Bound::Status { .. } => (self.memory.status(), 0, STATUS_BYTES),
            };
            let size = NonZeroU64::new((bytes as u64).next_multiple_of(4)).expect("bindings are not empty");
            let binding = BufferBinding { buffer: &memory.buffer, offset: start as u64, size: Some(size) };
            entries.push(BindGroupEntry { binding: i as u32, resource: BindingResource::Buffer(binding) });
        }
        Ok(self.gpu.device.create_bind_group(&BindGroupDescriptor {
            label: Some(&shader.dispatch.label),
            layout: &pipeline.bindings,
            entries: &entries,
        }))
    }
}
