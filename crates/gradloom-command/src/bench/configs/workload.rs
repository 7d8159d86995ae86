//! A compiled step with its data, for any model and inputs.

use crate::failure::Result;
#[cfg(test)]
use gradloom::ir::Graph;
use gradloom::runtime::Program;
use gradloom::{Data, Device, Module, Profile, ProfileOptions, Step, Train};
use std::time::Duration;

/// A training step that carries its data: every step trains on the same batch.
pub(crate) trait Workload {
    /// Queues a step.
    fn step(&mut self) -> Result<Step>;
    /// Starts or stops measuring the device time of steps.
    fn set_step_timing(&mut self, on: bool);
    fn program(&self) -> &Program;
    /// Returns the time that compilation took.
    fn compile_time(&self) -> Duration;
    /// Returns the number of tokens that a step trains on, on all ranks together, or `None` if its model is
    /// not a language model.
    fn tokens(&self) -> Option<usize>;
    fn device(&self) -> &Device;
    /// Returns the graph that was lowered.
    #[cfg(test)]
    fn graph(&self) -> &Graph;
    /// Profiles the step, launch by launch.
    fn profile(&mut self, options: ProfileOptions) -> Result<Profile>;
    /// Returns the number of bytes that the program and its store have allocated.
    fn allocated_bytes(&self) -> u64;
}

/// Elements of one input.
#[derive(Debug)]
pub(super) enum Elements {
    F32(Vec<f32>),
    I32(Vec<i32>),
}

impl Elements {
    fn data(&self) -> Data<'_> {
        match self {
            Elements::F32(elements) => elements.into(),
            Elements::I32(elements) => elements.into(),
        }
    }
}

/// The only implementation of [`Workload`].
pub(super) struct Compiled<M, const N: usize> {
    pub(super) train: Train<M, N>,
    pub(super) data: [Elements; N],
    pub(super) compile_time: Duration,
    pub(super) tokens: Option<usize>,
}

impl<M: Module, const N: usize> Workload for Compiled<M, N> {
    fn step(&mut self) -> Result<Step> {
        Ok(self.train.step(self.data.each_ref().map(Elements::data))?)
    }

    fn set_step_timing(&mut self, on: bool) {
        self.train.set_step_timing(on);
    }

    fn program(&self) -> &Program {
        self.train.program()
    }

    fn compile_time(&self) -> Duration {
        self.compile_time
    }

    fn tokens(&self) -> Option<usize> {
        self.tokens.map(|tokens| tokens * self.train.device().ranks())
    }

    fn device(&self) -> &Device {
        self.train.device()
    }

    #[cfg(test)]
    fn graph(&self) -> &Graph {
        &self.train.stages().passes
    }

    fn profile(&mut self, options: ProfileOptions) -> Result<Profile> {
        Ok(self.train.profile(options, self.data.each_ref().map(Elements::data))?)
    }

    fn allocated_bytes(&self) -> u64 {
        self.train.allocated_bytes()
    }
}
