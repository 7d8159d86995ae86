//! Builder of a training program.

use super::any_batch::check;
use super::step_program::StepProgram;
use super::training::Recipe;
use super::{Session, Train};
use gradloom_codegen::pipeline::{Options, Precision};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Origin;
use gradloom_core::nn::{Module, Pattern};
use gradloom_core::optim::Optimizer;
use gradloom_core::trace::{Input, Tensor, Traced, trace};
use gradloom_device::Device;

/// Builder of a training program, which [`Trainer::compile`] creates.
///
/// The loss is traced when it is set; an error is returned later by `compile`.
#[must_use]
pub struct Trainer<M, const N: usize = 0> {
    subject: Subject<M>,
    inputs: Vec<Input>,
    traced: Option<Result<Traced>>,
    /// Function that compiles steps for other batch extents.
    recipe: Option<Recipe<M>>,
    optimizer: Option<Box<dyn Optimizer>>,
    /// Source locations where the optimizer (with an empty name) and settings (with the name of their number)
    /// were set.
    places: Vec<(&'static str, Origin)>,
    options: Options,
    precision: Option<Precision>,
    seed: Option<u64>,
}

enum Subject<M> {
    Model(M),
    Session(Session<M>),
}

impl<M: Module> Subject<M> {
    fn model(&self) -> &M {
        match self {
            Self::Model(model) => model,
            Self::Session(session) => session.model(),
        }
    }
}

/// Omits the model, so that models need not implement `Debug`.
impl<M, const N: usize> std::fmt::Debug for Trainer<M, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { inputs, optimizer, options, seed, .. } = self;
        f.debug_struct("Trainer")
            .field("inputs", inputs)
            .field("optimizer", optimizer)
            .field("options", options)
            .field("seed", seed)
            .finish_non_exhaustive()
    }
}

impl<M: Module> Trainer<M> {
    /// Creates a trainer for a model.
    pub fn new(model: M) -> Self {
        Self::of(Subject::Model(model))
    }

    pub(super) fn over(session: Session<M>) -> Self {
        Self::of(Subject::Session(session))
    }

    fn of(subject: Subject<M>) -> Self {
        Self {
            subject,
            inputs: Vec::new(),
            traced: None,
            recipe: None,
            optimizer: None,
            places: Vec::new(),
            options: Options::default(),
            precision: None,
            seed: None,
        }
    }

    /// Creates a trainer for a model whose loss was [recorded](gradloom_core::trace::Recording) as the only
    /// result, with the inputs that were declared for the recording. Pass the data of a step to
    /// [`Train::step_with`].
    pub fn recorded(model: M, inputs: Vec<Input>, traced: Traced) -> Self {
        Self { inputs, traced: Some(Ok(traced)), ..Self::new(model) }
    }

    /// Declares the inputs of each step, and traces the loss, for a number of inputs that is not known at
    /// compile time. Pass the data of a step to [`Train::step_with`].
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::{nn::Linear, optim::Sgd, trace::{Tensor, concat, f32}};
    /// use gradloom::{Data, Device, Trainer};
    ///
    /// let parts: Vec<_> = (0..3).map(|i| f32(&format!("part{i}"), [4, 2])).collect();
    /// let mut train = Trainer::new(Linear::new(6, 1))
    ///     .loss_over(parts, |m, parts| m.forward(concat(1, parts)).square().mean())
    ///     .optimizer(Sgd::new(0.1))
    ///     .compile(&Device::cpu())?;
    /// train.step_with(&[Data::F32(&[1.0; 8]); 3])?.loss()?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    #[track_caller]
    pub fn loss_over(mut self, inputs: Vec<Input>, f: impl FnOnce(&M, &[Tensor]) -> Tensor) -> Self {
        let model = self.subject.model();
        self.traced = Some(trace(model, &inputs, true, |x| f(model, x), |loss| vec![loss]));
        Self { inputs, ..self }
    }

    /// Declares the inputs of each step, in order.
    pub fn inputs<const N: usize>(self, inputs: [Input; N]) -> Trainer<M, N> {
        Trainer {
            subject: self.subject,
            inputs: inputs.to_vec(),
            traced: None,
            recipe: None,
            optimizer: self.optimizer,
            places: self.places,
            options: self.options,
            precision: self.precision,
            seed: self.seed,
        }
    }
}

impl<M: Module, const N: usize> Trainer<M, N> {
    /// Traces the loss, an f32 of rank 0, which the optimizer minimizes.
    #[track_caller]
    pub fn loss(mut self, f: impl FnOnce(&M, [Tensor; N]) -> Tensor) -> Self {
        self.traced = Some(traced(self.subject.model(), &self.inputs, f));
        self.recipe = None;
        self
    }

    /// Like [`Trainer::loss`], but for any batch size, such as that of the last batch of an epoch. The batch
    /// is the first axis of the first input, and of every input whose first axis has the same declared
    /// extent. The step is compiled now for the declared batch size, and for any other size when it first
    /// occurs. The last eight programs are kept, each with separate memory. Results do not depend on which
    /// programs are kept, bit for bit.
    #[track_caller]
    pub fn loss_for_any_batch(mut self, f: impl Fn(&M, [Tensor; N]) -> Tensor + Send + 'static) -> Self
    where
        M: 'static,
    {
        self.traced = Some(traced(self.subject.model(), &self.inputs, &f));
        self.recipe = Some(Box::new(move |session, optimizer, options, inputs| {
            let inputs = of_one_batch(inputs, options.micro_batches)?;
            let traced = traced(session.model(), &inputs, &f)?;
            StepProgram::compile(session.base(), inputs, &traced, optimizer, options)
        }));
        self
    }

    /// Sets the optimizer, which updates parameters from gradients.
    #[track_caller]
    pub fn optimizer(mut self, optimizer: impl Optimizer) -> Self {
        self.places.push(("", Origin::caller()));
        self.optimizer = Some(Box::new(optimizer));
        self
    }

    /// Scales all gradients by a common factor so that their norm is at most `max_norm` (PyTorch's
    /// `clip_grad_norm_`). Applied after all other changes to gradients.
    #[track_caller]
    pub fn clip_norm(mut self, max_norm: f64) -> Self {
        self.places.push(("max_norm", Origin::caller()));
        self.options.settings.clip_norm = Some(max_norm);
        self
    }

    /// Clamps each element of a gradient to `-max_value..=max_value` (PyTorch's `clip_grad_value_`).
    #[track_caller]
    pub fn clip_value(mut self, max_value: f64) -> Self {
        self.places.push(("max_value", Origin::caller()));
        self.options.settings.clip_value = Some(max_value);
        self
    }

    /// Divides the gradient of each parameter whose name matches a pattern (`*` matches all) by its norm plus
    /// 1e-8. Applied before all other changes to gradients.
    pub fn normalize_gradients(mut self, pattern: impl Into<Pattern>) -> Self {
        self.options.settings.normalize.push(pattern.into());
        self
    }

    /// Keeps an exponential moving average of each parameter, with the factor `decay`, less than 1, for the
    /// previous average (PyTorch's `AveragedModel` with `get_ema_avg_fn`). [`Train::infer_average`] uses the
    /// averages.
    #[track_caller]
    pub fn average(mut self, decay: f64) -> Self {
        self.places.push(("average_decay", Origin::caller()));
        self.options.settings.average = Some(decay);
        self
    }

    /// Excludes the parameters whose names match a pattern from training: `embedding.*`.
    pub fn freeze(mut self, pattern: impl Into<Pattern>) -> Self {
        self.options.frozen.push(pattern.into());
        self
    }

    /// Trains only the parameters whose names match this pattern, or one of another call: `critic.*`.
    pub fn only(mut self, pattern: impl Into<Pattern>) -> Self {
        self.options.trained.push(pattern.into());
        self
    }

    /// Sets the name of this training program, which distinguishes the optimizer states of several training
    /// programs of a session, in the store and in files.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.options.name = name.into();
        self
    }

    /// Exposes the gradients of the parameters whose names match a pattern after each step, as
    /// `gradient.NAME`: see [`Step::get`](super::Step::get). They are the gradients of the loss before
    /// clipping.
    pub fn show_gradients(mut self, pattern: impl Into<Pattern>) -> Self {
        self.options.shown_gradients.push(pattern.into());
        self
    }

    /// Allows parameters that do not affect the loss, and excludes them from training; otherwise they are an
    /// error. [`Train::unused_parameters`] returns their names.
    pub fn allow_unused(mut self) -> Self {
        self.options.allows_unused = true;
        self
    }

    /// Splits each step into `micro_batches` micro-batches, which run one after the other, and updates
    /// parameters once, from the mean of their gradients. The declared inputs are those of a micro-batch; the
    /// first axis of the data of a step is `micro_batches` times as long. An input of rank 0 is the same for
    /// all micro-batches. The loss and captured tensors of rank 0 are averaged; other captured tensors are
    /// concatenated along their first axis. Only one micro-batch is in memory at a time.
    pub fn accumulate(mut self, micro_batches: usize) -> Self {
        self.options.micro_batches = micro_batches;
        self
    }

    /// Limits the memory of a step to `bytes` bytes in total: parameters, optimizer states, activations,
    /// gradients and scratch ([`Totals::peak`](gradloom_core::plan::Totals::peak)). If the step needs more,
    /// values of the forward pass are recomputed in the backward pass instead of kept, the cheapest first,
    /// with the same bits. Results do not change, except for the last bits of a sum that thereby becomes part
    /// of another kind of kernel. If the limit cannot be met, [`Trainer::compile`] returns an error with the
    /// smallest number of bytes that was found. On CUDA, a step needs about 1% more than on other devices,
    /// because kernels run concurrently.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.options.memory_budget = Some(bytes);
        self
    }

    /// Keeps on each rank of a world only a shard of the optimizer's states, and updates only the same shard
    /// of the parameters, which the ranks then exchange (ZeRO, stage 1). With AdamW on N ranks, states take
    /// 8/N instead of 8 bytes for each parameter. Parameters of less than 64 KiB, those whose number of
    /// elements is not a multiple of the ranks, and those of optimizers that are not elementwise, such as
    /// [`Muon`], are not sharded, nor are running means of parameters. All ranks must take part in
    /// [`Train::save_checkpoint`].
    ///
    /// [`Muon`]: gradloom_core::optim::Muon
    pub fn shard_states(mut self) -> Self {
        self.options.shards_states = true;
        self
    }

    /// Sums gradients over the ranks of a world in the 16-bit type of the step's precision, on GPUs: half the
    /// bytes, but each gradient is rounded before and after the sum. By default, they are summed in f32.
    pub fn round_sums(mut self) -> Self {
        self.options.rounds_sums = true;
        self
    }

    /// Sets the precision of the step, and of the programs compiled from it. The default is the [device's
    /// precision](Device::precision). Parameters, optimizer states and sums stay f32. A CPU computes in
    /// [`Precision::F32`] and [`Precision::Bf16`]; others are an error there.
    ///
    /// With [`Precision::F16`], the loss is multiplied by an adaptive scale before its gradient is taken. A
    /// step whose gradients overflow changes nothing but the scale
    /// ([`Step::is_applied`](super::Step::is_applied) returns `false`), and is an error only if the scale is
    /// 1.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// Sets the seed of initial parameters, dropout and all other random numbers; the default is 0. Not
    /// allowed for a trainer of a session, which has a seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Compiles the step for a device, and initializes the parameters.
    ///
    /// # Errors
    /// Returns the first error of the loss. Also returns an error if a parameter that is not frozen has no
    /// gradient, if the loss or the optimizer is missing, if the device does not compute in the precision, or
    /// if there is not enough memory.
    pub fn compile(self, device: &Device) -> Result<Train<M, N>> {
        let missing = |what: &str| {
            Error::new(ErrorKind::Trace, format!("the trainer has no {what}"))
                .help(format!("give it one with `.{what}(..)` before `.compile(..)`"))
        };
        let traced = self.traced.ok_or_else(|| missing("loss"))??;
        let optimizer = self.optimizer.ok_or_else(|| missing("optimizer"))?;
        check_numbers(&*optimizer, &self.options, &self.places)?;
        let precision = self.precision.unwrap_or(device.precision());
        let device = device.in_precision(precision);
        let session = match self.subject {
            Subject::Model(model) => Session::new(model, &device, self.seed.unwrap_or(0))?,
            Subject::Session(session) => {
                if self.seed.is_some() {
                    return Err(Error::new(
                        ErrorKind::Trace,
                        "a trainer over a session has no seed of its own",
                    )
                    .help("give the seed to `Session::new`"));
                }
                if !session.device().is_same(&device) {
                    return Err(Error::new(ErrorKind::Device, "the session is on another device")
                        .help("compile for the device that the session was made with"));
                }
                session.on(&device)
            }
        };
        session.base().check_knows(&traced)?;
        let scales_loss = precision == Precision::F16;
        let options = Options { scales_loss, ranks: device.ranks(), ..self.options };
        let name = session.base().take_name(&options.name)?;
        let lane = StepProgram::compile(session.base(), self.inputs.clone(), &traced, &*optimizer, &options)?;
        if self.recipe.is_some() {
            check(&self.inputs)?;
        }
        Ok(Train::new(session, name, optimizer, options, lane, self.recipe))
    }
}

/// Checks that the numbers of the optimizer and of settings are in range. An error has the source location
/// where the number was set.
fn check_numbers(optimizer: &dyn Optimizer, options: &Options, places: &[(&str, Origin)]) -> Result<()> {
    let placed = |error: Error, is_it: &dyn Fn(&str) -> bool, method: &str| {
        // If a setting was made several times, report the last location.
        match places.iter().rev().find(|(name, _)| is_it(name)) {
            Some((_, origin)) => error.at(origin.clone(), method),
            None => error,
        }
    };
    let mut numbers = optimizer.hyperparameters();
    optimizer.set_rates(&mut numbers, 0);
    optimizer.derive(&mut numbers).map_err(|error| placed(error, &str::is_empty, "optimizer"))?;
    let mut numbers = options.settings.numbers();
    options.settings.derive(&mut numbers).map_err(|error| {
        let text = error.message().to_string();
        placed(error, &|name| !name.is_empty() && text.contains(&format!("`{name}`")), "")
    })
}

#[track_caller]
fn traced<M: Module, const N: usize>(
    model: &M,
    inputs: &[Input],
    f: impl FnOnce(&M, [Tensor; N]) -> Tensor,
) -> Result<Traced> {
    let array = |tensors: &[Tensor]| <[Tensor; N]>::try_from(tensors).expect("N inputs were declared");
    trace(model, inputs, true, |x| f(model, array(x)), |loss| vec![loss])
}

/// Returns the inputs of one micro-batch.
///
/// # Errors
/// Returns an error if the first axis of an input is not a multiple of `micro_batches`.
fn of_one_batch(mut inputs: Vec<Input>, micro_batches: usize) -> Result<Vec<Input>> {
    for input in &mut inputs {
        let mut shape = input.ty.shape.to_vec();
        let Some(first) = shape.first_mut() else { continue };
        if !first.is_multiple_of(micro_batches) {
            let message = format!("a batch of {first} does not divide into {micro_batches} micro-batches");
            return Err(Error::new(ErrorKind::Feed, message).help("give data for whole micro-batches"));
        }
        *first /= micro_batches;
        input.ty.shape = shape.into();
    }
    Ok(inputs)
}
