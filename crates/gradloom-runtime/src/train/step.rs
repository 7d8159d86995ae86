//! A step that was submitted, and what can be read of it.

use crate::outputs::to_f32;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::DType;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Results of one run, in a slot that is used again when nobody holds it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) step: u64,
    pub(crate) error: Option<Error>,
    /// Bytes of each output, in the order of `names`.
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) names: Arc<[(String, DType)]>,
    /// Whether the caller has seen the error.
    pub(crate) seen: AtomicBool,
}

/// A step. Reading waits for the device, if at all.
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) slot: Arc<Slot>,
}

impl Step {
    /// Number of the step among the attempted ones, from 0.
    pub fn number(&self) -> u64 {
        self.slot.step
    }

    /// Whether the parameters were updated.
    ///
    /// # Errors
    /// [`ErrorKind::NotFinite`] when the loss or the gradient norm was not finite, or a trap: nothing was updated then.
    pub fn result(&self) -> Result<()> {
        match &self.slot.error {
            None => Ok(()),
            Some(error) => {
                self.slot.seen.store(true, Ordering::Relaxed);
                Err(error.clone())
            }
        }
    }

    /// The loss before the update.
    ///
    /// # Errors
    /// As [`Step::result`].
    pub fn loss(&self) -> Result<f32> {
        self.result()?;
        Ok(self.get(super::compile::LOSS)?[0])
    }

    /// The loss before the update, without blocking the thread on devices that compute elsewhere.
    ///
    /// # Errors
    /// As [`Step::result`].
    pub async fn loss_async(&self) -> Result<f32> {
        self.loss()
    }

    /// A captured tensor by name, also `loss` and `gradient_norm`: row-major elements. Readable for a step that failed on a guard.
    ///
    /// # Errors
    /// When nothing was captured under the name, or a trap ended the step before it was computed.
    pub fn get(&self, name: &str) -> Result<Vec<f32>> {
        let Some(i) = self.slot.names.iter().position(|(known, _)| known == name) else {
            let names: Vec<&str> = self.slot.names.iter().map(|(known, _)| known.as_str()).collect();
            return Err(Error::new(ErrorKind::Feed, format!("the step has no output `{name}`"))
                .note(format!("it has: {}", names.join(", ")))
                .help(format!("capture a tensor in the loss with `.capture({name:?})`")));
        };
        match self.slot.values.get(i) {
            Some(bytes) => to_f32(self.slot.names[i].1, bytes),
            None => self.result().map(|()| Vec::new()),
        }
    }
}
