//! A submitted step and its results.

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

/// Results of one run, in a slot that is used again when no handle is left.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) step: u64,
    /// Number of the run within the program.
    pub(crate) run: u64,
    pub(crate) names: Arc<[(String, DType)]>,
    /// The run, while no thread waits for it.
    pub(crate) pending: Mutex<Option<Box<dyn Pending>>>,
    pub(crate) done: OnceLock<Done>,
    /// The program's failures that were not reported yet.
    pub(crate) failures: Arc<Failures>,
}

/// A run that has ended.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) error: Option<Error>,
    /// Bytes of each output, in the order of the slot's names.
    pub(crate) values: Vec<Elements>,
}

impl Done {
    /// # Errors
    /// An error that is not of the step itself: of the device, or of the store.
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
    /// Returns the results of the run; waits for it.
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

    /// Returns `Ready` if [`Slot::done`] would not wait, or if a thread waits already; otherwise the waker
    /// is woken when that is so.
    fn poll(&self, waker: &Waker) -> Poll<()> {
        match &mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(pending) if self.done.get().is_none() => pending.poll(waker),
            _ => Poll::Ready(()),
        }
    }
}

/// A step. Reading waits for the device, if at all.
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) slot: Arc<Slot>,
}

impl Step {
    /// Queues a run of a program, or runs it if there is no queue.
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

    /// Returns every output: name, dtype, and row-major elements in the machine's byte order. Empty for a
    /// step that a trap ended.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, DType, &[u8])> {
        let values = &self.slot.done().values;
        self.slot.names.iter().zip(values).map(|((name, dtype), bytes)| (name.as_str(), *dtype, &bytes[..]))
    }

    /// Returns the number of the step among the attempted ones, from 0.
    pub fn number(&self) -> u64 {
        self.slot.step
    }

    /// Checks that the step succeeded.
    ///
    /// # Errors
    /// [`ErrorKind::NotFinite`] when the loss or the gradient norm was not finite, or a trap: nothing was
    /// updated then. [`ErrorKind::Lost`] when the device is lost; [`ErrorKind::Device`] when it could not
    /// hand over the results of a step that was queued, which may have taken effect
    /// ([`Train::applied_steps`](super::Train::applied_steps) tells).
    ///
    /// If this step took effect, but one before it failed and that was not read: the other step's error,
    /// which says its number. It counts as read then, and this step can be read again.
    pub fn result(&self) -> Result<()> {
        match &self.slot.done().error {
            None => self.slot.failures.tell_before(self.slot.run),
            Some(error) => {
                self.slot.failures.forget(self.slot.run);
                Err(error.clone())
            }
        }
    }

    /// Returns whether parameters were updated. They were not if the gradients of a scaled loss
    /// ([`Trainer::precision`](super::Trainer::precision)) overflowed.
    ///
    /// # Errors
    /// As [`Step::result`].
    pub fn is_applied(&self) -> Result<bool> {
        self.result()?;
        Ok(self.value(self.output(GRADIENT_NORM)?)?[0].is_finite())
    }

    /// Returns the loss before the update.
    ///
    /// # Errors
    /// As [`Step::result`].
    pub fn loss(&self) -> Result<f32> {
        self.result()?;
        Ok(self.value(self.output(gradloom_codegen::pipeline::LOSS)?)?[0])
    }

    /// Returns the loss before the update, without blocking the thread on devices that compute elsewhere.
    /// The future can be run by any executor, and dropped at any time.
    ///
    /// # Errors
    /// As [`Step::result`].
    pub async fn loss_async(&self) -> Result<f32> {
        std::future::poll_fn(|context| self.slot.poll(context.waker())).await;
        self.loss()
    }

    /// Returns a captured tensor by name, also `loss` and `gradient_norm`: row-major elements. Readable for
    /// a step that failed on a guard.
    ///
    /// # Errors
    /// When nothing was captured under the name, or a trap ended the step before it was computed; an error of
    /// a step before this one, as [`Step::result`] gives it.
    pub fn get(&self, name: &str) -> Result<Vec<f32>> {
        let output = self.output(name)?;
        self.slot.done();
        self.slot.failures.tell_before(self.slot.run)?;
        self.value(output)
    }

    /// Like [`Step::get`], in the tensor's own type: `step.get_as::<i32>("tokens")`.
    ///
    /// # Errors
    /// As [`Step::get`], and when it is of another type.
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

    /// Returns the number of an output.
    fn output(&self, name: &str) -> Result<usize> {
        self.slot.names.iter().position(|(known, _)| known == name).ok_or_else(|| {
            let names: Vec<&str> = self.slot.names.iter().map(|(known, _)| known.as_str()).collect();
            Error::new(ErrorKind::Feed, format!("the step has no output `{name}`"))
                .note(format!("it has: {}", names.join(", ")))
                .help(format!("capture a tensor in the loss with `.capture({name:?})`"))
        })
    }

    /// Returns the elements of an output. Says nothing of other steps.
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
