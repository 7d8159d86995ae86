//! The builder of a training program.

use super::{Session, Train};
use crate::device::Device;
use gradloom_codegen::pipeline::{self, Clock, Options, Stages};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Graph;
use gradloom_core::nn::Module;
use gradloom_core::optim::Optimizer;
use gradloom_core::trace::{Input, Tensor, Traced, trace};
use std::sync::Arc;

/// Collects what a training program is made of; [`Trainer::compile`] makes it.
///
/// The loss is traced when it is given; its error, if any, is returned by `compile`.
#[must_use]
pub struct Trainer<M, const N: usize = 0> {
    model: M,
    inputs: Vec<Input>,
    traced: Option<Result<Traced>>,
    optimizer: Option<Box<dyn Optimizer>>,
    options: Options,
    seed: u64,
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
    /// A trainer of `model`.
    pub fn new(model: M) -> Self {
        let options = Options::default();
        Self { model, inputs: Vec::new(), traced: None, optimizer: None, options, seed: 0 }
    }

    /// A trainer of a model whose loss was [recorded](gradloom_core::trace::Recording) as the only result,
    /// with the inputs that were declared then. A step of it takes data by [`Train::step_with`].
    pub fn recorded(model: M, inputs: Vec<Input>, traced: Traced) -> Self {
        Self { inputs, traced: Some(Ok(traced)), ..Self::new(model) }
    }

    /// Declares the data that every step takes, in order.
    pub fn inputs<const N: usize>(self, inputs: [Input; N]) -> Trainer<M, N> {
        Trainer {
            model: self.model,
            inputs: inputs.to_vec(),
            traced: None,
            optimizer: self.optimizer,
            options: self.options,
            seed: self.seed,
        }
    }
}

impl<M: Module, const N: usize> Trainer<M, N> {
    /// Traces the loss, an f32 of rank 0: its gradient is what the optimizer follows.
    #[track_caller]
    pub fn loss(mut self, f: impl FnOnce(&M, [Tensor; N]) -> Tensor) -> Self {
        let model = &self.model;
        let array = |tensors: &[Tensor]| <[Tensor; N]>::try_from(tensors).expect("N inputs were declared");
        self.traced = Some(trace(model, &self.inputs, true, |x| f(model, array(x)), |loss| vec![loss]));
        self
    }

    /// Sets the rule that updates parameters from gradients.
    pub fn optimizer(mut self, optimizer: impl Optimizer) -> Self {
        self.optimizer = Some(Box::new(optimizer));
        self
    }

    /// Scales all gradients down together so that their norm is at most `max_norm` (PyTorch's
    /// `clip_grad_norm_`).
    pub fn clip_norm(mut self, max_norm: f64) -> Self {
        self.options.clip_norm = Some(max_norm);
        self
    }

    /// Lets a step take at most so many bytes for everything: parameters, optimizer states, activations,
    /// gradients, scratch ([`Totals::peak`](gradloom_core::plan::Totals::peak)). Where the step would need
    /// more, values of the forward pass are computed again in the backward pass instead of kept, the cheapest
    /// ones first; the results keep their bits. A budget that cannot be met is an error of
    /// [`Trainer::compile`] that names the least number of bytes that was found.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.options.memory_budget = Some(bytes);
        self
    }

    /// Keys initial parameters, dropout and all other random numbers; 0 unless set.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
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
        let session = Session::new(self.model, device, self.seed)?;
        let options = Options { loss_scale: device.backend.loss_scale(), ..self.options };
        let mut clock = Clock::default();
        let plan = &mut |graph: &Graph| session.plan(graph);
        let graphs = pipeline::training(&traced, session.params(), &*optimizer, options, &mut clock, plan)?;
        let program = session.load(graphs.passes.clone())?;
        let stages = Stages::new(graphs, Arc::clone(program.stages()), clock);
        Ok(Train::new(session, self.inputs, optimizer, options.clip_norm, program, stages))
    }
}
