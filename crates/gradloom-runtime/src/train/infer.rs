//! Forward programs.

use super::any_batch::{self, check};
use super::base::Base;
use super::failures::Failures;
use super::{Session, Step};
use crate::inspect::Inspection;
use crate::profile::{Profile, ProfileOptions, Profiled};
use crate::program::{DebugRun, Program, Retention, random_key, verify_graph};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Output};
use gradloom_core::nn::Module;
use gradloom_core::passes;
use gradloom_core::plan::Plan;
use gradloom_core::trace::{Input, Tensor, Traced, trace};
use gradloom_device::cancel::CancelToken;
use gradloom_device::cancel::Token;
use gradloom_device::elements::{Elements, output};
use gradloom_device::feed::{Data, Feed, check_all};
use gradloom_device::outcome::Outcome;
use gradloom_device::outputs::{Element, Outputs, Value, read_as};
use gradloom_device::spans::LaunchSpan;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number that separates the random numbers of forward programs from those of training steps: the letters
/// "infer".
const DOMAIN: u64 = 0x69_6e66_6572;

/// Forward program with a store. It owns its data, so it can run on another thread during training. A run may
/// update states, which all programs of the session share; updates are atomic and sequential.
pub struct Infer<const K: usize, R> {
    /// Programs by size; the current one is first.
    lanes: Vec<SizedProgram>,
    /// Function that compiles programs for other batch extents, and the declared inputs.
    recipe: Option<(Recipe, Vec<Input>)>,
    outputs: Vec<Elements>,
    /// Seed of the session, which loading a checkpoint may change.
    seed: Arc<AtomicU64>,
    runs: u64,
    /// Token that can end runs early.
    token: Token,
    results: PhantomData<fn() -> R>,
}

type Recipe = Box<dyn Fn(&[Input]) -> Result<Program> + Send>;

/// Program for inputs of one size.
struct SizedProgram {
    inputs: Vec<Input>,
    program: Program,
    /// Failures of queued runs that were not read.
    failures: Arc<Failures>,
}

impl SizedProgram {
    fn new(inputs: Vec<Input>, program: Program) -> Self {
        Self { inputs, program, failures: Arc::default() }
    }
}

/// Returns the key of the random numbers of forward runs.
fn key(seed: &AtomicU64) -> u64 {
    seed.load(Ordering::Relaxed) ^ DOMAIN
}

impl<const K: usize, R> std::fmt::Debug for Infer<K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Infer").field("program", &self.lanes[0].program).finish_non_exhaustive()
    }
}

impl<const K: usize, R> Infer<K, R> {
    pub(super) fn of_trace(base: &Base, inputs: Vec<Input>, traced: Traced) -> Result<Self> {
        let program = compiled(base, traced)?;
        Ok(Self {
            lanes: vec![SizedProgram::new(inputs, program)],
            recipe: None,
            outputs: Vec::new(),
            seed: Arc::clone(&base.seed),
            runs: 0,
            token: Token::default(),
            results: PhantomData,
        })
    }

    /// Moves the program for the batch of the data to the front. Compiles it if it is new and the batch may
    /// have any extent.
    fn select(&mut self, data: &[Data<'_>]) -> Result<()> {
        let Some((recipe, declared)) = &self.recipe else { return Ok(()) };
        let make = |inputs: Vec<Input>| recipe(&inputs).map(|program| SizedProgram::new(inputs, program));
        any_batch::select(&mut self.lanes, |lane| &lane.inputs, (declared, 1), data, make)
    }

    /// Queues a run on a list of data whose length need not be known at compile time. The outputs are read
    /// like those of a training step; the results are named `result.0`, `result.1`, .. If a run fails and is
    /// not read, its error is returned by the next run that is read, unless [`Infer::run`] is called in
    /// between.
    ///
    /// # Errors
    /// Returns an error if `data` does not have the declared dtype and size for each input, if the store or
    /// the device is lost, or if the run was cancelled.
    pub fn queue(&mut self, data: &[Data<'_>]) -> Result<Step> {
        self.prepare(data)?;
        let SizedProgram { program, failures, .. } = &mut self.lanes[0];
        let step = Step::queued(program, self.token.stop(), self.runs, failures)?;
        self.runs += 1;
        Ok(step)
    }

    /// Sets the inputs and scalars of a run.
    fn prepare(&mut self, data: &[Data<'_>]) -> Result<()> {
        self.token.stop().check()?;
        self.select(data)?;
        let SizedProgram { inputs, program, .. } = &mut self.lanes[0];
        check_all(inputs, data, 1, program.backend())?;
        program.feed(inputs.iter().map(|input| input.name.as_str()).zip(data))?;
        program.set_scalars(random_key(key(&self.seed), self.runs))
    }

    /// Sets the token that can end later runs, or removes it: see [`CancelToken`]. A run ended by the token
    /// returns an error of kind [`ErrorKind::Cancelled`] or [`ErrorKind::DeadlineExceeded`], and is not
    /// counted.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::{nn::Linear, trace::f32};
    /// use gradloom::{CancelToken, Device, Session};
    /// use std::time::Duration;
    ///
    /// let session = Session::new(Linear::new(3, 2), &Device::cpu(), 7)?;
    /// let mut forward = session.infer([f32("x", [1, 3])], |layer, [x]| layer.forward(x))?;
    /// // Set a new token for each request.
    /// forward.set_cancel_token(CancelToken::with_timeout(Duration::from_secs(3600)));
    /// forward.run([&[0.0f32; 3]])?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn set_cancel_token(&mut self, token: impl Into<Option<CancelToken>>) {
        self.token.given = token.into();
    }

    /// Returns the plan of a run: its launches, and the location of each buffer.
    pub fn plan(&self) -> &Plan {
        self.lanes[0].program.plan()
    }

    /// Returns the compiled program.
    pub fn program(&self) -> &Program {
        &self.lanes[0].program
    }

    /// Returns an inspection of the program: its launches and memory as text, JSON, and a page in the
    /// browser; see [`Inspection`].
    pub fn inspect(&self) -> Inspection<'_> {
        Inspection::of_forward(&self.lanes[0].program)
    }

    /// Runs the program on the data, and returns a breakdown of its time: see
    /// [`Train::profile`](super::Train::profile). If the program updates states, each run changes them.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, ProfileOptions, Session};
    /// let session = Session::new(Linear::new(8, 2), &Device::cpu(), 0)?;
    /// let mut infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// let profile = infer.profile(ProfileOptions::new(20).without_roof(), [&[1.0f32; 32]])?;
    /// assert_eq!(profile.launches[0].name, "dot [4 x 2] with epilogue");
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Infer::run`]. Also returns an error if the device runs nothing.
    pub fn profile<'a>(
        &mut self,
        options: impl Into<ProfileOptions>,
        data: impl Feed<'a, K>,
    ) -> Result<Profile> {
        let data = data.feed();
        self.select(&data)?;
        let options = options.into().or_named("a forward program");
        Profile::collect(self, &data, options)
    }
}

impl<const K: usize, R: Outputs> Infer<K, R> {
    #[track_caller]
    pub(super) fn compile<M: Module>(
        session: &Session<M>,
        inputs: [Input; K],
        f: impl FnOnce(&M, [Tensor; K]) -> R,
    ) -> Result<Self> {
        Self::compile_with(session, inputs, f, |traced| traced)
    }

    /// Compiles a trace after `change` has modified it.
    #[track_caller]
    pub(super) fn compile_with<M: Module>(
        session: &Session<M>,
        inputs: [Input; K],
        f: impl FnOnce(&M, [Tensor; K]) -> R,
        change: impl FnOnce(Traced) -> Traced,
    ) -> Result<Self> {
        let traced = traced(session.model(), &inputs, f)?;
        Self::of_trace(session.base(), inputs.to_vec(), change(traced))
    }

    #[track_caller]
    pub(super) fn of_any_batch<M: Module + Send + Sync + 'static>(
        session: &Session<M>,
        inputs: [Input; K],
        f: impl Fn(&M, [Tensor; K]) -> R + Send + 'static,
    ) -> Result<Self> {
        check(&inputs)?;
        let first = Self::compile(session, inputs.clone(), &f)?;
        let session = session.clone();
        let recipe = move |inputs: &[Input]| compiled(session.base(), traced(session.model(), inputs, &f)?);
        Ok(Self { recipe: Some((Box::new(recipe), inputs.to_vec())), ..first })
    }

    /// Runs the program on the data.
    ///
    /// # Errors
    /// Returns an error if data does not have the declared dtype or size, if a trap occurs, such as an index
    /// out of range, or if the run was cancelled.
    pub fn run<'a>(&mut self, data: impl Feed<'a, K>) -> Result<R::Read> {
        self.prepare(&data.feed())?;
        let outcome = self.lanes[0].program.run(self.token.stop(), &mut self.outputs);
        self.ended(outcome)?;
        let program = &self.lanes[0].program;
        let outputs = program.outputs().zip(&mut self.outputs).filter(|((name, _), _)| is_result(name));
        R::read(&mut outputs.map(|((name, ty), elements)| Value { name, dtype: ty.dtype, elements }))
    }

    /// Runs the program on the data, and leaves the results on the device. Returns a
    /// [`DeviceTensor`](crate::DeviceTensor) for each tensor that the closure returned, in the same
    /// structure. Captured tensors are not read.
    ///
    /// On an asynchronous device, the run is queued and this function returns immediately; steps that are
    /// queued with the tensors use the data that the run will write. If the program can trap, because it uses
    /// data as indices, this function waits for the run, so that no step uses the tensors of a run that
    /// trapped. A result that is a view (transposed, broadcast) is copied through the host.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::{nn::Linear, optim::Sgd, trace::f32};
    /// use gradloom::{Device, Session};
    ///
    /// let device = Device::cpu();
    /// let session = Session::new((Linear::new(3, 2), Linear::new(2, 1)), &device, 7)?;
    /// let mut encode = session.infer([f32("x", [4, 3])], |m, [x]| m.0.forward(x).relu())?;
    /// let mut train = session
    ///     .trainer()
    ///     .only("1.*")
    ///     .inputs([f32("code", [4, 2])])
    ///     .loss(|m, [code]| m.1.forward(code).square().mean())
    ///     .optimizer(Sgd::new(0.1))
    ///     .compile(&device)?;
    /// let code = encode.run_on_device([&[1.0f32; 12]])?;
    /// train.step([&code])?.loss()?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Infer::run`]. Also returns an error if the device has no memory for the
    /// results.
    pub fn run_on_device<'a>(&mut self, data: impl Feed<'a, K>) -> Result<R::OnDevice> {
        self.prepare(&data.feed())?;
        self.outputs.clear();
        let program = &mut self.lanes[0].program;
        let results = program.outputs().filter(|(name, _)| is_result(name)).count();
        let (outcome, tensors) = match program.run_on_device(self.token.stop(), results) {
            Ok((outcome, tensors)) => (Ok(outcome), tensors),
            Err(error) => (Err(error), Vec::new()),
        };
        self.ended(outcome)?;
        Ok(R::on_device(&mut tensors.into_iter()))
    }

    /// Counts a run, and returns its error.
    fn ended(&mut self, outcome: Result<Outcome>) -> Result<()> {
        let run = self.runs;
        // Count a run only if the device executed it, as in training.
        let attempted = outcome.as_ref().map_or_else(|error| error.kind() == ErrorKind::Trap, |_| true);
        self.runs += u64::from(attempted);
        match outcome? {
            Outcome::Committed => Ok(()),
            Outcome::NotFinite { guard } => {
                Err(Error::new(ErrorKind::NotFinite { step: run }, format!("the {guard} is not finite")))
            }
        }
    }

    /// Prepares the next run for execution launch by launch, on copies: neither the program nor the store
    /// changes.
    ///
    /// # Errors
    /// Returns the same errors as [`Train::debug_run`](super::Train::debug_run).
    pub fn debug_run<'a>(&self, data: impl Feed<'a, K>, retention: Retention) -> Result<DebugRun> {
        let data = data.feed();
        let SizedProgram { inputs, program, .. } = &self.lanes[0];
        check_all(inputs, &data, 1, program.backend())?;
        let bytes = data.iter().map(Data::bytes).collect::<Result<Vec<_>>>()?;
        let fed: Vec<(&str, &[u8])> =
            inputs.iter().zip(&bytes).map(|(input, bytes)| (input.name.as_str(), &bytes[..])).collect();
        program.debug_run(&fed, random_key(key(&self.seed), self.runs), retention)
    }

    /// Returns a tensor captured under a name in the last run. The tensors that the closure returned are not
    /// captured; [`Infer::run`] has returned them.
    ///
    /// # Errors
    /// Returns an error if nothing was captured under the name, or if there was no run.
    pub fn get(&self, name: &str) -> Result<Vec<f32>> {
        let (dtype, elements) = self.captured(name)?;
        elements.to_f32(dtype, &output(name))
    }

    /// Like [`Infer::get`], but with the tensor's own element type.
    ///
    /// # Errors
    /// Returns the same errors as [`Infer::get`]. Also returns an error if the tensor has another type.
    pub fn get_as<T: Element>(&self, name: &str) -> Result<Vec<T>> {
        let (dtype, elements) = self.captured(name)?;
        read_as(&output(name), dtype, elements)
    }

    fn captured(&self, name: &str) -> Result<(DType, &Elements)> {
        let mut outputs = self.lanes[0].program.outputs().zip(&self.outputs);
        match outputs.find(|((known, _), _)| *known == name && !is_result(name)) {
            Some(((_, ty), elements)) => Ok((ty.dtype, elements)),
            None => Err(Error::new(ErrorKind::Feed, format!("the last run has no output `{name}`"))
                .help(format!("capture a tensor in the closure with `.capture(\"{name}\")`, and run first"))),
        }
    }

    /// Starts or stops timing whole runs with the GPU's clock; see [`Program::set_step_timing`].
    pub fn set_step_timing(&mut self, on: bool) {
        self.lanes[0].program.set_step_timing(on);
    }

    /// Returns the time of the last run on the GPU; see [`Program::step_time`].
    ///
    /// # Errors
    /// Returns an error if the device is lost.
    pub fn step_time(&self) -> Result<Option<std::time::Duration>> {
        self.lanes[0].program.step_time()
    }

    /// Starts or stops recording the time of each launch; see [`Program::set_profiling`].
    pub fn set_profiling(&mut self, on: bool) {
        self.lanes[0].program.set_profiling(on);
    }

    /// Returns the times of the launches of the last run; see [`Program::spans`].
    pub fn spans(&self) -> &[LaunchSpan] {
        self.lanes[0].program.spans()
    }
}

/// Returns `true` if an output is a tensor that the closure returned. The caller receives the memory of such
/// an output.
fn is_result(name: &str) -> bool {
    name.starts_with("result.")
}

#[track_caller]
fn traced<M: Module, const K: usize, R: Outputs>(
    model: &M,
    inputs: &[Input],
    f: impl FnOnce(&M, [Tensor; K]) -> R,
) -> Result<Traced> {
    let array = |tensors: &[Tensor]| <[Tensor; K]>::try_from(tensors).expect("K inputs were declared");
    trace(model, inputs, false, |x| f(model, array(x)), R::tensors)
}

/// Compiles a trace whose results become outputs.
fn compiled(base: &Base, mut traced: Traced) -> Result<Program> {
    base.check_knows(&traced)?;
    for (i, &value) in traced.results.iter().enumerate() {
        traced.graph.outputs.insert(i, Output { name: format!("result.{i}"), value });
    }
    verify_graph(&traced.graph, "trace")?;
    let (graph, _) = passes::run(traced.graph);
    base.compile(graph)
}

impl<const K: usize, R> Profiled for Infer<K, R> {
    fn first_program(&mut self) -> &mut Program {
        &mut self.lanes[0].program
    }

    fn run_step(&mut self, data: &[Data<'_>]) -> Result<()> {
        self.queue(data)?.result()
    }
}
