//! The pipeline: trace → grad → optim → passes → fuse → lower → plan → emit.
//!
//! In: a traced model with its optimizer ([`training`]), or a graph after its passes and a [`Target`]. Out:
//! the value of every stage, each a function of the ones before it, with the time that it took ([`Stages`]).
//! Nothing here needs the device at hand: a runtime asks its device what it allows, and loads what comes
//! out.

mod dialect;
mod target;
mod training;

pub use crate::kernels::Cuts;
pub use crate::limits::Limits;
pub use crate::schedule::precision::Precision;
pub use dialect::{Code, Text};
pub(crate) use dialect::{Dialect, Source, common, launches};
pub use target::{Target, lower_for};
pub use training::{LOSS, Options, TrainingGraph, differentiate, optimizer_state, training};

use gradloom_core::error::Result;
use gradloom_core::fuse::Fused;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Lowered;
use gradloom_core::passes::{PassReport, now};
use gradloom_core::plan::Plan;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time of a stage, by its name; none where there is no clock.
pub type StageTime = (&'static str, Option<Duration>);

/// Runs stages, and notes how long each takes.
#[derive(Clone, Debug, Default)]
pub struct Clock(Vec<StageTime>);

impl Clock {
    /// Runs a stage of this name.
    ///
    /// # Errors
    /// The stage's.
    pub fn stage<T>(&mut self, name: &'static str, stage: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = now();
        let value = stage()?;
        self.note(name, start);
        Ok(value)
    }

    /// Notes a stage that has ended.
    fn note(&mut self, name: &'static str, start: Option<Instant>) {
        self.0.push((name, start.map(|start| start.elapsed())));
    }

    /// Returns the stages so far, in order.
    pub fn times(&self) -> &[StageTime] {
        &self.0
    }
}

/// Results of the stages after the passes.
#[derive(Clone, Debug)]
pub struct BackEnd {
    /// Kernels, before they are cut into launches of the device.
    pub fused: Fused,
    /// Launches with their schedules.
    pub lowered: Lowered,
    /// The order of launches, and the place of every buffer.
    pub plan: Arc<Plan>,
    /// The times of `fuse`, `lower`, `plan`, `emit` and `load`.
    pub times: Vec<StageTime>,
}

/// The value of every stage of a training program.
#[derive(Clone, Debug)]
pub struct Stages {
    /// The graph as traced: inputs, parameters, the loss, captures.
    pub trace: Graph,
    /// The graph with the backward pass.
    pub grad: Graph,
    /// The graph with the optimizer.
    pub optim: Graph,
    /// Simplified, within the memory budget.
    pub passes: Graph,
    /// Parameters that the loss does not depend on, and that are not trained therefore.
    pub unused: Vec<String>,
    /// The report of each pass.
    pub reports: Vec<PassReport>,
    /// Results of the stages that compile it for the device.
    pub back: Arc<BackEnd>,
    /// The time of each stage, by its name, in order.
    pub times: Vec<StageTime>,
}

impl Stages {
    /// Joins the stages up to the passes, with their times, and those after them.
    pub fn new(graphs: TrainingGraph, back: Arc<BackEnd>, clock: Clock) -> Self {
        let TrainingGraph { trace, grad, optim, passes, unused, reports } = graphs;
        let times = clock.times().iter().chain(&back.times).copied().collect();
        Self { trace, grad, optim, passes, unused, reports, back, times }
    }
}
