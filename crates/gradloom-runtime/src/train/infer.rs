//! Forward programs.

use super::failures::Failures;
use super::{Session, Step};
use crate::elements::{Elements, output};
use crate::feed::{Data, Feed, check_all};
use crate::outputs::Outputs;
use crate::profile::LaunchSpan;
use crate::program::{DebugRun, Outcome, Program, Retention, random_key, verify_graph};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Output;
use gradloom_core::nn::Module;
use gradloom_core::passes;
use gradloom_core::plan::Plan;
use gradloom_core::trace::{Input, Tensor, Traced, trace};
use std::marker::PhantomData;
use std::sync::Arc;

/// Keeps random numbers of forward programs apart from those of training steps: the letters of "infer".
const DOMAIN: u64 = 0x69_6e66_6572;

/// A forward program over a store: owned, can run on another thread beside training. A run may update states,
/// which all programs of the session share: one after the other, never half.
#[derive(Debug)]
pub struct Infer<const K: usize, R> {
    inputs: Vec<Input>,
    program: Program,
    outputs: Vec<Elements>,
    seed: u64,
    runs: u64,
    /// Failures of queued runs that were not read.
    failures: Arc<Failures>,
    results: PhantomData<fn() -> R>,
}

impl<const K: usize, R> Infer<K, R> {
    /// Compiles what was traced.
    pub(super) fn of_trace<M: Module>(
        session: &Session<M>,
        inputs: Vec<Input>,
        mut traced: Traced,
    ) -> Result<Self> {
        for (i, &value) in traced.results.iter().enumerate() {
            traced.graph.outputs.insert(i, Output { name: format!("result.{i}"), value });
        }
        verify_graph(&traced.graph, "trace")?;
        let (graph, _) = passes::run(traced.graph);
        let program = session.load(graph)?;
        Ok(Self {
            inputs,
            program,
            outputs: Vec::new(),
            seed: session.seed(),
            runs: 0,
            failures: Arc::default(),
            results: PhantomData,
        })
    }

    /// Queues a run on a list of data whose length is not known before the program runs. Its outputs are read
    /// as those of a training step are; the results are called `result.0`, `result.1`, .. The error of a run
    /// that is not read comes with the next one that is read, unless [`Infer::run`] comes between.
    ///
    /// # Errors
    /// When there is not data of the declared dtype and size for each input; when the store or the device is
    /// lost.
    pub fn queue(&mut self, data: &[Data<'_>]) -> Result<Step> {
        check_all(&self.inputs, data)?;
        for (input, data) in self.inputs.iter().zip(data) {
            self.program.set_input(&input.name, data.bytes());
        }
        self.program.set_scalars(random_key(self.seed ^ DOMAIN, self.runs))?;
        let step = Step::queued(&mut self.program, self.runs, &self.failures)?;
        self.runs += 1;
        Ok(step)
    }

    /// The launches of a run, and the place of every buffer.
    pub fn plan(&self) -> &Plan {
        self.program.plan()
    }

    /// The compiled program.
    pub fn program(&self) -> &Program {
        &self.program
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

    /// With a trace that is changed before it is compiled.
    #[track_caller]
    pub(super) fn compile_with<M: Module>(
        session: &Session<M>,
        inputs: [Input; K],
        f: impl FnOnce(&M, [Tensor; K]) -> R,
        change: impl FnOnce(Traced) -> Traced,
    ) -> Result<Self> {
        let model = session.model();
        let array = |tensors: &[Tensor]| <[Tensor; K]>::try_from(tensors).expect("K inputs were declared");
        let traced = trace(model, &inputs, false, |x| f(model, array(x)), R::tensors)?;
        Self::of_trace(session, inputs.to_vec(), change(traced))
    }

    /// Runs the program on the data.
    ///
    /// # Errors
    /// When data does not have the declared dtype or size; a trap, such as an index out of range.
    pub fn run<'a>(&mut self, data: impl Feed<'a, K>) -> Result<R::Read> {
        let data = data.feed();
        check_all(&self.inputs, &data)?;
        for (input, data) in self.inputs.iter().zip(&data) {
            self.program.set_input(&input.name, data.bytes());
        }
        let run = self.runs;
        self.program.set_scalars(random_key(self.seed ^ DOMAIN, run))?;
        let outcome = self.program.run(&mut self.outputs);
        // As in training: a run that the device failed to do does not count.
        let attempted = outcome.as_ref().map_or_else(|error| error.kind() == ErrorKind::Trap, |_| true);
        self.runs += u64::from(attempted);
        match outcome? {
            Outcome::Committed => {}
            Outcome::NotFinite { guard } => {
                return Err(Error::new(
                    ErrorKind::NotFinite { step: run },
                    format!("the {guard} is not finite"),
                ));
            }
        }
        let mut values = Vec::with_capacity(self.outputs.len());
        for ((name, ty), elements) in self.program.outputs().zip(&mut self.outputs) {
            if is_result(name) {
                values.push(elements.take_f32(ty.dtype, &output(name))?);
            }
        }
        Ok(R::read(&mut values.into_iter()))
    }

    /// Prepares the next run to be run launch by launch, on copies: neither the program nor the store
    /// changes.
    ///
    /// # Errors
    /// As [`Train::debug_run`](super::Train::debug_run).
    pub fn debug_run<'a>(&self, data: impl Feed<'a, K>, retention: Retention) -> Result<DebugRun> {
        let data = data.feed();
        check_all(&self.inputs, &data)?;
        let fed: Vec<(&str, &[u8])> =
            self.inputs.iter().zip(&data).map(|(input, data)| (input.name.as_str(), data.bytes())).collect();
        self.program.debug_run(&fed, random_key(self.seed ^ DOMAIN, self.runs), retention)
    }

    /// A tensor captured under a name in the last run. What the closure returned is no capture:
    /// [`Infer::run`] has given it out.
    ///
    /// # Errors
    /// When nothing was captured under the name, or nothing has run.
    pub fn get(&self, name: &str) -> Result<Vec<f32>> {
        let mut outputs = self.program.outputs().zip(&self.outputs);
        match outputs.find(|((known, _), _)| *known == name && !is_result(name)) {
            Some(((_, ty), elements)) => elements.to_f32(ty.dtype, &output(name)),
            None => Err(Error::new(ErrorKind::Feed, format!("the last run has no output `{name}`"))
                .help(format!("capture a tensor in the closure with `.capture({name:?})`, and run first"))),
        }
    }

    /// Starts or stops noting when each launch of a run runs; see [`Program::set_profiling`].
    pub fn set_profiling(&mut self, on: bool) {
        self.program.set_profiling(on);
    }

    /// When the launches of the last run ran; see [`Program::spans`].
    pub fn spans(&self) -> &[LaunchSpan] {
        self.program.spans()
    }
}

/// Whether an output is what the closure returned: it goes to the caller in the memory to which it was
/// copied.
fn is_result(name: &str) -> bool {
    name.starts_with("result.")
}
