//! Compiled training step.

use super::ranks::check_equality;
use super::rates::{LR, Rates};
use super::step_program::StepProgram;
use super::summary::Summary;
use super::verify::{Verification, verify};
use super::{Infer, Session, Step, any_batch};
use crate::inspect::Inspection;
use crate::profile::{Profile, ProfileOptions, Profiled};
use crate::program::{DebugRun, Program, Retention, random_key};
use crate::store::Store;
use gradloom_codegen::pipeline::{Options, Precision, Stages, optimizer_state};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{Graph, Number, OpId, OpKind, Update};
use gradloom_core::nn::Module;
use gradloom_core::optim::{
    APPLIED_STEP, AVERAGE_PREFIX, Hyperparameters, LOSS_SCALE, Optimizer, Plateau, STATE_PREFIX, Schedule,
    set_number,
};
use gradloom_core::plan::Plan;
use gradloom_core::trace::{Input, ParamUse, Tensor};
use gradloom_device::Device;
use gradloom_device::cancel::CancelToken;
use gradloom_device::cancel::Token;
use gradloom_device::feed::{Data, Feed, check_all};
use gradloom_device::outputs::Outputs;
use gradloom_device::spans::LaunchSpan;
use std::collections::HashSet;
use std::sync::Arc;

/// Training program with a store.
pub struct Train<M, const N: usize> {
    session: Session<M>,
    /// Name set with [`Trainer::named`](super::Trainer::named). The session reserves it until the last clone
    /// of this pointer is dropped.
    name: Arc<str>,
    optimizer: Box<dyn Optimizer>,
    options: Options,
    /// Programs by size; the current one is first.
    lanes: Vec<StepProgram>,
    /// Function that compiles programs for other batch extents, and the declared inputs.
    recipe: Option<(Recipe<M>, Vec<Input>)>,
    numbers: Hyperparameters,
    /// Rates that replace the optimizer's.
    rates: Rates,
    /// Names of the optimizer's rates.
    rate_names: Vec<String>,
    attempted: u64,
    /// Token that can end steps early.
    token: Token,
    /// True once all ranks of the world are known to have begun from the same state.
    is_equal: bool,
}

/// Function that compiles a program for other inputs than the declared ones.
pub(super) type Recipe<M> =
    Box<dyn Fn(&Session<M>, &dyn Optimizer, &Options, Vec<Input>) -> Result<StepProgram> + Send>;

/// Omits the model, so that `unwrap_err` works for models that do not implement `Debug`.
impl<M, const N: usize> std::fmt::Debug for Train<M, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lanes, optimizer, attempted, .. } = self;
        f.debug_struct("Train")
            .field("program", &lanes[0].program)
            .field("optimizer", optimizer)
            .field("attempted", attempted)
            .finish_non_exhaustive()
    }
}

impl<M: Module, const N: usize> Train<M, N> {
    pub(super) fn new(
        session: Session<M>,
        name: Arc<str>,
        optimizer: Box<dyn Optimizer>,
        options: Options,
        lane: StepProgram,
        recipe: Option<Recipe<M>>,
    ) -> Self {
        let recipe = recipe.map(|recipe| (recipe, lane.inputs.clone()));
        let mut numbers = optimizer.hyperparameters();
        numbers.extend(options.settings.numbers());
        let lanes = vec![lane];
        let rate_names = Rates::names(&*optimizer);
        Self {
            session,
            name,
            optimizer,
            options,
            lanes,
            recipe,
            numbers,
            rates: Rates::default(),
            rate_names,
            attempted: 0,
            token: Token::default(),
            is_equal: false,
        }
    }

    /// Runs one step on the data: forward pass, backward pass and optimizer. If a guard fails (the loss or
    /// the gradient norm is not finite) or a trap occurs (such as an index out of range), parameters and
    /// states do not change, and reading the step returns the error.
    ///
    /// On an asynchronous device, the step is queued and this function returns immediately, unless the device
    /// already has four steps to run. Each step has its own data, hyperparameters and random numbers, and
    /// takes effect independently: a step that was queued after one that fails takes effect like any other.
    /// Results are copied to the host only when they are read, so a failure is not known before; the device
    /// records it. The next read of any later step, or [`Train::wait`], returns its error. If such a call
    /// finds several errors, it returns the first, and later calls of `step` return the others. If thousands
    /// of unread steps fail, the first four and the last keep their errors, and the others are counted.
    ///
    /// # Errors
    /// Returns an error if data does not have the declared dtype or size, if an earlier step is known to have
    /// failed and its error was not read, if the store or the device is lost, if the step was cancelled
    /// ([`Train::set_cancel_token`]), or if 2^64 - 1 steps were attempted. Nothing took effect then, and the
    /// number of attempted steps does not change.
    pub fn step<'a>(&mut self, data: impl Feed<'a, N>) -> Result<Step> {
        self.step_with(&data.feed())
    }

    /// Like [`Train::step`], but for a list of data whose length is not known at compile time.
    ///
    /// # Errors
    /// Returns the same errors as [`Train::step`]. Also returns an error if the number of data does not match
    /// the number of inputs.
    pub fn step_with(&mut self, data: &[Data<'_>]) -> Result<Step> {
        self.token.stop().check()?;
        self.select(data)?;
        self.tell()?;
        let StepProgram { inputs, program, .. } = &self.lanes[0];
        check_all(inputs, data, self.options.micro_batches, program.backend())?;
        if self.attempted == u64::MAX {
            return Err(Error::new(ErrorKind::Feed, "the attempted steps are 2^64 - 1, and cannot be more")
                .help("go on from a smaller number: `set_attempted_steps`"));
        }
        self.update_numbers()?;
        if !self.is_equal {
            let numbers = [self.session.seed(), self.attempted];
            check_equality(&self.lanes[0].program, &numbers)?;
            self.is_equal = true;
        }
        let scalars = scalars(&self.numbers, random_key(self.step_seed(), self.attempted));
        let step = self.lanes[0].submit(self.attempted, self.token.stop(), data, scalars)?;
        self.attempted += 1;
        Ok(step)
    }

    /// Sets the token that can end later steps, or removes it: see [`CancelToken`]. A step ended by the token
    /// returns an error of kind [`ErrorKind::Cancelled`] or [`ErrorKind::DeadlineExceeded`], and is not
    /// counted.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::{nn::Linear, optim::Sgd, trace::f32};
    /// use gradloom::{CancelToken, Device, Trainer};
    /// use std::time::Duration;
    ///
    /// let mut train = Trainer::new(Linear::new(3, 1))
    ///     .inputs([f32("x", [4, 3])])
    ///     .loss(|layer, [x]| layer.forward(x).square().mean())
    ///     .optimizer(Sgd::new(0.1))
    ///     .compile(&Device::cpu())?;
    /// train.set_cancel_token(CancelToken::with_timeout(Duration::from_secs(3600)));
    /// train.step([&[1.0f32; 12]])?;
    /// train.set_cancel_token(None);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn set_cancel_token(&mut self, token: impl Into<Option<CancelToken>>) {
        self.token.given = token.into();
    }

    /// Moves the program for the batch of the data to the front. Compiles it if it is new and the batch may
    /// have any extent.
    fn select(&mut self, data: &[Data<'_>]) -> Result<()> {
        let Some((recipe, declared)) = &self.recipe else { return Ok(()) };
        let make = |inputs| recipe(&self.session, &*self.optimizer, &self.options, inputs);
        let declared = (&declared[..], self.options.micro_batches);
        any_batch::select(&mut self.lanes, |lane| &lane.inputs, declared, data, make)?;
        // Wait for the other program's steps: each program numbers its runs separately, so the failures of
        // one must be known before another runs.
        if let Some(before) = self.lanes.get(1) {
            before.wait();
        }
        Ok(())
    }

    fn tell(&self) -> Result<()> {
        self.lanes.iter().rev().try_for_each(|lane| lane.failures.tell())
    }

    /// Waits for all steps so far. Call it after the last step, unless its loss is read. If the last step was
    /// not read, its results are copied to the host.
    ///
    /// # Errors
    /// Returns the first error that was not read. It then counts as read; another call returns the next
    /// error.
    pub fn wait(&self) -> Result<()> {
        self.lanes[0].wait();
        self.tell()
    }

    /// Updates the hyperparameters for the next step: the rates, `changed`, and the numbers derived from
    /// others.
    fn derive(&self, numbers: &mut Hyperparameters, changed: Option<(&str, f64)>) -> Result<()> {
        self.derive_at(numbers, self.attempted, &self.rates, changed.as_slice())
    }

    /// Like `derive`, but for the given number of attempted steps and the given rates.
    fn derive_at(
        &self,
        numbers: &mut Hyperparameters,
        attempted: u64,
        rates: &Rates,
        changed: &[(&str, f64)],
    ) -> Result<()> {
        rates.set(numbers, &self.rate_names, &*self.optimizer, attempted);
        changed.iter().for_each(|(name, value)| set_number(numbers, name, *value));
        self.optimizer.derive(numbers)?;
        self.options.settings.derive(numbers)
    }

    /// Returns the hyperparameters with which the trainer was created, except the learning rates.
    fn own_numbers(&self) -> Hyperparameters {
        let mut numbers = self.optimizer.hyperparameters();
        numbers.extend(self.options.settings.numbers());
        let is_rate = |name: &String| self.rate_names.contains(name);
        numbers
            .iter()
            .filter(|(name, _)| !is_rate(name))
            .map(|(name, value)| (name.clone(), *value))
            .collect()
    }

    /// Returns the hyperparameters that [`Train::set_hyperparameter`] has changed.
    #[cfg(feature = "files")]
    pub(crate) fn numbers_set(&self) -> Hyperparameters {
        let own = self.own_numbers();
        let now = own.iter().filter_map(|(name, value)| {
            self.numbers.get(name).filter(|now| *now != value).map(|now| (name.clone(), *now))
        });
        now.collect()
    }

    /// Returns the hyperparameters after `attempted` steps, with the `given` ones set.
    ///
    /// # Errors
    /// Returns an error if the optimizer has no such hyperparameter or rate, or if a value is out of range.
    #[cfg(feature = "files")]
    pub(crate) fn derived(
        &self,
        given: &[(&str, f64)],
        attempted: u64,
        rates: &Rates,
    ) -> Result<Hyperparameters> {
        let known = self.own_numbers();
        let mut numbers = self.numbers.clone();
        if let Some((name, _)) = given.iter().find(|(name, _)| !known.contains_key(*name)) {
            return Err(Error::new(ErrorKind::Store, format!("the optimizer has no number `{name}`"))
                .help("use the optimizer and the settings that the checkpoint was made with"));
        }
        numbers.extend(known);
        if let Some(name) = rates.schedules.keys().find(|name| !self.rate_names.contains(name)) {
            return Err(Error::new(ErrorKind::Store, format!("the optimizer has no rate `{name}`"))
                .help("use the optimizer and the settings that the checkpoint was made with"));
        }
        self.derive_at(&mut numbers, attempted, rates, given)?;
        Ok(numbers)
    }

    #[cfg(feature = "files")]
    pub(crate) fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Continues from the state of another trainer, whose parameters and states are in the store.
    #[cfg(feature = "files")]
    pub(crate) fn go_on(&mut self, attempted: u64, seed: u64, numbers: Hyperparameters, rates: Rates) {
        (self.attempted, self.numbers, self.rates) = (attempted, numbers, rates);
        self.session.base().set_seed(seed);
    }

    /// Updates the hyperparameters for the next step.
    fn update_numbers(&mut self) -> Result<()> {
        // Update the numbers in place, so that a step does not allocate.
        let mut numbers = std::mem::take(&mut self.numbers);
        let derived = self.derive(&mut numbers, None);
        self.numbers = numbers;
        derived
    }

    /// Prepares the next step for execution launch by launch, on copies: neither the session nor its store
    /// changes.
    ///
    /// # Errors
    /// Returns an error if data does not have the declared dtype or size, if the store is lost, if there is
    /// not enough memory for the copies, or on the null device.
    pub fn debug_run<'a>(&self, data: impl Feed<'a, N>, retention: Retention) -> Result<DebugRun> {
        self.on_copies(&data.feed(), |program, fed, scalars| program.debug_run(fed, scalars, retention))
    }

    /// Calls `run` with the program, inputs and scalars of the next step, without running the step.
    fn on_copies<R>(
        &self,
        data: &[Data<'_>],
        run: impl FnOnce(&Program, &[(&str, &[u8])], &dyn Fn(&str) -> Option<Number>) -> Result<R>,
    ) -> Result<R> {
        let StepProgram { inputs, program, .. } = &self.lanes[0];
        check_all(inputs, data, self.options.micro_batches, program.backend())?;
        let mut numbers = self.numbers.clone();
        self.derive(&mut numbers, None)?;
        let bytes = data.iter().map(Data::bytes).collect::<Result<Vec<_>>>()?;
        let fed: Vec<(&str, &[u8])> =
            inputs.iter().zip(&bytes).map(|(input, bytes)| (input.name.as_str(), &bytes[..])).collect();
        let key = random_key(self.step_seed(), self.attempted);
        run(program, &fed, &scalars(&numbers, key))
    }

    /// Finds the op that causes a non-finite loss or gradient in the next step on this data: the op that
    /// receives finite numbers and returns NaN or infinity. Returns an error with the op's location in the
    /// model, or `None` if everything is finite. Runs the step on `cpu`, op by op, on copies, with memory for
    /// every value. On one of several ranks, the others need not call this: the result is that of this rank's
    /// part of the batch.
    ///
    /// # Errors
    /// Returns the same errors as [`Train::debug_run`]. Also returns an error if `cpu` is not a CPU, because
    /// other devices cannot run single ops.
    pub fn find_not_finite<'a>(&self, cpu: &Device, data: impl Feed<'a, N>) -> Result<Option<Error>> {
        let kind = ErrorKind::NotFinite { step: self.attempted };
        let find = |program: &Program, fed: &[(&str, &[u8])], scalars: &dyn Fn(&str) -> Option<Number>| {
            program.find_not_finite(cpu, fed, scalars, kind)
        };
        self.on_copies(&data.feed(), find)
    }

    /// Computes the next step on this data in three ways: the graph before the passes in float64, the graph
    /// after them in float64, and the latter on the device. The results agree unless the compiler or a kernel
    /// is wrong. The float64 evaluator is slow; a small model with the same layers is sufficient. The
    /// training state does not change.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// # use gradloom_core::{nn::Linear, optim::Sgd, trace::f32};
    /// # use gradloom_runtime::{Device, Trainer};
    /// let train = Trainer::new(Linear::new(3, 2))
    ///     .inputs([f32("x", [4, 3])])
    ///     .loss(|layer, [x]| layer.forward(x).square().mean())
    ///     .optimizer(Sgd::new(0.1))
    ///     .compile(&Device::cpu())?;
    /// let verification = train.verify([&[0.5f32; 12]])?;
    /// println!("{verification}");
    /// verification.check()?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Train::debug_run`]. Also returns an error on one of several ranks.
    pub fn verify<'a>(&self, data: impl Feed<'a, N>) -> Result<Verification> {
        let (stages, device) = (&self.lanes[0].stages, self.session.device());
        if device.ranks() > 1 {
            return Err(Error::new(ErrorKind::Device, "the three ways of `verify` are those of one process")
                .help("compile the trainer for a device without `in_world`, and verify there"));
        }
        self.on_copies(&data.feed(), |program, fed, scalars| verify(stages, program, device, fed, scalars))
    }

    /// Returns a summary of the model's parameters and states, and of the operations, kernels and bytes of a
    /// step.
    pub fn summary(&self) -> Summary {
        let graph = &self.lanes[0].stages.passes;
        let target =
            |update: &Update| graph.defining_op(update.target).and_then(|op| Graph::leaf_name(&op.kind));
        let updated: HashSet<&str> = graph.updates.iter().filter_map(target).collect();
        let is_trained = |used: &ParamUse| updated.contains(used.name.as_str());
        Summary::of(self.session.params(), is_trained).with_step(graph, self.plan())
    }

    /// Returns the learning rate of the next step. With [`Groups`](gradloom_core::optim::Groups), this is the
    /// rate of the parameters in no group.
    pub fn lr(&self) -> f64 {
        self.rates.of_rest(&*self.optimizer, self.attempted)
    }

    /// Returns the learning rate of a group at the next step. The name of a group is its pattern.
    ///
    /// # Errors
    /// Returns an error if the optimizer has no such group.
    pub fn lr_of(&self, group: &str) -> Result<f64> {
        Ok(self.rate(&Rates::name_of(&self.rate_names, group)?))
    }

    /// Returns the rate with this name at the next step.
    fn rate(&self, name: &str) -> f64 {
        let mut numbers = Hyperparameters::new();
        self.rates.set(&mut numbers, &self.rate_names, &*self.optimizer, self.attempted);
        numbers.get(name).copied().unwrap_or_default()
    }

    /// Sets the learning rate of all parameters, including those in groups, for later steps. It replaces
    /// schedules and a plateau. Weight decay that is proportional to the rate changes with it. The next step
    /// returns an error if the rate is negative or not finite.
    pub fn set_lr(&mut self, lr: f64) {
        self.set_schedule(lr);
    }

    /// Sets the learning rate of one group of the optimizer for later steps. The name of a group is its
    /// pattern.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::{nn::Linear, optim::{Groups, Sgd}, trace::f32};
    /// use gradloom::{Device, Trainer};
    ///
    /// let mut train = Trainer::new(Linear::new(3, 1))
    ///     .inputs([f32("x", [4, 3])])
    ///     .loss(|layer, [x]| layer.forward(x).square().mean())
    ///     .optimizer(Groups::new(Sgd::new(0.1)).group("bias", Sgd::new(0.2)))
    ///     .compile(&Device::cpu())?;
    /// train.set_lr_of("bias", 0.05)?;
    /// assert_eq!((train.lr(), train.lr_of("bias")?), (0.1, 0.05));
    /// train.set_lr(0.01);
    /// assert_eq!((train.lr(), train.lr_of("bias")?), (0.01, 0.01));
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the optimizer has no such group.
    pub fn set_lr_of(&mut self, group: &str, lr: f64) -> Result<()> {
        self.set_schedule_of(group, lr)
    }

    /// Sets the schedule of the learning rate of all parameters, including those in groups, as a function of
    /// the number of attempted steps. It replaces the optimizer's schedules and a plateau. To start the
    /// schedule with the next step, delay it by the number of steps so far: [`Schedule::Delayed`].
    pub fn set_schedule(&mut self, schedule: impl Into<Schedule>) {
        let schedule = schedule.into();
        let all = self.rate_names.iter().map(|name| (name.clone(), schedule.clone()));
        self.rates = Rates { schedules: all.collect(), plateau: None };
    }

    /// Sets the schedule of the learning rate of one group of the optimizer; see [`Train::set_schedule`]. If
    /// a plateau is set, the group's rate falls by the same factor.
    ///
    /// # Errors
    /// Returns an error if the optimizer has no such group.
    pub fn set_schedule_of(&mut self, group: &str, schedule: impl Into<Schedule>) -> Result<()> {
        let name = Rates::name_of(&self.rate_names, group)?;
        self.rates.schedules.insert(name, schedule.into());
        Ok(())
    }

    /// Sets a plateau for the learning rate. Its rate replaces the schedule, and the rates of groups of the
    /// optimizer fall by the same factors. [`Train::look`] passes measures to the plateau, whose state is
    /// part of checkpoints.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::{nn::Linear, optim::{Groups, Plateau, Sgd}, trace::f32};
    /// use gradloom::{Device, Trainer};
    ///
    /// let mut train = Trainer::new(Linear::new(3, 1))
    ///     .inputs([f32("x", [4, 3])])
    ///     .loss(|layer, [x]| layer.forward(x).square().mean())
    ///     .optimizer(Groups::new(Sgd::new(0.5)).group("bias", Sgd::new(0.25)))
    ///     .compile(&Device::cpu())?;
    /// train.set_plateau(Plateau::new(0.5).factor(0.5).patience(1));
    /// for loss in [3.0, 3.0, 3.0] {
    ///     train.look(loss)?;
    /// }
    /// assert_eq!((train.lr(), train.lr_of("bias")?), (0.25, 0.125));
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn set_plateau(&mut self, plateau: Plateau) {
        let of_groups = self.rates.schedules.iter().filter(|(name, _)| *name != LR);
        let schedules = of_groups.map(|(name, schedule)| (name.clone(), schedule.clone())).collect();
        self.rates = Rates { schedules, plateau: Some(plateau) };
    }

    /// Passes a measure that should fall, such as the validation loss after each epoch, to the plateau.
    /// Returns the learning rate of the next step.
    ///
    /// # Errors
    /// Returns an error if no plateau is set.
    pub fn look(&mut self, measure: f64) -> Result<f64> {
        let Some(plateau) = &mut self.rates.plateau else {
            return Err(Error::new(ErrorKind::Feed, "there is no plateau that could look at a measure")
                .help("set one with `train.set_plateau(Plateau::new(lr))` before"));
        };
        plateau.look(measure);
        Ok(self.lr())
    }

    /// Returns the plateau that sets the learning rate, if there is one.
    pub fn plateau(&self) -> Option<&Plateau> {
        self.rates.plateau.as_ref()
    }

    /// Restores the optimizer's schedules for all learning rates, after [`Train::set_lr`],
    /// [`Train::set_schedule`], [`Train::set_plateau`] or the methods for a group.
    pub fn follow_schedule(&mut self) {
        self.rates = Rates::default();
    }

    /// Returns the names of the parameters that are not trained because the loss does not depend on them.
    /// Empty unless [`Trainer::allow_unused`](super::Trainer::allow_unused) was called.
    pub fn unused_parameters(&self) -> &[String] {
        &self.lanes[0].stages.unused
    }

    /// Returns the optimizer's hyperparameters by name (`beta1`, `weight_decay`, `max_norm`, ..), and the
    /// numbers derived from them.
    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.numbers
    }

    /// Sets one of the optimizer's hyperparameters for later steps: `beta1`, or `*.bias:weight_decay` of the
    /// group `*.bias`. Learning rates can be set too: `*.bias:lr`, or `lr` of the parameters in no group.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if the optimizer has no such hyperparameter, or if the value is
    /// out of range.
    pub fn set_hyperparameter(&mut self, name: &str, value: f64) -> Result<()> {
        let mut settable = self.own_numbers();
        for name in &self.rate_names {
            settable.insert(name.clone(), self.rate(name));
        }
        if !settable.contains_key(name) {
            let known: Vec<&str> = settable.keys().map(String::as_str).collect();
            return Err(Error::new(ErrorKind::Feed, format!("the optimizer has no number `{name}`"))
                .help(format!("it has: {}", known.join(", "))));
        }
        let mut numbers = self.numbers.clone();
        self.derive(&mut numbers, Some((name, value)))?;
        self.numbers = numbers;
        if self.rate_names.iter().any(|rate| rate == name) {
            self.rates.schedules.insert(name.to_string(), Schedule::Constant(value));
        }
        Ok(())
    }

    /// Returns the number of steps submitted so far, whether or not they took effect. Random numbers and
    /// schedules depend on it.
    pub fn attempted_steps(&self) -> u64 {
        self.attempted
    }

    /// Sets the number of attempted steps, as when a checkpoint is restored.
    pub fn set_attempted_steps(&mut self, steps: u64) {
        self.attempted = steps;
    }

    /// Waits for the device, and returns the number of steps that took effect since the start or the last
    /// reset.
    ///
    /// # Errors
    /// Returns an error on the null device, which keeps no states.
    pub fn applied_steps(&self) -> Result<u64> {
        let bytes = self.store().read(&self.state_name(APPLIED_STEP))?;
        Ok(u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])))
    }

    /// Returns the factor by which the loss of the next step is multiplied before its gradient is taken;
    /// `None` unless the precision is f16.
    ///
    /// # Errors
    /// Returns an error on the null device, which keeps no states.
    pub fn loss_scale(&self) -> Result<Option<f32>> {
        if self.session.device().precision() != Precision::F16 {
            return Ok(None);
        }
        Ok(self.store().read_f32(&self.state_name(LOSS_SCALE))?.first().copied())
    }

    /// Resets the optimizer's states, including the step counter. Parameters do not change.
    ///
    /// # Errors
    /// Returns an error on the null device.
    pub fn reset_optimizer(&mut self) -> Result<()> {
        let graph = self.program().graph();
        let own = |name: &str| {
            name.starts_with(STATE_PREFIX)
                && graph
                    .entry_ops()
                    .any(|(_, op)| matches!(&op.kind, OpKind::State { name: n, .. } if n == name))
        };
        self.store().reset_states_where(own).map(drop)
    }

    /// Returns the seed of the random numbers of steps, which is different on each rank of a world.
    fn step_seed(&self) -> u64 {
        // Ranks are numbers of at most 20 bits.
        self.session.seed() ^ (self.session.device().rank() as u64) << 44
    }

    /// Returns the name under which the store holds the optimizer's state `name`.
    fn state_name(&self, name: &str) -> String {
        optimizer_state(&self.name, name)
    }

    /// Returns the name set with [`Trainer::named`](super::Trainer::named); empty if there is none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Resets the model's states under a path to their initial values; see [`Session::reset_states`].
    ///
    /// # Errors
    /// Returns the same errors as [`Session::reset_states`].
    pub fn reset_states(&mut self, path: &str) -> Result<()> {
        self.session.reset_states(path)
    }

    /// Compiles a forward program that uses the same parameters and states. Dropout is disabled.
    ///
    /// # Errors
    /// Returns the same errors as [`super::Trainer::compile`].
    #[track_caller]
    pub fn infer<const K: usize, R: Outputs>(
        &self,
        inputs: [Input; K],
        f: impl FnOnce(&M, [Tensor; K]) -> R,
    ) -> Result<Infer<K, R>> {
        self.session.infer(inputs, f)
    }

    /// Like [`Train::infer`], but for any batch size: see [`Session::infer_any_batch`].
    ///
    /// # Errors
    /// Returns the same errors as [`Session::infer_any_batch`].
    #[track_caller]
    pub fn infer_any_batch<const K: usize, R: Outputs>(
        &self,
        inputs: [Input; K],
        f: impl Fn(&M, [Tensor; K]) -> R + Send + 'static,
    ) -> Result<Infer<K, R>>
    where
        M: Send + Sync + 'static,
    {
        self.session.infer_any_batch(inputs, f)
    }

    /// Like [`Train::infer`], but uses the running average of each trained parameter in its place: see
    /// [`Trainer::average`](super::Trainer::average). The averages are 0 before the first step that takes
    /// effect.
    ///
    /// # Errors
    /// Returns the same errors as [`Train::infer`]. Also returns an error if no running averages are kept.
    #[track_caller]
    pub fn infer_average<const K: usize, R: Outputs>(
        &self,
        inputs: [Input; K],
        f: impl FnOnce(&M, [Tensor; K]) -> R,
    ) -> Result<Infer<K, R>> {
        let entries = self.store().entries();
        let prefix = self.state_name(AVERAGE_PREFIX);
        if !entries.iter().any(|entry| entry.name.starts_with(&prefix)) {
            return Err(Error::new(ErrorKind::Trace, "no running mean of the parameters is kept")
                .help("have the trainer keep it with `.average(0.999)`"));
        }
        Infer::compile_with(&self.session, inputs, f, |mut traced| {
            let ids: Vec<OpId> = traced.graph.ops.iter().map(|(id, _)| id).collect();
            for id in ids {
                let OpKind::Param { name, ty } = &traced.graph.ops[id].kind else { continue };
                let name = format!("{prefix}{name}");
                if entries.iter().any(|entry| entry.name == name) {
                    let kind =
                        OpKind::State { name, ty: ty.clone(), init: Number::Float(0.0), whole: Vec::new() };
                    traced.graph.ops[id].kind = kind;
                }
            }
            traced
        })
    }

    /// Returns the model.
    pub fn model(&self) -> &M {
        self.session.model()
    }

    /// Returns the session: model, store and device, for compiling other programs.
    pub fn session(&self) -> &Session<M> {
        &self.session
    }

    /// Returns a shared handle to the store with the parameters and states.
    pub fn store(&self) -> Store {
        self.session.store()
    }

    /// Returns the plan of a step: its launches, and the location of each buffer.
    pub fn plan(&self) -> &Plan {
        self.lanes[0].program.plan()
    }

    /// Returns an inspection of the step: its stages, launches and memory as text, JSON, and a page in the
    /// browser.
    ///
    /// ```no_run
    /// # use gradloom_core::{nn::Linear, optim::Sgd, trace::f32};
    /// # use gradloom_runtime::{Device, Trainer};
    /// # let train = Trainer::new(Linear::new(8, 2))
    /// #     .inputs([f32("x", [4, 8])])
    /// #     .loss(|layer, [x]| layer.forward(x).square().mean())
    /// #     .optimizer(Sgd::new(0.1))
    /// #     .compile(&Device::null())?;
    /// println!("{}", train.inspect());
    /// train.inspect().open_html()?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn inspect(&self) -> Inspection<'_> {
        let StepProgram { program, stages, .. } = &self.lanes[0];
        Inspection::of_training(program, stages)
    }

    /// Runs steps on the data, and returns a breakdown of their time: for each launch and each kind of
    /// kernel, its time, its operations and bytes, and its fraction of the machine's peak rate. `options` is
    /// the number of steps to time, or [`ProfileOptions`].
    ///
    /// These are normal steps: they train on the data and count as attempted. Previously recorded times of
    /// launches are dropped, and recording is off afterwards.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// # use gradloom_core::{nn::Linear, optim::Sgd, trace::f32};
    /// # use gradloom_runtime::{Device, ProfileOptions, Trainer};
    /// # let mut train = Trainer::new(Linear::new(8, 2))
    /// #     .inputs([f32("x", [4, 8])])
    /// #     .loss(|layer, [x]| layer.forward(x).square().mean())
    /// #     .optimizer(Sgd::new(0.1))
    /// #     .compile(&Device::cpu())?;
    /// let profile = train.profile(ProfileOptions::new(20).without_roof(), [&[1.0f32; 32]])?;
    /// println!("{profile}");
    /// assert_eq!(profile.launches.len(), train.plan().launches.len());
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Train::step`]. Also returns an error if the device runs nothing.
    pub fn profile<'a>(
        &mut self,
        options: impl Into<ProfileOptions>,
        data: impl Feed<'a, N>,
    ) -> Result<Profile> {
        let data = data.feed();
        self.select(&data)?;
        let options = options.into().or_named("a training step");
        Profile::collect(self, &data, options)
    }

    /// Writes the parameters and states of the model to a safetensors file; see [`Session::save`].
    ///
    /// # Errors
    /// Returns the same errors as [`Session::save`].
    #[cfg(feature = "files")]
    pub fn save(&self, path: impl AsRef<std::path::Path>) -> Result<()> {
        self.session.save(path)
    }

    /// Loads the parameters and states of the model from a safetensors file; see [`Session::load`].
    ///
    /// # Errors
    /// Returns the same errors as [`Session::load`].
    #[cfg(feature = "files")]
    pub fn load(&self, path: impl AsRef<std::path::Path>) -> Result<()> {
        self.session.load(path)
    }

    /// Returns the compiled program.
    pub fn program(&self) -> &Program {
        &self.lanes[0].program
    }

    /// Starts or stops recording the time of each launch; see [`Program::set_profiling`].
    pub fn set_profiling(&mut self, on: bool) {
        self.lanes[0].program.set_profiling(on);
    }

    /// Returns the times of the launches of the last step; see [`Program::spans`].
    pub fn spans(&self) -> &[LaunchSpan] {
        self.lanes[0].program.spans()
    }

    /// Starts or stops timing whole steps with the GPU's clock; see [`Program::set_step_timing`].
    pub fn set_step_timing(&mut self, on: bool) {
        self.lanes[0].program.set_step_timing(on);
    }

    /// Returns the time of the last step on the GPU; see [`Program::step_time`].
    ///
    /// # Errors
    /// Returns an error if the device is lost.
    pub fn step_time(&self) -> Result<Option<std::time::Duration>> {
        self.lanes[0].program.step_time()
    }

    /// Returns the results of the compiler's stages.
    pub fn stages(&self) -> &Stages {
        &self.lanes[0].stages
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        self.session.device()
    }

    /// Returns the seed of all random numbers.
    pub fn seed(&self) -> u64 {
        self.session.seed()
    }

    /// Returns the number of bytes allocated for the programs and the store: parameters, arena, constants,
    /// scratch.
    pub fn allocated_bytes(&self) -> u64 {
        let programs = self.lanes.iter().map(|lane| lane.program.allocated()).sum::<u64>();
        programs + self.store().read_lock().allocated()
    }
}

/// Returns the values, by name, of the per-step scalars: the optimizer's numbers, and the key of random
/// numbers.
fn scalars(
    numbers: &Hyperparameters,
    key: impl Fn(&str) -> Option<Number>,
) -> impl Fn(&str) -> Option<Number> {
    move |name| match name.strip_prefix(STATE_PREFIX) {
        Some(number) => numbers.get(number).map(|&value| Number::Float(value)),
        None => key(name),
    }
}

impl<M: Module, const N: usize> Profiled for Train<M, N> {
    fn first_program(&mut self) -> &mut Program {
        &mut self.lanes[0].program
    }

    fn run_step(&mut self, data: &[Data<'_>]) -> Result<()> {
        self.step_with(data)?.result()
    }
}
