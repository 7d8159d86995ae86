//! A submitted step, and its results.

use super::failures::{Failures, with_others};
use crate::program::Program;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::DType;
use gradloom_core::optim::GRADIENT_NORM;
use gradloom_device::backend::Pending;
use gradloom_device::cancel::Stop;
use gradloom_device::elements::Elements;
use gradloom_device::outcome::Outcome;
use gradloom_device::outputs::{Element, read_as};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Poll, Waker};

/// Results of one run, in a slot that is reused when no handle to it is left.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) step: u64,
    /// Index of the run in the program.
    pub(crate) run: u64,
    pub(crate) names: Arc<[(String, DType)]>,
    /// Pending run, until a thread waits for it.
    pub(crate) pending: Mutex<Option<Box<dyn Pending>>>,
    pub(crate) done: OnceLock<Done>,
    /// Failures of the program that have not been reported.
    pub(crate) failures: Arc<Failures>,
}

/// Result of a run that has ended.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) error: Option<Error>,
    /// Bytes of each output, in the order of the slot's names.
    pub(crate) values: Vec<Elements>,
}

impl Done {
    /// Creates the result of a run. A trap or a non-finite guard becomes the error of the step.
    ///
    /// # Errors
    /// Returns an error that does not belong to the step itself, but to the device or the store.
    pub(crate) fn new(step: u64, outcome: Result<Outcome>, values: Vec<Elements>) -> Result<Self> {
        match outcome {
            Ok(Outcome::Committed) => Ok(Self { error: None, values }),
            Ok(Outcome::NotFinite { guard }) => {
                let kind = ErrorKind::NotFinite { step };
                let error = Error::new(kind, format!("the {guard} of step {step} is not finite"))
                    .note("no parameter was changed by this step")
                    .help(
                        "lower the learning rate, warm it up, or clip gradients; look at the data of this \
                         step",
                    )
                    .help("`Train::find_not_finite` names the op that made it, given the data of this step");
                Ok(Self { error: Some(error), values })
            }
            Err(error) if error.kind() == ErrorKind::Trap => {
                Ok(Self { error: Some(error), values: Vec::new() })
            }
            Err(error) => Err(error),
        }
    }
}

impl Slot {
    /// Waits for the run, and returns its results.
    pub(crate) fn done(&self) -> &Done {
        self.done.get_or_init(|| {
            let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner).take();
            let pending = pending.expect("a run is pending or done");
            let done = pending.wait().and_then(|finished| {
                let others = self.failures.extend(self.run, finished.failures);
                let done = Done::new(self.step, finished.outcome, finished.outputs)?;
                Ok(Done { error: done.error.map(|error| with_others(error, others)), ..done })
            });
            done.unwrap_or_else(|error| {
                self.failures.add(self.run, error.clone());
                Done { error: Some(error), values: Vec::new() }
            })
        })
    }

    /// Returns `Ready` if [`Slot::done`] would not wait, or if a thread is already waiting. Otherwise the
    /// waker is woken when the run has ended.
    fn poll(&self, waker: &Waker) -> Poll<()> {
        match &mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(pending) if self.done.get().is_none() => pending.poll(waker),
            _ => Poll::Ready(()),
        }
    }
}

/// Submitted training step or forward run. Reading it waits for the device if necessary.
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) slot: Arc<Slot>,
}

impl Step {
    /// Queues a run of a program, or runs it if the device has no queue.
    pub(super) fn queued(
        program: &mut Program,
        stop: Stop<'_>,
        step: u64,
        failures: &Arc<Failures>,
    ) -> Result<Self> {
        let names = program.outputs().map(|(name, ty)| (name.to_string(), ty.dtype)).collect();
        let mut slot = Slot { step, run: step, names, failures: Arc::clone(failures), ..Slot::default() };
        match program.submit(stop)? {
            Some(pending) => {
                slot.run = pending.run();
                failures.number(slot.run, step);
                slot.pending = Mutex::new(Some(pending));
            }
            None => {
                let mut values = Vec::new();
                let outcome = program.run(stop, &mut values);
                slot.done = OnceLock::from(Done::new(step, outcome, values)?);
            }
        }
        Ok(Self { slot: Arc::new(slot) })
    }

    /// Returns the name, dtype, and row-major elements in native byte order of each output. Empty if a trap
    /// ended the step.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, DType, &[u8])> {
        let values = &self.slot.done().values;
        self.slot.names.iter().zip(values).map(|((name, dtype), bytes)| (name.as_str(), *dtype, &bytes[..]))
    }

    /// Returns the index of the step among the attempted ones, starting at 0.
    pub fn number(&self) -> u64 {
        self.slot.step
    }

    /// Checks that the step succeeded.
    ///
    /// # Errors
    /// Returns [`ErrorKind::NotFinite`] if the loss or the gradient norm was not finite, or the error of a
    /// trap; in both cases nothing was updated. Returns [`ErrorKind::Lost`] if the device is lost, or
    /// [`ErrorKind::Device`] if it could not return the results of a queued step, which may have taken effect
    /// ([`Train::applied_steps`](super::Train::applied_steps) reports the count).
    ///
    /// If this step took effect, but the error of an earlier step has not been read, that error is returned
    /// instead, with the number of its step. It then counts as read, and this step can be read again.
    pub fn result(&self) -> Result<()> {
        match &self.slot.done().error {
            None => self.slot.failures.tell_before(self.slot.run),
            Some(error) => {
                self.slot.failures.forget(self.slot.run);
                Err(error.clone())
            }
        }
    }

    /// Returns `true` if parameters were updated. They are not updated if the gradients of a scaled loss
    /// overflow ([`Trainer::precision`](super::Trainer::precision)).
    ///
    /// # Errors
    /// Returns the same errors as [`Step::result`].
    pub fn is_applied(&self) -> Result<bool> {
        self.result()?;
        Ok(self.value(self.output(GRADIENT_NORM)?)?[0].is_finite())
    }

    /// Returns the loss before the update.
    ///
    /// # Errors
    /// Returns the same errors as [`Step::result`].
    pub fn loss(&self) -> Result<f32> {
        self.result()?;
        Ok(self.value(self.output(gradloom_codegen::pipeline::LOSS)?)?[0])
    }

    /// Returns the loss before the update, without blocking the thread on asynchronous devices. The future
    /// can be run by any executor, and dropped at any time.
    ///
    /// # Errors
    /// Returns the same errors as [`Step::result`].
    pub async fn loss_async(&self) -> Result<f32> {
        std::future::poll_fn(|context| self.slot.poll(context.waker())).await;
        self.loss()
    }

    /// Returns the row-major elements of a captured tensor by name, or of `loss` or `gradient_norm`. They can
    /// be read even if a guard of the step failed.
    ///
    /// # Errors
    /// Returns an error if nothing was captured under the name, or if a trap ended the step. Also returns the
    /// error of an earlier step, as [`Step::result`] does.
    pub fn get(&self, name: &str) -> Result<Vec<f32>> {
        let output = self.output(name)?;
        self.slot.done();
        self.slot.failures.tell_before(self.slot.run)?;
        self.value(output)
    }

    /// Like [`Step::get`], but with the tensor's own element type: `step.get_as::<i32>("tokens")`.
    ///
    /// # Errors
    /// Returns the same errors as [`Step::get`]. Also returns an error if the tensor has another type.
    pub fn get_as<T: Element>(&self, name: &str) -> Result<Vec<T>> {
        let output = self.output(name)?;
        self.slot.done();
        self.slot.failures.tell_before(self.slot.run)?;
        match self.slot.done().values.get(output) {
            Some(elements) => {
                read_as(&gradloom_device::elements::output(name), self.slot.names[output].1, elements)
            }
            None => self.result().map(|()| Vec::new()),
        }
    }

    /// Returns the index of an output.
    fn output(&self, name: &str) -> Result<usize> {
        self.slot.names.iter().position(|(known, _)| known == name).ok_or_else(|| {
            let names: Vec<&str> = self.slot.names.iter().map(|(known, _)| known.as_str()).collect();
            Error::new(ErrorKind::Feed, format!("the step has no output `{name}`"))
                .note(format!("it has: {}", names.join(", ")))
                .help(format!("capture a tensor in the loss with `.capture({name:?})`"))
        })
    }

    /// Returns the elements of an output. Does not report errors of other steps.
    fn value(&self, output: usize) -> Result<Vec<f32>> {
        match self.slot.done().values.get(output) {
            Some(elements) => {
                let (name, dtype) = &self.slot.names[output];
                elements.to_f32(*dtype, &gradloom_device::elements::output(name))
            }
            None => self.result().map(|()| Vec::new()),
        }
    }
}
