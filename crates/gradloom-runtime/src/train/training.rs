//! A compiled training step.

use super::failures::Failures;
use super::step::{Done, Slot, Step};
use super::{Infer, Session};
use crate::device::Device;
use crate::feed::{Data, Feed, check_all};
use crate::outputs::Outputs;
use crate::profile::LaunchSpan;
use crate::program::{DebugRun, Program, Retention, random_key};
use crate::store::Store;
use gradloom_codegen::pipeline::Stages;
use gradloom_codegen::wgsl::Precision;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Number, OpId, OpKind};
use gradloom_core::nn::Module;
use gradloom_core::optim::{
    APPLIED_STEP, AVERAGE_PREFIX, Hyperparameters, LOSS_SCALE, Optimizer, STATE_PREFIX, Schedule, Settings,
    set_number,
};
use gradloom_core::plan::Plan;
use gradloom_core::trace::{Input, Tensor};
use std::sync::{Arc, Mutex, OnceLock};

/// Steps whose results can be unread at once without new memory.
const SLOTS: usize = 4;

/// A training program over a store.
pub struct Train<M, const N: usize> {
    session: Session<M>,
    inputs: Vec<Input>,
    optimizer: Box<dyn Optimizer>,
    settings: Settings,
    program: Program,
    stages: Stages,
    numbers: Hyperparameters,
    /// The schedule that replaces the optimizer's, if one was set.
    schedule: Option<Schedule>,
    attempted: u64,
    slots: Vec<Arc<Slot>>,
    /// Steps so far, as the program counts them.
    runs: u64,
    /// The last one, on a device that works beside the host.
    last: Option<Step>,
    failures: Arc<Failures>,
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
        settings: Settings,
        program: Program,
        stages: Stages,
    ) -> Self {
        let mut numbers = optimizer.hyperparameters();
        numbers.extend(settings.numbers());
        let names: Arc<[(String, DType)]> =
            program.outputs().map(|(name, ty)| (name.to_string(), ty.dtype)).collect();
        let failures = Arc::new(Failures::default());
        let slots = (0..SLOTS).map(|_| slot(&names, &failures)).collect();
        Self {
            session,
            inputs,
            optimizer,
            settings,
            program,
            stages,
            numbers,
            schedule: None,
            attempted: 0,
            slots,
            runs: 0,
            last: None,
            failures,
        }
    }

    /// Runs one step on the data: forward, backward, optimizer. A guard that fails (a loss or gradient norm
    /// that is not finite) or a trap (an index out of range) leaves parameters and states as they were;
    /// reading the step then gives the error.
    ///
    /// On a device that works beside the host the step is queued, and this returns at once, unless the device
    /// has four steps to do already. Each step has its own data, numbers and random bits, and decides for
    /// itself whether it takes effect: those that were queued behind a step that fails do, as if its error
    /// had been read. Nothing is copied to the host before it is read, and so a failure is not known
    /// before: the device remembers it. The next read of any later step gives its error, or [`Train::wait`];
    /// what these learned and did not give, as there were several, comes back here. Of failures among
    /// thousands of unread steps, the first four and the last one keep their errors, and the others
    /// are counted.
    ///
    /// # Errors
    /// When data does not have the declared dtype or size; when an earlier step is known to have failed and
    /// its error was not read; when the store or the device is lost. Nothing was run then, and the number of
    /// attempted steps is as before.
    pub fn step<'a>(&mut self, data: impl Feed<'a, N>) -> Result<Step> {
        self.step_with(&data.feed())
    }

    /// Like [`Train::step`], on a list whose length is not known before the program runs.
    ///
    /// # Errors
    /// As [`Train::step`], and when there is not one for each input.
    pub fn step_with(&mut self, data: &[Data<'_>]) -> Result<Step> {
        self.failures.tell()?;
        check_all(&self.inputs, data)?;
        self.set_scalars()?;
        for (input, data) in self.inputs.iter().zip(data) {
            self.program.set_input(&input.name, data.bytes());
        }

        let step = self.attempted;
        let index = self.free_slot();
        let slot = Arc::get_mut(&mut self.slots[index]).expect("a free slot has no other owner");
        let mut values = slot.done.take().unwrap_or_default().values;
        // Gives back what the slot's last step was to be read from, which can no longer happen.
        slot.pending = Mutex::default();
        slot.step = step;
        let pending = self.program.submit()?;
        slot.run = pending.as_ref().map_or(self.runs, |pending| pending.run());
        self.failures.number(slot.run, step);
        match pending {
            Some(pending) => {
                slot.pending = Mutex::new(Some(pending));
                self.last = Some(Step { slot: Arc::clone(&self.slots[index]) });
            }
            None => {
                let outcome = self.program.run(&mut values);
                let done = Done::new(step, outcome, values)?;
                done.error.iter().for_each(|error| self.failures.add(slot.run, error.clone()));
                slot.done = OnceLock::from(done);
            }
        }
        let slot = &self.slots[index];
        self.runs = slot.run + 1;
        self.attempted += 1;
        Ok(Step { slot: Arc::clone(slot) })
    }

    /// Waits for all steps so far: to be called behind the last one, unless its loss is read. It copies
    /// results to the host once, if the last step was not read.
    ///
    /// # Errors
    /// Of the first of them that failed and whose error was not read. It counts as read then: another call
    /// gives the next one.
    pub fn wait(&self) -> Result<()> {
        if let Some(last) = &self.last {
            last.slot.done();
        }
        self.failures.tell()
    }

    /// A slot that no [`Step`] holds: an old one, or, if the caller keeps them all, a new one.
    fn free_slot(&mut self) -> usize {
        if let Some(free) = self.slots.iter_mut().position(|slot| Arc::get_mut(slot).is_some()) {
            return free;
        }
        let names = Arc::clone(&self.slots[0].names);
        self.slots.push(slot(&names, &self.failures));
        self.slots.len() - 1
    }

    /// Brings numbers up to date with the next step: the rates, one that is changed, and what is derived.
    fn derive(&self, numbers: &mut Hyperparameters, changed: Option<(&str, f64)>) -> Result<()> {
        self.optimizer.set_rates(numbers, self.attempted);
        set_number(numbers, "lr", self.lr());
        if let Some((name, value)) = changed {
            set_number(numbers, name, value);
        }
        self.optimizer.derive(numbers)?;
        self.settings.derive(numbers)
    }

    /// Brings the per-step scalars up to date.
    fn set_scalars(&mut self) -> Result<()> {
        // In place: a step allocates nothing for them.
        let mut numbers = std::mem::take(&mut self.numbers);
        let derived = self.derive(&mut numbers, None);
        self.numbers = numbers;
        derived?;
        self.program.set_scalars(scalars(&self.numbers, random_key(self.session.seed(), self.attempted)))
    }

    /// Prepares the next step to be run launch by launch, on copies: neither the session nor its store
    /// changes.
    ///
    /// # Errors
    /// When data does not have the declared dtype or size; when the store is lost; when there is not enough
    /// memory for the copies; on the null device.
    pub fn debug_run<'a>(&self, data: impl Feed<'a, N>, retention: Retention) -> Result<DebugRun> {
        let data = data.feed();
        check_all(&self.inputs, &data)?;
        let mut numbers = self.numbers.clone();
        self.derive(&mut numbers, None)?;
        let fed: Vec<(&str, &[u8])> =
            self.inputs.iter().zip(&data).map(|(input, data)| (input.name.as_str(), data.bytes())).collect();
        let key = random_key(self.session.seed(), self.attempted);
        self.program.debug_run(&fed, scalars(&numbers, key), retention)
    }

    /// Learning rate of the next step.
    pub fn lr(&self) -> f64 {
        self.schedule.as_ref().unwrap_or_else(|| self.optimizer.schedule()).at(self.attempted)
    }

    /// Sets the learning rate from now on, instead of the schedule. Decay that goes with it changes too. A
    /// rate that is negative or not finite is an error of the next step.
    pub fn set_lr(&mut self, lr: f64) {
        self.set_schedule(lr);
    }

    /// Sets the learning rate over the attempted steps from now on, instead of the optimizer's schedule. To
    /// begin at its first number with the next step, delay it by the steps so far: [`Schedule::Delayed`].
    pub fn set_schedule(&mut self, schedule: impl Into<Schedule>) {
        self.schedule = Some(schedule.into());
    }

    /// Takes the learning rate from the optimizer's schedule again, after [`Train::set_lr`] or
    /// [`Train::set_schedule`].
    pub fn follow_schedule(&mut self) {
        self.schedule = None;
    }

    /// Parameters that are not trained, as the loss does not depend on them: none, unless
    /// [`Trainer::allow_unused`](super::Trainer::allow_unused) was called.
    pub fn unused_parameters(&self) -> &[String] {
        &self.stages.unused
    }

    /// The optimizer's numbers by name: `beta1`, `weight_decay`, `max_norm`, .., and what is derived from
    /// them.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.numbers
    }

    /// Sets one of the optimizer's numbers from the next step on.
    ///
    /// # Errors
    /// When the optimizer has no such number, or the value is out of range; nothing changes then.
    pub fn set_hyperparameter(&mut self, name: &str, value: f64) -> Result<()> {
        let mut settable = self.optimizer.hyperparameters();
        settable.extend(self.settings.numbers());
        settable.insert("lr".to_string(), self.lr());
        if !settable.contains_key(name) {
            let known: Vec<&str> = settable.keys().map(String::as_str).collect();
            return Err(Error::new(ErrorKind::Feed, format!("the optimizer has no number `{name}`"))
                .help(format!("it has: {}", known.join(", "))));
        }
        let mut numbers = self.numbers.clone();
        self.derive(&mut numbers, Some((name, value)))?;
        self.numbers = numbers;
        if name == "lr" {
            self.set_lr(value);
        }
        Ok(())
    }

    /// Steps submitted so far, whether they took effect or not. Keys random numbers, and the schedule follows
    /// it.
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

    /// What the loss of the next step is multiplied by before its gradient is taken; none unless the
    /// precision is f16.
    ///
    /// # Errors
    /// On the null device, which keeps no states.
    pub fn loss_scale(&self) -> Result<Option<f32>> {
        if self.session.device().precision() != Precision::F16 {
            return Ok(None);
        }
        Ok(self.store().read_f32(LOSS_SCALE)?.first().copied())
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

    /// Like [`Train::infer`], with the running mean of each parameter that is trained in its place:
    /// [`Trainer::average`](super::Trainer::average). Before the first step that takes effect these are 0.
    ///
    /// # Errors
    /// As [`Train::infer`], and when no running mean is kept.
    #[track_caller]
    pub fn infer_average<const K: usize, R: Outputs>(
        &self,
        inputs: [Input; K],
        f: impl FnOnce(&M, [Tensor; K]) -> R,
    ) -> Result<Infer<K, R>> {
        let entries = self.store().entries();
        if !entries.iter().any(|entry| entry.name.starts_with(AVERAGE_PREFIX)) {
            return Err(Error::new(ErrorKind::Trace, "no running mean of the parameters is kept")
                .help("have the trainer keep it with `.average(0.999)`"));
        }
        Infer::compile_with(&self.session, inputs, f, |mut traced| {
            let ids: Vec<OpId> = traced.graph.ops.iter().map(|(id, _)| id).collect();
            for id in ids {
                let OpKind::Param { name, ty } = &traced.graph.ops[id].kind else { continue };
                let name = format!("{AVERAGE_PREFIX}{name}");
                if entries.iter().any(|entry| entry.name == name) {
                    let kind = OpKind::State { name, ty: ty.clone(), init: Number::Float(0.0) };
                    traced.graph.ops[id].kind = kind;
                }
            }
            traced
        })
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

    /// The launches of a step, and the place of every buffer.
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

    /// The value of each stage of the compiler.
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

/// A slot for the outputs of these names.
fn slot(names: &Arc<[(String, DType)]>, failures: &Arc<Failures>) -> Arc<Slot> {
    Arc::new(Slot { names: Arc::clone(names), failures: Arc::clone(failures), ..Slot::default() })
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
