//! Training step for inputs of one size.
//!
//! In: a traced loss, an optimizer, and options. Out: a [`StepProgram`], which runs steps. A
//! [`Train`](super::Train) has one, or, if the batch may have any extent, one for each recent extent.

use super::base::Base;
use super::failures::Failures;
use super::step::{Done, Slot, Step};
use crate::program::Program;
use gradloom_codegen::pipeline::{self, Clock, Options, Stages};
use gradloom_core::error::Result;
use gradloom_core::ir::{DType, Graph, Number};
use gradloom_core::optim::{Optimizer, of_all_batches};
use gradloom_core::trace::{Input, Traced};
use gradloom_device::cancel::Stop;
use gradloom_device::feed::Data;
use std::sync::{Arc, Mutex, OnceLock};

/// Number of steps whose results can be unread at the same time without allocating memory.
const SLOTS: usize = 4;

/// Program, with the results of its last steps.
pub(super) struct StepProgram {
    /// Inputs of a step, including all micro-batches.
    pub(super) inputs: Vec<Input>,
    pub(super) program: Program,
    pub(super) stages: Stages,
    pub(super) failures: Arc<Failures>,
    slots: Vec<Arc<Slot>>,
    /// Number of runs of the program so far.
    runs: u64,
    /// Last step, on an asynchronous device.
    last: Option<Step>,
}

impl StepProgram {
    /// Compiles a loss that was traced with the given inputs.
    pub(super) fn compile(
        base: &Base,
        inputs: Vec<Input>,
        traced: &Traced,
        optimizer: &dyn Optimizer,
        options: &Options,
    ) -> Result<Self> {
        let mut clock = Clock::default();
        let plan = &mut |graph: &Graph| base.plan(graph);
        let graphs = pipeline::training(traced, &base.params, optimizer, options, &mut clock, plan)?;
        let program = base.compile(graphs.passes.clone())?;
        let stages = Stages::new(graphs, Arc::clone(program.stages()), clock);
        let names: Arc<[(String, DType)]> =
            program.outputs().map(|(name, ty)| (name.to_string(), ty.dtype)).collect();
        let failures = Arc::new(Failures::default());
        let slots = (0..SLOTS).map(|_| slot(&names, &failures)).collect();
        let inputs = of_all_batches(inputs, options.micro_batches);
        Ok(Self { inputs, program, stages, failures, slots, runs: 0, last: None })
    }

    /// Queues a step with the given number, or runs it if the device has no queue.
    pub(super) fn submit(
        &mut self,
        step: u64,
        stop: Stop<'_>,
        data: &[Data<'_>],
        scalars: impl Fn(&str) -> Option<Number>,
    ) -> Result<Step> {
        self.program.set_scalars(scalars)?;
        self.program.feed(self.inputs.iter().map(|input| input.name.as_str()).zip(data))?;
        let index = self.free_slot();
        let slot = Arc::get_mut(&mut self.slots[index]).expect("a free slot has no other owner");
        let mut values = slot.done.take().unwrap_or_default().values;
        // Drop the pending run of the slot's last step, which can no longer be read.
        slot.pending = Mutex::default();
        slot.step = step;
        let pending = self.program.submit(stop)?;
        slot.run = pending.as_ref().map_or(self.runs, |pending| pending.run());
        self.failures.number(slot.run, step);
        match pending {
            Some(pending) => {
                slot.pending = Mutex::new(Some(pending));
                self.last = Some(Step { slot: Arc::clone(&self.slots[index]) });
            }
            None => {
                let outcome = self.program.run(stop, &mut values);
                let done = Done::new(step, outcome, values)?;
                done.error.iter().for_each(|error| self.failures.add(slot.run, error.clone()));
                slot.done = OnceLock::from(done);
            }
        }
        let slot = &self.slots[index];
        self.runs = slot.run + 1;
        Ok(Step { slot: Arc::clone(slot) })
    }

    /// Waits for all submitted steps.
    pub(super) fn wait(&self) {
        if let Some(last) = &self.last {
            last.slot.done();
        }
    }

    /// Returns the index of a slot that no [`Step`] holds; adds one if all are held.
    fn free_slot(&mut self) -> usize {
        if let Some(free) = self.slots.iter_mut().position(|slot| Arc::get_mut(slot).is_some()) {
            return free;
        }
        let names = Arc::clone(&self.slots[0].names);
        self.slots.push(slot(&names, &self.failures));
        self.slots.len() - 1
    }
}

/// Creates a slot for outputs with the given names.
fn slot(names: &Arc<[(String, DType)]>, failures: &Arc<Failures>) -> Arc<Slot> {
    Arc::new(Slot { names: Arc::clone(names), failures: Arc::clone(failures), ..Slot::default() })
}
