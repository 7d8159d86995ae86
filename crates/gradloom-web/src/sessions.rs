//! Sessions, programs and steps, by their ids.
//!
//! In: traces, optimizers, data. Out: programs on a shared store, and steps whose results are read when they
//! arrive. Invariant: ids are not reused.

use crate::arguments::{Arguments, DTYPES};
use crate::browser::Browser;
use crate::commands::{Commands, Trace};
use crate::ids::Ids;
use crate::model::Model;
use crate::{optimizer, report};
use gradloom_codegen::pipeline::{Limits, Precision};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::json::{Json, count, text};
use gradloom_core::optim::of_all_batches;
use gradloom_core::trace::Input;
use gradloom_device::memory::HostMemory;
use gradloom_runtime::{Data, Device, Infer, Program, Session, Step, Train, Trainer};
#[cfg(feature = "gpu")]
use gradloom_webgpu::WebHost;
use gradloom_webgpu::WebMemory;
use std::sync::Arc;

/// A model on a device.
struct Open {
    device: Device,
    /// The script's device, if the session is on it; `None` on other devices.
    browser: Option<Arc<Browser>>,
    seed: u64,
    state: SessionState,
}

impl Open {
    /// Returns `true` if parameters have memory, not only a plan.
    fn has_store(&self) -> bool {
        self.browser.as_ref().is_none_or(|browser| browser.is_real())
    }
}

/// State of a session.
enum SessionState {
    /// A session whose first program is yet to be compiled.
    New(Model),
    /// Id of the training program, which owns the session.
    Training(usize),
    /// A session without training.
    Forward(Box<Session<Model>>),
}

struct Compiled {
    session: usize,
    inputs: Vec<Input>,
    /// Data for the next step.
    fed: Vec<Vec<u8>>,
    kind: Kind,
    traced: String,
    /// Device with the program's description, and the program's number there; `None` on the CPU.
    described: Option<(Arc<Browser>, u32)>,
}

enum Kind {
    Train(Box<Train<Model, 0>>),
    Forward(Box<Infer<0, ()>>),
}

/// Maximum number of errors of other steps that a step may return first, as many as the device stores.
const UNTOLD: usize = 8;

/// A queued step.
struct Queued {
    session: usize,
    program: usize,
    step: Step,
    ticket: Option<u32>,
}

/// All sessions, programs and steps.
pub(crate) struct Sessions {
    browser: Arc<Browser>,
    /// A device that is only described, for inspection.
    #[cfg(feature = "gpu")]
    paper: Arc<Browser>,
    limits: Option<(Limits, u64)>,
    /// Number of CPU threads.
    #[cfg(feature = "cpu")]
    pub(crate) threads: usize,
    /// The CPU, shared by all sessions so that its threads exist once.
    #[cfg(feature = "cpu")]
    cpu: Option<Device>,
    next: usize,
    open: Ids<Open>,
    programs: Ids<Compiled>,
    steps: Ids<Queued>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            browser: Arc::new(Browser::new(true)),
            #[cfg(feature = "gpu")]
            paper: Arc::new(Browser::new(false)),
            limits: None,
            #[cfg(feature = "cpu")]
            threads: 1,
            #[cfg(feature = "cpu")]
            cpu: None,
            next: 0,
            open: Ids::default(),
            programs: Ids::default(),
            steps: Ids::default(),
        }
    }
}

fn misuse(what: &str) -> Error {
    Error::new(ErrorKind::Internal, what)
}

impl Compiled {
    fn program(&self) -> &Program {
        match &self.kind {
            Kind::Train(train) => train.program(),
            Kind::Forward(forward) => forward.program(),
        }
    }
}

impl Sessions {
    fn id(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Sets the limits of the GPU, in this order: invocations, bytes of workgroup memory, storage buffers,
    /// bytes of a binding, workgroups along an axis, bytes of a buffer, and flags for a software adapter, for
    /// splitting vectors into scalars, and for f16.
    pub(crate) fn limit(&mut self, arguments: &mut Arguments<'_>) -> Result<usize> {
        let mut granted = || arguments.granted();
        let limits = Limits {
            invocations: granted()? as u32,
            workgroup_memory: granted()? as u32,
            storage_buffers: granted()? as usize,
            binding_bytes: granted()?,
            workgroups: granted()? as u32,
            ..Limits::portable()
        };
        let buffer_bytes = granted()?;
        let (software, scalar, f16) = (arguments.bool()?, arguments.bool()?, arguments.bool()?);
        self.limits = Some((Limits { software, scalar, f16, ..limits }, buffer_bytes));
        Ok(0)
    }

    /// Opens a session on the model of the commands. The device is 0 for inspection only, 1 for the GPU, or 2
    /// for the CPU. The precision is 0 for f32, 1 for f16, or 2 for bf16.
    pub(crate) fn open(
        &mut self,
        commands: &Commands,
        seed: u64,
        device: u32,
        precision: u32,
    ) -> Result<usize> {
        #[cfg(feature = "gpu")]
        let on = |browser: &Arc<Browser>, (limits, bytes): (Limits, u64)| {
            let host = Arc::clone(browser) as Arc<dyn WebHost>;
            (gradloom_webgpu::device(host, limits, bytes), Some(Arc::clone(browser)))
        };
        let (device, browser) = match device {
            // Compile portable kernels, with bindings as large as the adapters of desktop GPUs allow.
            #[cfg(feature = "gpu")]
            0 => {
                let binding_bytes = Limits::desktop().binding_bytes;
                on(&self.paper, (Limits { binding_bytes, ..Limits::portable() }, u32::MAX.into()))
            }
            #[cfg(not(feature = "gpu"))]
            0 => (Device::null(), None),
            #[cfg(feature = "gpu")]
            1 => on(&self.browser, self.limits.ok_or_else(|| misuse("the GPU's limits are not known"))?),
            #[cfg(feature = "cpu")]
            2 => {
                let cpu = match self.cpu.take() {
                    Some(cpu) => cpu,
                    None => gradloom_cpu::CpuDevice::cpu_with_threads(self.threads)?,
                };
                (self.cpu.insert(cpu).clone(), None)
            }
            #[cfg(not(feature = "gpu"))]
            1 => {
                return Err(Error::new(ErrorKind::Device, "this build cannot compute on a GPU")
                    .help("load the module that can, `gradloom.wasm`"));
            }
            _ => {
                return Err(Error::new(ErrorKind::Device, "this build cannot compute on the CPU")
                    .help("load the module that can, `gradloom-cpu.wasm`"));
            }
        };
        let precision = match precision {
            0 => Precision::F32,
            1 => Precision::F16,
            2 => Precision::Bf16,
            _ => return Err(misuse("there is no such precision")),
        };
        let device = device.in_precision(precision);
        let id = self.id();
        self.open.insert(id, Open { device, browser, seed, state: SessionState::New(commands.model.tie()) });
        Ok(id)
    }

    /// Returns the runtime's session.
    fn session(&self, id: usize) -> Result<&Session<Model>> {
        let unknown = || misuse("there is no such session");
        match &self.open.get(id).ok_or_else(unknown)?.state {
            SessionState::New(_) => Err(misuse("the session has no program yet")),
            SessionState::Forward(session) => Ok(session),
            SessionState::Training(program) => match &self.programs.get(*program).ok_or_else(unknown)?.kind {
                Kind::Train(train) => Ok(train.session()),
                Kind::Forward(_) => Err(unknown()),
            },
        }
    }

    /// Compiles a training program, which must be the first program of its session.
    pub(crate) fn train(
        &mut self,
        session: usize,
        trace: Trace,
        arguments: &mut Arguments<'_>,
    ) -> Result<usize> {
        let id = self.id();
        let open = self.open.get_mut(session).ok_or_else(|| misuse("there is no such session"))?;
        let SessionState::New(model) = &open.state else {
            return Err(misuse("the session has a program already"));
        };
        let Trace { inputs, traced } = trace;
        let text = traced.graph.to_string();
        let trainer = Trainer::recorded(model.tie(), inputs.clone(), traced).seed(open.seed);
        let (trainer, micro_batches) = optimizer::configure(trainer, model, arguments)?;
        let train = trainer.compile(&open.device)?;
        let inputs = of_all_batches(inputs, micro_batches);
        open.state = SessionState::Training(id);
        self.insert(id, session, inputs, Kind::Train(Box::new(train)), text)?;
        self.completed(session, id)
    }

    /// Compiles a forward program.
    pub(crate) fn forward(&mut self, session: usize, trace: Trace) -> Result<usize> {
        let id = self.id();
        let open = self.open.get_mut(session).ok_or_else(|| misuse("there is no such session"))?;
        // Keep a new runtime session only if compilation succeeds.
        let new = match &open.state {
            SessionState::New(model) => Some(Box::new(Session::new(model.tie(), &open.device, open.seed)?)),
            _ => None,
        };
        // Defer initial values, because parameters are often uploaded next.
        new.iter().for_each(|new| new.fill_later());
        let Trace { inputs, traced } = trace;
        let text = traced.graph.to_string();
        let over = match &new {
            Some(new) => new,
            None => self.session(session)?,
        };
        let unknown = |(name, ..): &&(String, _, _)| !over.params().iter().any(|used| used.name == *name);
        if let Some((name, ..)) = traced.params.iter().find(unknown) {
            let message = format!("the session's model has no parameter `{name}`");
            return Err(Error::new(ErrorKind::Trace, message));
        }
        let forward = over.infer_recorded(inputs.clone(), traced)?;
        if let (Some(new), Some(open)) = (new, self.open.get_mut(session)) {
            open.state = SessionState::Forward(new);
        }
        self.insert(id, session, inputs, Kind::Forward(Box::new(forward)), text)?;
        self.completed(session, id)
    }

    /// Materializes the session's store, since a script reads and writes whole models, and returns the
    /// program. If that fails, the program is dropped.
    fn completed(&mut self, session: usize, program: usize) -> Result<usize> {
        let has_store = self.open.get(session).is_some_and(Open::has_store);
        let done = if has_store { self.session(session).and_then(Session::materialize) } else { Ok(()) };
        if done.is_err() {
            self.drop_program(program);
        }
        done.map(|()| program)
    }

    /// Adds a compiled program with memory for its inputs.
    ///
    /// # Errors
    /// Returns an error if the module does not have enough memory for the inputs' elements.
    fn insert(
        &mut self,
        id: usize,
        session: usize,
        inputs: Vec<Input>,
        kind: Kind,
        traced: String,
    ) -> Result<()> {
        let room = |input: &Input| {
            let (mut room, bytes) = (Vec::new(), input.ty.bytes());
            room.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(|_| {
                let message = format!("no memory for {bytes} bytes of the input `{}`", input.name);
                Error::new(ErrorKind::Device, message).help("make the batch or the context smaller")
            })?;
            room.resize(bytes as usize, 0);
            Ok(room)
        };
        let fed = inputs.iter().map(room).collect::<Result<_>>()?;
        let browser = self.open.get(session).and_then(|open| open.browser.clone());
        let described = browser.map(|browser| (Arc::clone(&browser), browser.last_program()));
        self.programs.insert(id, Compiled { session, inputs, fed, kind, traced, described });
        Ok(())
    }

    /// Returns the program's number on the script's device, with which its kernels can be prepared.
    pub(crate) fn described(&mut self, program: usize) -> Result<Option<usize>> {
        Ok(self.program(program)?.described.as_ref().map(|(_, number)| *number as usize))
    }

    fn program(&mut self, id: usize) -> Result<&mut Compiled> {
        self.programs.get_mut(id).ok_or_else(|| misuse("there is no such program"))
    }

    /// Sets the data of an input for all later steps.
    pub(crate) fn feed(&mut self, program: usize, input: usize, bytes: &[u8]) -> Result<usize> {
        let program = self.program(program)?;
        let declared = program.inputs.get(input).ok_or_else(|| misuse("there is no such input"))?;
        if bytes.len() as u64 != declared.ty.bytes() {
            let message = format!(
                "the input `{}` is {} ({} elements), got {}",
                declared.name,
                declared.ty,
                declared.ty.elements(),
                bytes.len() / declared.ty.dtype.bytes()
            );
            return Err(Error::new(ErrorKind::Feed, message).help("pass as many elements as were declared"));
        }
        program.fed[input].copy_from_slice(bytes);
        Ok(0)
    }

    /// Queues a step, or runs it on a device without a queue.
    pub(crate) fn step(&mut self, id: usize) -> Result<usize> {
        let session = self.program(id)?.session;
        self.fill(session, false)?;
        let program = self.program(id)?;
        let data: Vec<Data<'_>> = program
            .inputs
            .iter()
            .zip(&program.fed)
            .map(|(input, bytes)| Data::of_bytes(input.ty.dtype, bytes).expect("the allocator aligns by 8"))
            .collect();
        let on = program.described.as_ref().map(|(browser, _)| Arc::clone(browser));
        if on.as_ref().is_some_and(|browser| !browser.is_real()) {
            return Err(misuse("the program is there to be looked at only"));
        }
        let step = match &mut program.kind {
            Kind::Train(train) => train.step_with(&data)?,
            Kind::Forward(forward) => forward.queue(&data)?,
        };
        let session = program.session;
        let ticket = on.map(|browser| browser.last());
        let step_id = self.id();
        self.steps.insert(step_id, Queued { session, program: id, step, ticket });
        Ok(step_id)
    }

    fn queued(&self, step: usize) -> Result<&Queued> {
        self.steps.get(step).ok_or_else(|| misuse("there is no such step"))
    }

    /// Returns the ticket under which a step's results will arrive, or `None` if they have arrived.
    pub(crate) fn ticket(&self, step: usize) -> Result<Option<usize>> {
        Ok(self.queued(step)?.ticket.map(|ticket| ticket as usize))
    }

    /// Accepts the results of a step.
    pub(crate) fn deliver(&mut self, step: usize, bytes: Vec<u8>) -> Result<usize> {
        let queued = self.steps.get_mut(step).ok_or_else(|| misuse("there is no such step"))?;
        let ticket = queued.ticket.take().ok_or_else(|| misuse("the step is done already"))?;
        self.browser.deliver(ticket, bytes);
        Ok(0)
    }

    /// Returns the locations of a step's outputs in the module's memory, which are valid until the step is
    /// dropped.
    pub(crate) fn result(&self, step: usize) -> Result<String> {
        let queued = self.queued(step)?;
        // Skip the errors of earlier unread steps, which are reported once before this step's own result: a
        // caller that does not read steps ignores their errors. The step's own error is returned every time.
        let mut outcome = queued.step.result();
        for _ in 0..UNTOLD {
            if outcome.is_ok() {
                break;
            }
            outcome = queued.step.result();
        }
        outcome?;
        let program =
            self.programs.get(queued.program).ok_or_else(|| misuse("the program is gone"))?.program();
        let outputs = queued.step.outputs().zip(program.outputs()).map(|((name, _, bytes), (_, ty))| {
            let rest = [("at", count(bytes.as_ptr() as usize)), ("bytes", count(bytes.len()))];
            report::value(name, ty, rest)
        });
        Ok(Json::List(outputs.collect()).to_string())
    }

    /// Drops a step.
    pub(crate) fn drop_step(&mut self, step: usize) {
        self.steps.remove(step);
    }

    /// Returns a training program.
    fn training(&mut self, program: usize) -> Result<&mut Train<Model, 0>> {
        match &mut self.program(program)?.kind {
            Kind::Train(train) => Ok(train),
            Kind::Forward(_) => Err(misuse("the program does not train")),
        }
    }

    /// Sets the learning rate from two arguments: whether the schedule starts at the next step, and the
    /// schedule.
    pub(crate) fn rate(&mut self, program: usize, arguments: &mut Arguments<'_>) -> Result<usize> {
        let (starts_now, schedule) = (arguments.bool()?, optimizer::schedule(arguments)?);
        let train = self.training(program)?;
        let start = if starts_now { train.attempted_steps() } else { 0 };
        train.set_schedule(gradloom_core::optim::Schedule::Delayed { start, then: Box::new(schedule) });
        Ok(0)
    }

    /// Returns the number of attempted steps.
    pub(crate) fn attempted(&mut self, program: usize) -> Result<u64> {
        Ok(self.training(program)?.attempted_steps())
    }

    /// Sets the number of attempted steps, and returns to the schedule that the program was compiled with.
    pub(crate) fn count_from(&mut self, program: usize, steps: u64) -> Result<usize> {
        let train = self.training(program)?;
        train.set_attempted_steps(steps);
        train.follow_schedule();
        Ok(0)
    }

    /// Returns the learning rate of the next step.
    pub(crate) fn lr(&mut self, program: usize) -> Result<f64> {
        Ok(self.training(program)?.lr())
    }

    /// Returns the locations of parameters and states, as JSON.
    pub(crate) fn store(&self, session: usize) -> Result<String> {
        let store = self.session(session)?.store();
        let (entries, memory) = (store.entries(), store.memory());
        let entries = entries.iter().map(|entry| {
            let (buffer, at) = match memory.place(entry.offset) {
                Some((memory, start)) => match (memory.get::<WebMemory>(), memory.get::<HostMemory>()) {
                    (Some(memory), _) => (Json::Number(memory.buffer().into()), start),
                    (_, Some(memory)) => (Json::Null, memory.at(start) as usize),
                    _ => (Json::Null, 0),
                },
                None => (Json::Null, 0),
            };
            let kind = if entry.init.is_some() { "state" } else { "param" };
            let rest = [
                ("kind", text(kind)),
                ("buffer", buffer),
                ("at", count(at)),
                ("bytes", Json::Number(entry.ty.bytes())),
            ];
            report::value(&entry.name, &entry.ty, rest)
        });
        Ok(Json::List(entries.collect()).to_string())
    }

    /// Computes deferred initial values, unless the script will set all parameters (`is_given`).
    pub(crate) fn fill(&self, session: usize, is_given: bool) -> Result<usize> {
        match self.open.get(session).map(|open| &open.state) {
            Some(SessionState::Forward(session)) => session.fill(is_given).map(|()| 0),
            _ => Ok(0),
        }
    }

    /// Replaces parameters and states: all given ones, or none if any is wrong. With `strict`, every
    /// parameter must be given.
    pub(crate) fn upload(&mut self, session: usize, strict: bool, given: &[(&str, &[u8])]) -> Result<usize> {
        let store = self.session(session)?.store();
        let entries = store.entries();
        if strict {
            let missing = |name: &str| !given.iter().any(|(given, _)| *given == name);
            let missing: Vec<&str> = entries
                .iter()
                .filter(|e| e.init.is_none() && missing(&e.name))
                .map(|e| e.name.as_str())
                .collect();
            if let Some(first) = missing.first() {
                return Err(Error::new(ErrorKind::Store, format!("`{first}` is missing"))
                    .note(format!("{} parameters are missing", missing.len()))
                    .help("upload all of them, or say that some are enough"));
            }
        }
        let f32s = gradloom_core::ir::Type::scalar(DTYPES[0]);
        let typed: Vec<_> = given
            .iter()
            .map(|&(name, bytes)| {
                let ty = entries.iter().find(|entry| entry.name == name).map_or(&f32s, |entry| &entry.ty);
                (name, ty, bytes)
            })
            .collect();
        if !strict {
            self.fill(session, false)?;
        }
        store.write(&typed)?;
        self.fill(session, strict)
    }

    /// Resets the parameters, the model's states, and the optimizer to their values before the first step, as
    /// selected.
    pub(crate) fn reset(
        &mut self,
        session: usize,
        [parameters, states, optimizer]: [bool; 3],
    ) -> Result<usize> {
        if parameters {
            self.fill(session, true)?;
            self.session(session)?.reset_parameters()?;
        }
        if states {
            self.session(session)?.reset_states("")?;
        }
        if optimizer
            && let Some(Open { state: SessionState::Training(program), .. }) = self.open.get(session)
            && let Some(Compiled { kind: Kind::Train(train), .. }) = self.programs.get_mut(*program)
        {
            train.reset_optimizer()?;
            train.set_attempted_steps(0);
            train.follow_schedule();
        }
        Ok(0)
    }

    /// Returns a view of a program; see `abi.rs`.
    pub(crate) fn inspect(&mut self, program: usize, what: u32) -> Result<String> {
        let session = self.program(program)?.session;
        let threads = self.open.get(session).map_or(1, |open| open.device.threads());
        let program = self.program(program)?;
        let loaded = program.program();
        Ok(match what {
            0 => program.traced.clone(),
            1 => loaded.graph().to_string(),
            2 => loaded.plan().to_json(loaded.graph()),
            3 => {
                let listed = program.described.as_ref().map(|(browser, number)| browser.kernels(*number));
                report::kernels(&listed.unwrap_or_default())
            }
            4 => report::counts(loaded, threads),
            5 => {
                let unused = match &program.kind {
                    Kind::Train(train) => train.unused_parameters(),
                    Kind::Forward(_) => &[],
                };
                Json::List(unused.iter().map(|name| text(name)).collect()).to_string()
            }
            _ => return Err(misuse("there is no such view")),
        })
    }

    /// Drops a session with its programs and steps.
    pub(crate) fn close(&mut self, session: usize) {
        self.open.remove(session);
        self.programs.retain(|program| program.session != session);
        self.steps.retain(|step| step.session != session);
    }

    /// Drops a program with its steps.
    pub(crate) fn drop_program(&mut self, program: usize) {
        self.steps.retain(|step| step.program != program);
        self.programs.remove(program);
        // Remove the session of a training program, which owns it.
        self.open.retain(|open| !matches!(open.state, SessionState::Training(id) if id == program));
    }

    /// Records that the device is lost.
    pub(crate) fn lose(&self, why: &str) {
        self.browser.fail(why.to_string());
    }
}
