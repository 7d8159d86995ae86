//! The pipeline: trace → grad → optim → passes → fuse → lower → plan → emit.
//!
//! In: a traced model with its optimizer ([`training`]), or a graph after its passes and a [`Target`]. Out:
//! the result and the duration of every stage ([`Stages`]). Each stage is a function of the earlier ones and
//! needs no device: a runtime queries the limits of its device, and loads the generated kernels.

mod dialect;
mod target;
mod training;

pub use crate::kernels::Cuts;
pub use crate::limits::Limits;
pub use crate::schedule::precision::Precision;
pub use dialect::{Code, Text};
pub(crate) use dialect::{Dialect, Source, comment, common, launches};
pub use target::Target;
pub use training::{LOSS, Options, TrainingGraph, differentiate, optimizer_state, training};

use gradloom_core::error::Result;
use gradloom_core::fuse::Fused;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Lowered;
use gradloom_core::passes::{PassReport, now};
use gradloom_core::plan::Plan;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of a stage and its duration, which is `None` on platforms without a clock.
pub type StageTime = (&'static str, Option<Duration>);

/// Runs stages and records their durations.
#[derive(Clone, Debug, Default)]
pub struct Clock(Vec<StageTime>);

impl Clock {
    /// Runs a stage and records its duration.
    ///
    /// # Errors
    /// Returns an error if the stage fails.
    pub fn stage<T>(&mut self, name: &'static str, stage: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = now();
        let value = stage()?;
        self.note(name, start);
        Ok(value)
    }

    fn note(&mut self, name: &'static str, start: Option<Instant>) {
        self.0.push((name, start.map(|start| start.elapsed())));
    }

    /// Returns the recorded stages, in order.
    pub fn times(&self) -> &[StageTime] {
        &self.0
    }
}

/// Results of the stages after the passes.
#[derive(Clone, Debug)]
pub struct BackEnd {
    /// Kernels before lowering splits them into launches for the device.
    pub fused: Fused,
    /// Launches with their schedules.
    pub lowered: Lowered,
    /// Order of the launches and memory of every buffer.
    pub plan: Arc<Plan>,
    /// Durations of `fuse`, `lower`, `plan`, `emit` and `load`.
    pub times: Vec<StageTime>,
}

/// The results of all stages of a training program.
#[derive(Clone, Debug)]
pub struct Stages {
    /// The graph as traced: inputs, parameters, the loss, captures.
    pub trace: Graph,
    /// The graph with the backward pass.
    pub grad: Graph,
    /// The graph with the optimizer.
    pub optim: Graph,
    /// The simplified graph, within the memory budget.
    pub passes: Graph,
    /// Parameters that the loss does not depend on, which are therefore not trained.
    pub unused: Vec<String>,
    /// The report of each pass.
    pub reports: Vec<PassReport>,
    /// Results of the stages that compile the program for the device.
    pub back: Arc<BackEnd>,
    /// Names and durations of the stages, in order.
    pub times: Vec<StageTime>,
}

impl Stages {
    /// Joins the results and durations of the stages up to the passes with those of the later stages.
    pub fn new(graphs: TrainingGraph, back: Arc<BackEnd>, clock: Clock) -> Self {
        let TrainingGraph { trace, grad, optim, passes, unused, reports } = graphs;
        let times = clock.times().iter().chain(&back.times).copied().collect();
        Self { trace, grad, optim, passes, unused, reports, back, times }
    }
}
