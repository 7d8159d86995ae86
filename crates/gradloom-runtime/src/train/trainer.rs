//! The builder of a training program.

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

/// Collects what a training program is made of; [`Trainer::compile`] makes it.
///
/// The loss is traced when it is given; its error, if any, is returned by `compile`.
#[must_use]
pub struct Trainer<M, const N: usize = 0> {
    subject: Subject<M>,
    inputs: Vec<Input>,
    traced: Option<Result<Traced>>,
    /// Makes steps for other inputs.
    recipe: Option<Recipe<M>>,
    optimizer: Option<Box<dyn Optimizer>>,
    /// The lines that gave the optimizer, under an empty name, and settings, under those of their numbers.
    places: Vec<(&'static str, Origin)>,
    options: Options,
    precision: Option<Precision>,
    seed: Option<u64>,
}

/// Model or session that is trained.
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

/// Without the model, so that models need not be `Debug`.
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
    /// Creates a trainer of `model`.
    pub fn new(model: M) -> Self {
        Self::of(Subject::Model(model))
    }

    /// Creates a trainer over a session.
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

    /// Creates a trainer of a model whose loss was [recorded](gradloom_core::trace::Recording) as the only
    /// result, with the inputs that were declared then. A step of it takes data by [`Train::step_with`].
    pub fn recorded(model: M, inputs: Vec<Input>, traced: Traced) -> Self {
        Self { inputs, traced: Some(Ok(traced)), ..Self::new(model) }
    }

    /// Declares the data that every step takes, and traces the loss, where the number of inputs is not known
    /// before the program runs. A step takes data by [`Train::step_with`].
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

    /// Declares the data that every step takes, in order.
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
    /// Traces the loss, an f32 of rank 0: its gradient is what the optimizer follows.
    #[track_caller]
    pub fn loss(mut self, f: impl FnOnce(&M, [Tensor; N]) -> Tensor) -> Self {
        self.traced = Some(traced(self.subject.model(), &self.inputs, f));
        self.recipe = None;
        self
    }

    /// Like [`Trainer::loss`], with inputs whose first axis, the batch, may have any extent where it is that
    /// of the first input, as of the last batch of an epoch. The step is compiled for the declared extent
    /// now, for others when they come; the last eight programs are kept, each with its own memory. The order
    /// of the data, and so every bit, is as if each were the only one.
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

    /// Sets the rule that updates parameters from gradients.
    #[track_caller]
    pub fn optimizer(mut self, optimizer: impl Optimizer) -> Self {
        self.places.push(("", Origin::caller()));
        self.optimizer = Some(Box::new(optimizer));
        self
    }

    /// Scales all gradients down together so that their norm is at most `max_norm` (PyTorch's
    /// `clip_grad_norm_`). Comes after what else changes gradients.
    #[track_caller]
    pub fn clip_norm(mut self, max_norm: f64) -> Self {
        self.places.push(("max_norm", Origin::caller()));
        self.options.settings.clip_norm = Some(max_norm);
        self
    }

    /// Limits each element of a gradient to `max_value`, with either sign (PyTorch's `clip_grad_value_`).
    #[track_caller]
    pub fn clip_value(mut self, max_value: f64) -> Self {
        self.places.push(("max_value", Origin::caller()));
        self.options.settings.clip_value = Some(max_value);
        self
    }

    /// Divides the gradient of each parameter whose name matches a pattern (`*`: all) by its own norm plus
    /// 1e-8. Comes before what else changes gradients.
    pub fn normalize_gradients(mut self, pattern: impl Into<Pattern>) -> Self {
        self.options.settings.normalize.push(pattern.into());
        self
    }

    /// Keeps a running mean of each parameter, of which `decay`, less than 1, stays at a step: PyTorch's
    /// `AveragedModel` with `get_ema_avg_fn`. [`Train::infer_average`] computes with it.
    #[track_caller]
    pub fn average(mut self, decay: f64) -> Self {
        self.places.push(("average_decay", Origin::caller()));
        self.options.settings.average = Some(decay);
        self
    }

    /// Keeps the parameters whose names match a pattern as they are: `embedding.*`.
    pub fn freeze(mut self, pattern: impl Into<Pattern>) -> Self {
        self.options.frozen.push(pattern.into());
        self
    }

    /// Trains the parameters whose names match a pattern, or another one that is given, and keeps the rest as
    /// it is: `critic.*`.
    pub fn only(mut self, pattern: impl Into<Pattern>) -> Self {
        self.options.trained.push(pattern.into());
        self
    }

    /// Sets the name of this training program among those over one session, under which the states of its
    /// optimizer are kept, and saved.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.options.name = name.into();
        self
    }

    /// Makes the gradients of the parameters whose names match a pattern readable after each step, as
    /// `gradient.NAME`: [`Step::get`](super::Step::get). They are those of the loss, before they are clipped.
    pub fn show_gradients(mut self, pattern: impl Into<Pattern>) -> Self {
        self.options.shown_gradients.push(pattern.into());
        self
    }

    /// Keeps parameters that the loss does not depend on as they are, which is an error otherwise.
    /// [`Train::unused_parameters`] has their names.
    pub fn allow_unused(mut self) -> Self {
        self.options.allows_unused = true;
        self
    }

    /// Makes a step go through `micro_batches` micro-batches, one after the other, and update parameters
    /// once, from the mean of their gradients. The inputs that were declared are those of a micro-batch; a
    /// step takes as many times their first axis. A number (an input of rank 0) is the same for all. The
    /// loss, and what is captured with rank 0, are means; other captures stand one behind the other along
    /// their first axis. Only one micro-batch is in memory at a time.
    pub fn accumulate(mut self, micro_batches: usize) -> Self {
        self.options.micro_batches = micro_batches;
        self
    }

    /// Lets a step take at most `bytes` bytes for everything: parameters, optimizer states, activations,
    /// gradients, scratch ([`Totals::peak`](gradloom_core::plan::Totals::peak)). Where the step would need
    /// more, values of the forward pass are computed again in the backward pass instead of kept, the
    /// cheapest ones first; the results keep their bits. A budget that cannot be met is an error of
    /// [`Trainer::compile`] that names the least number of bytes that was found. On CUDA the step takes
    /// about a hundredth more than elsewhere, for kernels that run side by side.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.options.memory_budget = Some(bytes);
        self
    }

    /// Sets the precision of the step, and of the programs that come from it, if the device supports it;
    /// the [device's](Device::precision) unless set. Parameters, the optimizer's states and sums stay f32.
    ///
    /// With [`Precision::F16`], gradients are taken of the loss times a scale that adapts, on every device: a
    /// step of which they overflow changes nothing but the scale
    /// ([`Step::is_applied`](super::Step::is_applied) tells), and is an error only when the scale is 1.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// Keys initial parameters, dropout and all other random numbers; 0 unless set. A session has
    /// its own.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Compiles the step for a device and makes the initial parameters.
    ///
    /// # Errors
    /// The first error of the loss; a parameter without a gradient that is not frozen; a missing loss or
    /// optimizer; memory.
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
        let options = Options { scales_loss: precision == Precision::F16, ..self.options };
        let name = session.base().take_name(&options.name)?;
        let lane = StepProgram::compile(session.base(), self.inputs.clone(), &traced, &*optimizer, &options)?;
        if self.recipe.is_some() {
            check(&self.inputs)?;
        }
        Ok(Train::new(session, name, optimizer, options, lane, self.recipe))
    }
}

/// Checks the numbers of an optimizer and of settings for their ranges, at the lines that gave them.
fn check_numbers(optimizer: &dyn Optimizer, options: &Options, places: &[(&str, Origin)]) -> Result<()> {
    let placed = |error: Error, is_it: &dyn Fn(&str) -> bool, method: &str| {
        // The last of several is what counts.
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

/// Traces a loss.
#[track_caller]
fn traced<M: Module, const N: usize>(
    model: &M,
    inputs: &[Input],
    f: impl FnOnce(&M, [Tensor; N]) -> Tensor,
) -> Result<Traced> {
    let array = |tensors: &[Tensor]| <[Tensor; N]>::try_from(tensors).expect("N inputs were declared");
    trace(model, inputs, true, |x| f(model, array(x)), |loss| vec![loss])
}

/// Returns the inputs of one of the micro-batches.
///
/// # Errors
/// When the first axis of an input is not a multiple of `micro_batches`.
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
