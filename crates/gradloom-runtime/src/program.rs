//! A compiled graph on a device, with a store.
//!
//! In: a graph after the passes. Out: a [`Program`] that takes inputs and scalars and returns outputs.
//! Invariant: a run that fails before the commit changes no persistent state.

mod debug;
mod evaluate;
mod fits;
mod not_finite;

pub use debug::{DebugRun, Retention};
pub(crate) use evaluate::tensor as host_tensor;

use crate::store::{Initial, Store, lost};
use gradloom_codegen::pipeline::{BackEnd, Clock};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::fuse;
use gradloom_core::ir::{CollectiveOp, DType, Graph, Number, Op, OpId, OpKind, Type};
use gradloom_core::kernel::{Access, Kernel, Launch};
use gradloom_core::optim::RANK;
use gradloom_core::plan::{self, Plan};
use gradloom_device::backend::{Backend, Immediate, Loaded, Pending, Queued, Work};
use gradloom_device::cancel::Stop;
use gradloom_device::elements::{Elements, output};
use gradloom_device::feed::Data;
use gradloom_device::memory::Memory;
use gradloom_device::memory::counted;
use gradloom_device::outcome::Outcome;
use gradloom_device::spans::LaunchSpan;
use gradloom_device::{Device, DeviceTensor};
use std::sync::Arc;

/// Warns, once per process, that a build without optimization is slow.
#[cfg(unoptimized)]
fn warn_once() {
    static SAID: std::sync::Once = std::sync::Once::new();
    SAID.call_once(|| {
        eprintln!(
            "gradloom: built without optimisation, training is about 100 times slower. Build with --release, \
             or put this into Cargo.toml:\n\n[profile.dev.package.\"*\"]\nopt-level = 3\n"
        );
    });
}

/// Compiled program that is loaded on a device.
pub struct Program {
    graph: Arc<Graph>,
    plan: Arc<Plan>,
    stages: Arc<BackEnd>,
    store: Store,
    device: Device,
    loaded: Loaded,
    inputs: Vec<Port>,
    scalars: Vec<Port>,
}

/// Buffer that the caller fills.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) ty: Type,
    buffer: usize,
}

impl Port {
    /// Converts a per-step scalar to bytes; `value` returns the value of a scalar by name.
    fn scalar_bytes(&self, value: impl Fn(&str) -> Option<Number>) -> Result<[u8; 4]> {
        let Some(number) = value(&self.name) else {
            return Err(Error::new(ErrorKind::Internal, format!("nothing sets the scalar `{}`", self.name)));
        };
        Ok(match (self.ty.dtype, number) {
            (DType::F32, n) => (n.as_f64() as f32).to_ne_bytes(),
            (DType::I32, n) => (n.as_f64() as i32).to_ne_bytes(),
            (DType::U32, n) => (n.as_f64() as u32).to_ne_bytes(),
            // Return an internal error, because the verifier rejects scalars of these types.
            (dtype @ (DType::Bool | DType::F16 | DType::BF16 | DType::U8 | DType::I64), _) => {
                let message = format!("the scalar `{}` is {dtype}: scalars have 32 bits", self.name);
                return Err(Error::new(ErrorKind::Internal, message));
            }
        })
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("launches", &self.plan.launches.len()).finish_non_exhaustive()
    }
}

impl Program {
    /// Lowers, plans and loads a graph. For each parameter that the store does not have yet, `initial`
    /// overwrites zeros with the initial values. The store grows only if everything succeeds.
    ///
    /// # Errors
    /// Returns an error if the store has an entry of the same name with another type, if no valid plan
    /// exists, or if there is not enough memory.
    pub fn load(
        graph: Graph,
        device: &Device,
        store: &Store,
        initial: impl Fn(&str, &Type, &mut [f32]) -> Result<()>,
    ) -> Result<Self> {
        Self::load_replanned(graph, device, store, &initial, &|plan| plan)
    }

    /// Like [`Program::load`], but with the plan that `change` returns.
    pub(crate) fn load_replanned(
        graph: Graph,
        device: &Device,
        store: &Store,
        initial: Initial<'_>,
        change: &dyn Fn(Plan) -> Plan,
    ) -> Result<Self> {
        device.backend().check()?;
        device.target().check_precision()?;
        #[cfg(unoptimized)]
        warn_once();
        let backend = device.backend();
        verify_graph(&graph, "passes")?;
        check_ranks(&graph, device)?;
        let graph = Arc::new(graph);
        let mut clock = Clock::default();
        let fused = clock.stage("fuse", || fuse(&graph, backend.target().fusion))?;
        let lowered = clock.stage("lower", || {
            Ok(backend.target_of(&graph, &fused, device.precision()).lower(&graph, fused.clone()))
        })?;
        let load = |clock: &mut Clock| -> Result<(Arc<Plan>, Loaded)> {
            let mut growth = store.grow(&graph)?;
            let plan = clock.stage("plan", || {
                let limit = backend.memory_limit();
                let plan = plan::plan(&graph, lowered.clone(), growth.layout(), limit)?;
                // Leave an eighth of the memory for kernels, graphs and tables.
                let ample = limit.map(|limit| limit - limit / 8);
                let plan = change(side_by_side(plan, &**backend, |wide| fits::check(wide, ample).is_ok()));
                let plan = match backend.buffer_bytes() {
                    Some(segment) => plan.in_segments(&graph, segment, true)?,
                    None => plan,
                };
                plan::verify_commit(&graph, &plan)?;
                check_order(&graph, &plan)?;
                fits::check(&plan, limit)?;
                Ok(Arc::new(plan))
            })?;
            let allocate = |bytes| backend.allocate(bytes);
            growth.allocate(&allocate, initial)?;
            let memory = growth.memory();
            let code = clock.stage("emit", || backend.emit(&graph, &plan, &memory))?;
            let loaded = clock.stage("load", || backend.load(&graph, &plan, &code, &memory, &allocate))?;
            growth.commit();
            Ok((plan, loaded))
        };
        // If the device was lost meanwhile, report that instead of the lack of memory that it causes.
        let (plan, loaded) = load(&mut clock).map_err(|error| backend.check().err().unwrap_or(error))?;
        let times = clock.times().to_vec();
        let stages = Arc::new(BackEnd { fused, lowered, plan: Arc::clone(&plan), times });
        let port = |kind: &OpKind| match kind {
            OpKind::Input { name, ty } => Some((false, name.clone(), ty.clone())),
            OpKind::Scalar { name, dtype } => Some((true, name.clone(), Type::scalar(*dtype))),
            _ => None,
        };
        let (mut inputs, mut scalars) = (Vec::new(), Vec::new());
        for (_, op) in graph.entry_ops() {
            let Some((is_scalar, name, ty)) = port(&op.kind) else { continue };
            let port = Port { name, ty, buffer: plan.buffer_of[&op.results[0]] };
            if is_scalar { scalars.push(port) } else { inputs.push(port) }
        }
        let (store, device) = (store.clone(), device.clone());
        Ok(Self { graph, plan, stages, store, device, loaded, inputs, scalars })
    }

    /// Returns the graph from which the program was lowered.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the plan: the launches of the program, and the location of each buffer.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the name and type of each output, in the order of the plan, which stores an i64 as two words.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.graph.outputs.iter().map(|output| (output.name.as_str(), self.graph.ty(output.value)))
    }

    /// Returns the results of the compilation stages after the passes.
    pub fn stages(&self) -> &Arc<BackEnd> {
        &self.stages
    }

    /// Returns a shared handle to the store with the program's parameters and states.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the number of bytes allocated to load the program, excluding the store.
    pub fn allocated(&self) -> u64 {
        self.loaded.resident().allocated()
    }

    /// Returns the work per step on an asynchronous device; `None` for other devices.
    pub fn work(&self) -> Option<Work> {
        match &self.loaded {
            Loaded::Immediate(_) => None,
            Loaded::Queued(program) => Some(program.work()),
        }
    }

    /// Returns the number of distinct kernels.
    pub fn unique_kernels(&self) -> usize {
        self.loaded.resident().unique_kernels()
    }

    pub(crate) fn replay(&self) -> Option<gradloom_codegen::cuda::Replay> {
        self.loaded.resident().replay(self.graph())
    }

    /// Starts or stops recording the time of each launch. Recording reads the clock twice per launch. A
    /// device that runs nothing records nothing.
    pub fn set_profiling(&mut self, on: bool) {
        self.loaded.resident_mut().set_profiling(on);
    }

    /// Returns the times of the launches of the last run, in the order in which they ran; empty if they were
    /// not recorded. A run that ended early has fewer.
    pub fn spans(&self) -> &[LaunchSpan] {
        self.loaded.resident().spans()
    }

    /// Starts or stops timing whole runs with the GPU's clock, from the first kernel to the last. Graphs are
    /// still replayed while this is on.
    pub fn set_step_timing(&mut self, on: bool) {
        self.loaded.resident_mut().set_step_timing(on);
    }

    /// Waits for the last run, and returns its time on the GPU. Returns `None` if it was not timed, and on
    /// devices without timestamps: the CPU, and some adapters.
    ///
    /// # Errors
    /// Returns an error if the device is lost.
    pub fn step_time(&self) -> Result<Option<std::time::Duration>> {
        self.loaded.resident().step_time()
    }

    /// Sets the elements of an input (row-major, native byte order). Required before every run, because a run
    /// may overwrite them.
    pub(crate) fn set_input(&mut self, name: &str, bytes: &[u8]) {
        if let Some(port) = self.inputs.iter().find(|port| port.name == name) {
            self.loaded.resident_mut().write(port.buffer, bytes);
        }
    }

    /// Sets the inputs, by name, to data that was checked. Required before every run, because a run may
    /// overwrite them.
    ///
    /// # Errors
    /// Returns an error if the data is on a device and cannot be accessed.
    pub(crate) fn feed<'a>(&mut self, data: impl Iterator<Item = (&'a str, &'a Data<'a>)>) -> Result<()> {
        self.loaded.resident_mut().unbind();
        for (name, data) in data {
            if let Data::Device(tensor) = data {
                if let Some(port) = self.inputs.iter().find(|port| port.name == name) {
                    let resident = self.loaded.resident_mut();
                    resident.bind(port.buffer, tensor.bytes(), tensor.memory())?;
                }
                continue;
            }
            self.set_input(name, &data.bytes()?);
        }
        Ok(())
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        self.device.backend()
    }

    /// Returns the device, set to the program's precision.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns a function for the values of all scalars: the rank, and those that `value` returns.
    fn with_rank<'v>(
        &self,
        value: impl Fn(&str) -> Option<Number> + 'v,
    ) -> impl Fn(&str) -> Option<Number> + 'v {
        let rank = Number::Int(self.device.rank() as i64);
        move |name| if name == RANK { Some(rank) } else { value(name) }
    }

    /// Sets the per-step scalars; `value` returns the value of a scalar by name. Required before every run,
    /// because a run may overwrite them.
    pub(crate) fn set_scalars(&mut self, value: impl Fn(&str) -> Option<Number>) -> Result<()> {
        let value = self.with_rank(value);
        for port in &self.scalars {
            self.loaded.resident_mut().write(port.buffer, &port.scalar_bytes(&value)?);
        }
        Ok(())
    }

    /// Runs the program. `outputs` receives the bytes of each output, in the order of the plan; it is cleared
    /// if there is an error.
    ///
    /// # Errors
    /// Returns an error if a trap occurred or the run was stopped, in which case nothing took effect; or
    /// [`ErrorKind::Lost`], in which case the store must be restored.
    pub(crate) fn run(&mut self, stop: Stop<'_>, outputs: &mut Vec<Elements>) -> Result<Outcome> {
        self.run_and_read(stop, outputs, None)
    }

    /// Like [`Program::run`], but also copies the bytes of each guard to `guards`.
    pub(crate) fn run_and_read(
        &mut self,
        stop: Stop<'_>,
        outputs: &mut Vec<Elements>,
        guards: Option<&mut Vec<Elements>>,
    ) -> Result<Outcome> {
        let Loaded::Immediate(program) = &mut self.loaded else {
            let finished = self.submit(stop)?.expect("steps are queued").wait()?;
            *outputs = finished.outputs;
            if let Some(guards) = guards {
                *guards = finished.guards;
            }
            return finished.outcome;
        };
        let commits = !self.graph.updates.is_empty();
        let plan = &self.plan;
        // Allocate before anything is computed, so that no step runs if there is no memory for its results.
        let room = make_room(&plan.outputs, outputs);
        let outcome = room.and_then(|()| {
            run_now(&mut **program, &self.store, commits, stop, |program| {
                read_all(program, &plan.outputs, outputs)?;
                if let Some(guards) = guards {
                    make_room(&plan.guards, guards)?;
                    read_all(program, &plan.guards, guards)?;
                }
                Ok(())
            })
        });
        program.unbind();
        if outcome.is_err() {
            outputs.clear();
        }
        self.told(outcome)
    }

    /// Returns the result of a step. If it is an error and the step has collective ops, ends the world: this
    /// rank has left out some of them, and would take part in those of another step.
    fn told<T>(&self, result: Result<T>) -> Result<T> {
        let is_collective = |(_, op): (OpId, &Op)| matches!(op.kind, OpKind::Collective { .. });
        if let (Err(error), Some(communicator)) = (&result, self.backend().communicator())
            && self.graph.entry_ops().any(is_collective)
        {
            communicator.fail(error);
        }
        result
    }

    /// Runs the program, and leaves its first `count` outputs on the device; other outputs are not read. On
    /// an asynchronous device, the run is queued and this function returns immediately, unless the run can
    /// trap, or one of the outputs is a view, which is copied through the host.
    ///
    /// # Errors
    /// Returns the same errors as [`Program::run`]. Also returns an error if there is no memory for the
    /// tensors.
    pub(crate) fn run_on_device(
        &mut self,
        stop: Stop<'_>,
        count: usize,
    ) -> Result<(Outcome, Vec<DeviceTensor>)> {
        let types: Vec<Type> = self.outputs().take(count).map(|(_, ty)| ty.clone()).collect();
        let new = |ty: &Type| DeviceTensor::new(self.backend(), ty.clone());
        let tensors: Vec<DeviceTensor> = types.iter().map(new).collect::<Result<_>>()?;
        let kept: Vec<(usize, Arc<Memory>)> =
            tensors.iter().map(|tensor| Arc::clone(tensor.memory())).enumerate().collect();
        let commits = !self.graph.updates.is_empty();
        let outcome = match &mut self.loaded {
            Loaded::Immediate(program) => {
                let outputs = &self.plan.outputs;
                let outcome = run_now(&mut **program, &self.store, commits, stop, |program| {
                    kept.iter().try_for_each(|(output, tensor)| program.copy_out(&outputs[*output].1, tensor))
                });
                program.unbind();
                self.told(outcome)?
            }
            Loaded::Queued(program) if kept.iter().all(|(output, _)| program.can_keep(*output)) => {
                let can_trap = self.graph.ops.iter().any(|(_, op)| self.graph.can_trap(op));
                let pending = self.submit_keeping(stop, &kept)?.expect("steps are queued");
                // If the run can trap, wait for it, because no other run may read the tensors of a run that
                // trapped.
                if can_trap { pending.wait()?.outcome? } else { Outcome::Committed }
            }
            Loaded::Queued(_) => {
                let mut outputs = Vec::new();
                let outcome = self.run(stop, &mut outputs)?;
                for ((_, tensor), elements) in kept.iter().zip(&outputs) {
                    tensor.write(0, elements)?;
                }
                outcome
            }
        };
        Ok((outcome, tensors))
    }

    /// Queues a run on an asynchronous device; returns `None` on other devices.
    ///
    /// # Errors
    /// Returns an error if the store or the device is lost, or if the run was stopped before it was queued.
    pub(crate) fn submit(&mut self, stop: Stop<'_>) -> Result<Option<Box<dyn Pending>>> {
        self.submit_keeping(stop, &[])
    }

    /// Like [`Program::submit`], but keeps outputs on the device; see
    /// [`gradloom_device::backend::Queued::submit`].
    fn submit_keeping(
        &mut self,
        stop: Stop<'_>,
        kept: &[(usize, Arc<Memory>)],
    ) -> Result<Option<Box<dyn Pending>>> {
        let Loaded::Queued(program) = &mut self.loaded else { return Ok(None) };
        let commits = !self.graph.updates.is_empty();
        let pending = queue(&mut **program, &self.store, commits, stop, kept);
        program.unbind();
        self.told(pending).map(Some)
    }
}

/// Adapts a plan to a device that runs launches concurrently. Returns the original plan if the adapted one is
/// not `good`, and for other devices.
pub(crate) fn side_by_side(plan: Plan, backend: &dyn Backend, good: impl Fn(&Plan) -> bool) -> Plan {
    match backend.target().reuse_distance() {
        distance if distance > 0 => {
            let wide = plan.clone().side_by_side(distance);
            if good(&wide) { wide } else { plan }
        }
        _ => plan,
    }
}

/// Queues a step of a program on an asynchronous device.
fn queue(
    program: &mut dyn Queued,
    store: &Store,
    commits: bool,
    stop: Stop<'_>,
    kept: &[(usize, Arc<Memory>)],
) -> Result<Box<dyn Pending>> {
    // Wait for room before locking the store, so that others can read the store meanwhile.
    program.make_room(stop)?;
    let _turn = store.take_turn_unless(stop)?;
    if !commits {
        store.read_lock().check_sound()?;
        return program.submit(stop, kept);
    }
    let mut content = store.write_lock();
    content.check_sound()?;
    let pending = program.submit(stop, kept)?;
    content.begin_commit();
    content.end_commit();
    Ok(pending)
}

/// Runs a step of a program on a synchronous device. `read` is called between compute and commit, to read the
/// results.
fn run_now(
    program: &mut dyn Immediate,
    store: &Store,
    commits: bool,
    stop: Stop<'_>,
    read: impl FnOnce(&dyn Immediate) -> Result<()>,
) -> Result<Outcome> {
    let _turn = if commits { Some(store.take_turn_unless(stop)?) } else { None };
    {
        let content = store.read_lock();
        content.check_sound()?;
        program.compute(stop)?;
        read(program)?;
        // Check regions first: as in the reference evaluator, a region out of range is an error even if a
        // guard fails.
        program.check_commit()?;
        if let Some(guard) = program.failed_guard()? {
            return Ok(Outcome::NotFinite { guard: guard.to_string() });
        }
    }
    if commits {
        stop.check()?;
        let mut content = store.write_lock();
        // If a kernel panics or fails after this point, the store remains lost.
        content.begin_commit();
        program.commit().map_err(|error| match error.kind() {
            // The rank that failed says more than the loss of a state that no rank goes on with.
            ErrorKind::World => error,
            _ => lost().note(error.message().to_string()),
        })?;
        content.end_commit();
    }
    Ok(Outcome::Committed)
}

/// Reads the elements of each access into the memory allocated for them.
fn read_all(program: &dyn Immediate, list: &[(String, Access)], into: &mut [Elements]) -> Result<()> {
    list.iter().zip(into).try_for_each(|((_, access), elements)| program.read(access, elements))
}

/// Allocates memory for the elements of each access; it is reused from run to run.
fn make_room(list: &[(String, Access)], rooms: &mut Vec<Elements>) -> Result<()> {
    rooms.resize_with(list.len(), Elements::default);
    for ((name, access), room) in list.iter().zip(rooms) {
        room.make_room(counted(fits::host_bytes(access)), &output(name))?;
    }
    Ok(())
}

/// Compiles a graph without parameters or states, and runs it once. Inputs are f32, in the order of the input
/// leaves; outputs are f32, in the order of the graph's outputs.
///
/// # Errors
/// Returns the same errors as [`Program::load`]. Also returns an error if the number of inputs or the size of
/// one is wrong, or if a trap occurs.
pub fn run_once(graph: Graph, device: &Device, inputs: &[Vec<f32>]) -> Result<Vec<Vec<f32>>> {
    verify_graph(&graph, "trace")?;
    let (graph, _) = gradloom_core::passes::run(graph);
    let store = Store::of(device);
    let no_parameters = |name: &str, _: &Type, _: &mut [f32]| {
        Err(Error::new(
            ErrorKind::Store,
            format!("`{name}` is a parameter: compile the graph with a trainer"),
        ))
    };
    let mut program = Program::load(graph, device, &store, no_parameters)?;
    if program.inputs.len() != inputs.len() {
        return Err(Error::new(
            ErrorKind::Feed,
            format!("{} inputs for {}", inputs.len(), program.inputs.len()),
        ));
    }
    for (port, elements) in program.inputs.clone().iter().zip(inputs) {
        let data = gradloom_device::feed::Data::from(elements);
        data.check(&gradloom_core::trace::Input { name: port.name.clone(), ty: port.ty.clone() }, 1)?;
        program.set_input(&port.name, &data.bytes()?);
    }
    let mut results = Vec::new();
    program.run(Stop::default(), &mut results)?;
    let outputs = program.outputs().zip(&mut results);
    outputs.map(|((name, ty), elements)| elements.take_f32(ty.dtype, &output(name))).collect()
}

/// Returns the values, by name, of the scalars that key the random numbers of a run. The key contains only
/// the low 32 bits of `run`, because no training reaches four billion steps.
pub(crate) fn random_key(seed: u64, run: u64) -> impl Fn(&str) -> Option<Number> {
    move |name| {
        let word = match name {
            "rng.seed_lo" => seed as u32,
            "rng.seed_hi" => (seed >> 32) as u32,
            "rng.step" => run as u32,
            _ => return None,
        };
        Some(Number::Int(word.into()))
    }
}

/// Runs the graph verifier between stages, in every build, because the memory safety of the CPU's kernels
/// depends on it and on the plan verifier.
pub(crate) fn verify_graph(graph: &Graph, stage: &str) -> Result<()> {
    gradloom_core::verify::verify(graph)
        .map_err(|error| Error::new(ErrorKind::Verify, format!("after the stage `{stage}`: {error}")))
}

/// Checks that the collective ops and the shards of a graph are for the device's world.
fn check_ranks(graph: &Graph, device: &Device) -> Result<()> {
    for (_, op) in graph.entry_ops() {
        let ranks = match &op.kind {
            OpKind::Collective { ranks, .. } => *ranks,
            OpKind::State { ty, whole, .. } if !whole.is_empty() => {
                whole.iter().product::<usize>() / ty.shape.elements()
            }
            _ => continue,
        };
        if ranks != device.ranks() {
            let message = format!(
                "`{}` is over {ranks} ranks, and the device's world has {}",
                op.kind.name(),
                device.ranks()
            );
            return Err(Error::new(ErrorKind::Device, message)
                .help("compile for a device of that world: `device.in_world(..)`"));
        }
    }
    Ok(())
}

/// Checks that nothing traps after the ranks have told each other whether they have trapped. Otherwise some
/// ranks would commit a step that others do not.
fn check_order(graph: &Graph, plan: &Plan) -> Result<()> {
    let is_checked = |launch: &Launch| {
        matches!(launch.kernel, Kernel::Op(OpKind::Collective { op: CollectiveOp::CheckedAllReduce, .. }))
    };
    let Some(last) = plan.launches.iter().rposition(is_checked) else { return Ok(()) };
    match plan.launches[last..].iter().find(|launch| launch.kernel.can_trap(graph, launch.op)) {
        None => Ok(()),
        Some(launch) => {
            let message =
                format!("`{}` may trap after the ranks have agreed on the step", launch.kernel.name());
            Err(Error::new(ErrorKind::Internal, message))
        }
    }
}

#[cfg(test)]
mod tests;
