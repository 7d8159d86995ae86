//! A compiled training step.

use super::compile::{Compiled, Stages};
use super::step::{Done, Slot, Step};
use super::{Infer, Session};
use crate::device::Device;
use crate::feed::Feed;
use crate::outputs::Outputs;
use crate::profile::LaunchSpan;
use crate::program::{DebugRun, Program, Retention, random_key};
use crate::store::Store;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Number};
use gradloom_core::nn::Module;
use gradloom_core::optim::{
    APPLIED_STEP, Hyperparameters, Optimizer, STATE_PREFIX, check_max_norm, set_number,
};
use gradloom_core::plan::Plan;
use gradloom_core::trace::{Input, Tensor};
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

/// Steps whose results can be unread at once without new memory.
const SLOTS: usize = 4;
/// Steps that a device has not finished, at most: enough for it never to wait for the host.
const IN_FLIGHT: usize = 4;

/// A training program over a store.
pub struct Train<M, const N: usize> {
    session: Session<M>,
    inputs: Vec<Input>,
    optimizer: Box<dyn Optimizer>,
    clip_norm: Option<f64>,
    program: Program,
    stages: Stages,
    numbers: Hyperparameters,
    fixed_lr: Option<f64>,
    attempted: u64,
    slots: Vec<Arc<Slot>>,
    /// Steps that may still fail, or whose failure nobody has seen; the oldest first.
    in_flight: VecDeque<Step>,
}

/// Without the model, so that `unwrap` works for models that are not `Debug`.
impl<M, const N: usize> std::fmt::Debug for Train<M, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { program, optimizer, attempted, .. } = self;
        f.debug_struct("Train")
            .field("program", program)
            .field("optimizer", optimizer)
            .field("attempted", attempted)
            .finish_non_exhaustive()
    }
}

impl<M: Module, const N: usize> Train<M, N> {
    pub(super) fn new(
        session: Session<M>,
        inputs: Vec<Input>,
        optimizer: Box<dyn Optimizer>,
        clip_norm: Option<f64>,
        compiled: Compiled,
    ) -> Self {
        let Compiled { program, stages } = compiled;
        let mut numbers = optimizer.hyperparameters();
        numbers.extend(clip_norm.map(|norm| ("max_norm".to_string(), norm)));
        let names: Arc<[(String, DType)]> =
            program.plan().outputs.iter().map(|(n, a)| (n.clone(), a.dtype)).collect();
        let slots =
            (0..SLOTS).map(|_| Arc::new(Slot { names: Arc::clone(&names), ..Slot::default() })).collect();
        Self {
            session,
            inputs,
            optimizer,
            clip_norm,
            program,
            stages,
            numbers,
            fixed_lr: None,
            attempted: 0,
            slots,
            in_flight: VecDeque::new(),
        }
    }

    /// Runs one step on the data: forward, backward, optimizer. A guard that fails (a loss or gradient norm that is not finite)
    /// or a trap (an index out of range) leaves parameters and states as they were; reading the step then gives the error.
    ///
    /// On a device that works beside the host the step is queued, and this returns at once, unless the device has several steps to do already. Each step has its own
    /// data, numbers and random bits, and decides for itself whether it takes effect: those that were queued behind a step that fails do, as if
    /// its error had been read. An error that nobody reads comes back here, or from [`Train::wait`].
    ///
    /// # Errors
    /// When data does not have the declared dtype or size; when an earlier step failed and its error was not read, on a queue one of the
    /// last four; when the store or the device is lost. Nothing was run then, and the number of attempted steps is as before.
    pub fn step<'a>(&mut self, data: impl Feed<'a, N>) -> Result<Step> {
        // Nobody looks at results before they are asked for, or before there are too many of them.
        let known = |step: &Step| step.slot.done.get().is_some();
        while self.in_flight.front().is_some_and(|step| self.in_flight.len() >= IN_FLIGHT || known(step)) {
            let step = self.in_flight.pop_front().expect("there is a first one");
            if step.slot.has_unread_error() {
                step.result()?;
            }
        }
        let data = data.feed();
        for (input, data) in self.inputs.iter().zip(&data) {
            data.check(input)?;
        }
        self.set_scalars()?;
        for (input, data) in self.inputs.iter().zip(&data) {
            self.program.set_input(&input.name, data.bytes());
        }

        let step = self.attempted;
        let index = self.free_slot();
        let slot = Arc::get_mut(&mut self.slots[index]).expect("nobody else holds a free slot");
        let mut values = slot.done.take().unwrap_or_default().values;
        (slot.step, slot.seen) = (step, AtomicBool::new(false));
        match self.program.submit()? {
            Some(pending) => slot.pending = Mutex::new(Some(pending)),
            None => {
                let outcome = self.program.run(&mut values);
                slot.done = OnceLock::from(Done::new(step, outcome, values)?);
            }
        }
        self.attempted += 1;
        let step = Step { slot: Arc::clone(&self.slots[index]) };
        if step.slot.done.get().is_none_or(|done| done.error.is_some()) {
            self.in_flight.push_back(step.clone());
        }
        Ok(step)
    }

    /// Waits for all steps so far: to be called behind the last one, unless its loss is read and those of the three before it.
    ///
    /// # Errors
    /// Of the first of them that failed and whose error was not read. It counts as read then: another call gives the next one.
    pub fn wait(&self) -> Result<()> {
        let unread = self.in_flight.iter().find(|step| step.slot.has_unread_error());
        unread.map_or(Ok(()), Step::result)
    }

    /// A slot that no [`Step`] holds: an old one, or, if the caller keeps them all, a new one.
    fn free_slot(&mut self) -> usize {
        if let Some(free) = self.slots.iter_mut().position(|slot| Arc::get_mut(slot).is_some()) {
            return free;
        }
        let names = Arc::clone(&self.slots[0].names);
        self.slots.push(Arc::new(Slot { names, ..Slot::default() }));
        self.slots.len() - 1
    }

    /// Brings the per-step scalars up to date.
    fn set_scalars(&mut self) -> Result<()> {
        let lr = self.lr();
        set_number(&mut self.numbers, "lr", lr);
        self.optimizer.derive(&mut self.numbers)?;
        self.program.set_scalars(scalars(&self.numbers, random_key(self.session.seed(), self.attempted)))
    }

    /// Prepares the next step to be run launch by launch, on copies: neither the session nor its store changes.
    ///
    /// # Errors
    /// When data does not have the declared dtype or size; when the store is lost; when there is not enough memory for the copies; on the
    /// null device.
    pub fn debug_run<'a>(&self, data: impl Feed<'a, N>, retention: Retention) -> Result<DebugRun> {
        let data = data.feed();
        for (input, data) in self.inputs.iter().zip(&data) {
            data.check(input)?;
        }
        let mut numbers = self.numbers.clone();
        set_number(&mut numbers, "lr", self.lr());
        self.optimizer.derive(&mut numbers)?;
        let fed: Vec<(&str, &[u8])> =
            self.inputs.iter().zip(&data).map(|(input, data)| (input.name.as_str(), data.bytes())).collect();
        let key = random_key(self.session.seed(), self.attempted);
        self.program.debug_run(&fed, scalars(&numbers, key), retention)
    }

    /// Learning rate of the next step.
    pub fn lr(&self) -> f64 {
        self.fixed_lr.unwrap_or_else(|| self.optimizer.schedule().at(self.attempted))
    }

    /// Sets the learning rate from now on, instead of the schedule. Decay that goes with it changes too. A rate that is negative
    /// or not finite is an error of the next step.
    pub fn set_lr(&mut self, lr: f64) {
        self.fixed_lr = Some(lr);
    }

    /// Takes the learning rate from the schedule again, after [`Train::set_lr`].
    pub fn follow_schedule(&mut self) {
        self.fixed_lr = None;
    }

    /// The optimizer's numbers by name: `beta1`, `weight_decay`, `max_norm`, .., and what is derived from them.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.numbers
    }

    /// Sets one of the optimizer's numbers from the next step on.
    ///
    /// # Errors
    /// When the optimizer has no such number, or the value is out of range; nothing changes then.
    pub fn set_hyperparameter(&mut self, name: &str, value: f64) -> Result<()> {
        let mut settable = self.optimizer.hyperparameters();
        settable.extend(self.clip_norm.map(|norm| ("max_norm".to_string(), norm)));
        settable.insert("lr".to_string(), self.lr());
        if !settable.contains_key(name) {
            let known: Vec<&str> = settable.keys().map(String::as_str).collect();
            return Err(Error::new(ErrorKind::Feed, format!("the optimizer has no number `{name}`"))
                .note(format!("it has: {}", known.join(", "))));
        }
        let mut numbers = self.numbers.clone();
        set_number(&mut numbers, "lr", self.lr());
        set_number(&mut numbers, name, value);
        if self.clip_norm.is_some() {
            check_max_norm(&numbers)?;
        }
        self.optimizer.derive(&mut numbers)?;
        self.numbers = numbers;
        if name == "lr" {
            self.set_lr(value);
        }
        Ok(())
    }

    /// Steps submitted so far, whether they took effect or not. Keys random numbers, and the schedule follows it.
    pub fn attempted_steps(&self) -> u64 {
        self.attempted
    }

    /// Continues counting from here, as after a restored checkpoint.
    pub fn set_attempted_steps(&mut self, steps: u64) {
        self.attempted = steps;
    }

    /// Steps that took effect since the start or the last reset. Waits for the device.
    ///
    /// # Errors
    /// On the null device, which keeps no states.
    pub fn applied_steps(&self) -> Result<u64> {
        let bytes = self.store().read(APPLIED_STEP)?;
        Ok(u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])))
    }

    /// Clears the optimizer's moments and its step counter together. Parameters stay.
    ///
    /// # Errors
    /// On the null device.
    pub fn reset_optimizer(&mut self) -> Result<()> {
        self.store().reset_states(STATE_PREFIX)
    }

    /// Sets the model's states under a path to their initial values; see [`Session::reset_states`].
    ///
    /// # Errors
    /// As [`Session::reset_states`].
    pub fn reset_states(&mut self, path: &str) -> Result<()> {
        self.session.reset_states(path)
    }

    /// Compiles a forward program over the same parameters and states. Dropout does not act in it.
    ///
    /// # Errors
    /// As [`super::Trainer::compile`].
    #[track_caller]
    pub fn infer<const K: usize, R: Outputs>(
        &self,
        inputs: [Input; K],
        f: impl FnOnce(&M, [Tensor; K]) -> R,
    ) -> Result<Infer<K, R>> {
        self.session.infer(inputs, f)
    }

    /// The model.
    pub fn model(&self) -> &M {
        self.session.model()
    }

    /// Model, store and device, over which other programs can be compiled.
    pub fn session(&self) -> &Session<M> {
        &self.session
    }

    /// Parameters and states: a shared handle.
    pub fn store(&self) -> Store {
        self.session.store()
    }

    /// What a step does and where its bytes are.
    pub fn plan(&self) -> &Plan {
        self.program.plan()
    }

    /// The compiled program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Starts or stops noting when each launch of a step runs; see [`Program::set_profiling`].
    pub fn set_profiling(&mut self, on: bool) {
        self.program.set_profiling(on);
    }

    /// When the launches of the last step ran; see [`Program::spans`].
    pub fn spans(&self) -> &[LaunchSpan] {
        self.program.spans()
    }

    /// The graph after each stage of the compiler.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.session.device()
    }

    /// The seed of all random numbers.
    pub fn seed(&self) -> u64 {
        self.session.seed()
    }

    /// Bytes that the executor asked the system for: store, arena, constants, scratch.
    pub fn allocated_bytes(&self) -> usize {
        self.program.allocated() + self.store().read_lock().allocated()
    }
}

/// The value of each per-step scalar: the optimizer's numbers, and the key of random numbers.
fn scalars(
    numbers: &Hyperparameters,
    key: impl Fn(&str) -> Option<Number>,
) -> impl Fn(&str) -> Option<Number> {
    move |name| match name.strip_prefix(STATE_PREFIX) {
        Some(number) => numbers.get(number).map(|&value| Number::Float(value)),
        None => key(name),
    }
}
