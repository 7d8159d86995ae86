//! Loading of a plan as a program that is ready to run.
//!
//! In: a graph, its plan, the shaders of its kernels, the store. Out: a [`WgpuProgram`]. The steps are:
//! allocate memory ([`Regions`]), create the pipelines, bind the memory, and run the hoisted launches once.

use super::gpu::Gpu;
use super::memory::on_device;
use super::pipelines::{Pipeline, refused};
use super::program::{Ready, WgpuProgram, early_submissions, encode};
use gradloom_codegen::step::{Owner, host_steps, pause};
use gradloom_codegen::wgsl::{Dispatch, Operands, Shader, Unit};
use gradloom_core::error::Result;
use gradloom_core::ir::Graph;
use gradloom_core::plan::Plan;
use gradloom_device::content::StoreMemory;
use gradloom_device::memory::{Allocate, counted};
use gradloom_device::queue::{Regions, Results, Stagings, Tables, bound_bytes, host_launches};
use gradloom_device::spans::Spans;
use std::collections::{HashSet, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding,
    CommandEncoderDescriptor,
};

impl WgpuProgram {
    /// Loads a plan.
    ///
    /// # Errors
    /// Returns an error if the device is lost, has too little memory, or rejects a kernel.
    pub(super) fn load(
        gpu: &Arc<Gpu>,
        graph: &Arc<Graph>,
        plan: &Arc<Plan>,
        units: &[Unit],
        store: &StoreMemory,
        with: Allocate<'_>,
    ) -> Result<Self> {
        gpu.check()?;
        let memory = Regions::new(graph, plan, store, gpu.segment(), with)?;
        let shaders: Vec<Shader<'_>> = units.iter().flat_map(Unit::shaders).collect();

        let texts: Vec<(&Operands, &Dispatch)> = shaders.iter().map(|s| (s.operands, s.dispatch)).collect();
        let blame = |shader: usize, error| shaders[shader].owner.blame(plan, graph, error);
        let pipelines = gpu.pipelines.get(gpu, &texts, blame)?;

        let refused = |shader: &Shader<'_>, why: &wgpu::Error| {
            shader.owner.blame(plan, graph, refused(shader.dispatch, why))
        };
        // The tables can be dropped at the end, because bind groups keep their buffers alive.
        let tables = Tables::new(shaders.iter().copied(), with)?;
        let mut next_table = tables.iter();
        let mut ready = Vec::with_capacity(shaders.len());
        for (shader, pipeline) in shaders.iter().zip(pipelines) {
            let places = bound_bytes(shader, &memory, &mut next_table);
            let places = places
                .iter()
                .map(|place| (&on_device(place.memory).buffer, place.start as u64, place.bytes as u64));
            let bindings = gpu.validated(|| bind(gpu, &pipeline, Some(&shader.dispatch.label), places));
            let bindings = bindings.map_err(|error| refused(shader, &error))?;
            let workgroups = shader.dispatch.workgroups;
            ready.push(Ready { owner: shader.owner, pipeline, bindings, workgroups });
        }
        drop(next_table);
        if let Some((i, error)) = invalid(gpu, &ready) {
            return Err(refused(&shaders[i], &error));
        }

        let (once, steps): (Vec<Ready>, Vec<Ready>) =
            ready.into_iter().partition(|ready| matches!(ready.owner, Owner::Hoisted(_)));
        let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        encode(&mut encoder, &once, 0, None);
        gpu.submit(encoder)?;

        let parts: Vec<Owner> = steps.iter().map(|ready| ready.owner).collect();
        let pause = pause(plan, &parts);
        let host = host_launches(graph, plan, host_steps(graph, plan, &parts));
        let results = Results::new(graph, plan, memory.status());
        Ok(Self {
            gpu: Arc::clone(gpu),
            plan: Arc::clone(plan),
            memory,
            early: if host.is_empty() { early_submissions(pause) } else { Vec::new() },
            last_early: 0,
            host,
            pause,
            steps,
            scalars: vec![0; counted(plan.scalar_bytes())],
            changed_scalars: Vec::new(),
            bound: Vec::new(),
            uploads: 0,
            stagings: Arc::new(Stagings::new(results)),
            runs: 0,
            in_flight: VecDeque::new(),
            unique: texts.iter().map(|(_, dispatch)| &dispatch.source).collect::<HashSet<_>>().len(),
            table_bytes: tables.bytes(),
            profile: Spans::default(),
            times_steps: false,
            step_time: None,
            timestamps: None,
        })
    }
}

/// Returns the first dispatch that cannot be encoded, with the error. Each is tried on its own, because an
/// encoder reports only one error for all of its dispatches.
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

/// Creates the bind group of a shader from the buffer, start and size of each binding. The bind group keeps
/// its buffers alive.
pub(super) fn bind<'a>(
    gpu: &Gpu,
    pipeline: &Pipeline,
    label: Option<&str>,
    places: impl Iterator<Item = (&'a Buffer, u64, u64)>,
) -> BindGroup {
    let entry = |(binding, (buffer, offset, bytes))| {
        let size = NonZeroU64::new(bytes);
        let resource = BindingResource::Buffer(BufferBinding { buffer, offset, size });
        BindGroupEntry { binding, resource }
    };
    let entries: Vec<BindGroupEntry<'_>> = (0..).zip(places).map(entry).collect();
    let descriptor = BindGroupDescriptor { label, layout: &pipeline.bindings, entries: &entries };
    gpu.device.create_bind_group(&descriptor)
}
