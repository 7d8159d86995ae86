//! Training on the ranks other than the first.
//!
//! In: the options of the first rank. Out: the same steps on another part of each batch. Invariants: nothing
//! is printed, and nothing written but this rank's shards; all ranks stop after the same step.

use super::aside::Aside;
use super::begin::Follower;
use super::interrupt;
use super::options::Options;
use super::saving::no_thread;
use super::settings::Settings;
use crate::failure::{Failure, Result};
use crate::run::Snapshot;
use crate::world::{self, Agreement};
use gradloom::{ErrorKind, Store};
use gradloom_models::data::Batches;
use std::path::{Path, PathBuf};

/// Trains until the ranks stop.
pub(super) fn follow(resumed: Option<&Path>, options: &Options) -> Result<()> {
    let Follower { settings, data, mut train, mut steps, mut shards } = Follower::new(resumed, options)?;
    let (world, mut agreement) = (world::joined()?, Agreement::new(steps, settings.training.save_every));
    let training = &settings.training;
    let batches = Batches::new(training.seed, training.batch, settings.model.context())
        .part(world.rank(), world.size());
    while steps < training.steps {
        let agreed = agreement.after(steps, interrupt::asked(), false)?;
        if !agreed.goes_on {
            break;
        }
        if let Some(shards) = shards.as_mut().filter(|_| agreed.saves) {
            shards.hold(&train.store(), steps)?;
        }
        let (ids, targets) = batches.draw(steps, &data.training)?;
        let loss = train.step((&ids, &targets)).and_then(|step| step.loss());
        loss.map_err(|error| match error.kind() {
            // The first rank has the same loss, and tells it.
            ErrorKind::NotFinite { .. } => Failure::from(error).of_all_ranks(),
            _ => error.into(),
        })?;
        shards.iter_mut().for_each(Shards::proven);
        steps += 1;
    }
    let Some(mut shards) = shards else { return Ok(()) };
    shards.hold(&train.store(), steps)?;
    shards.proven();
    shards.settle()
}

/// The shards of the states that the first rank saves: one waiting, one being written.
#[derive(Debug)]
pub(super) struct Shards {
    writer: Aside<Snapshot, (Snapshot, Result<()>)>,
    waiting: Option<Snapshot>,
    /// Memory for the next ones.
    spare: Snapshot,
}

impl Shards {
    /// Creates the shards of a run in a folder; `spare` is reused for the next ones.
    pub(super) fn new(folder: PathBuf, settings: Settings, spare: Snapshot) -> Result<Self> {
        let write = move |snapshot: Snapshot| {
            // The first rank waits for the file, so it must know at once that there will be none.
            let written = snapshot.write_state(&folder, &settings).inspect_err(world::abort);
            (snapshot, written)
        };
        let writer = Aside::start(write).map_err(|error| no_thread(&error))?;
        Ok(Self { writer, waiting: None, spare })
    }

    /// Copies the shards, which are saved once a finite loss is computed from them.
    fn hold(&mut self, store: &Store, steps: u64) -> Result<()> {
        self.settle()?;
        self.spare.renew(store, steps)?;
        if let Some(name) = self.spare.not_finite() {
            return Err(Failure::failed(format!("step {steps}: `{name}` is not finite; training stopped")));
        }
        self.waiting = Some(std::mem::take(&mut self.spare));
        Ok(())
    }

    /// Starts writing the waiting shards, if any.
    fn proven(&mut self) {
        self.waiting.take().into_iter().for_each(|shards| self.writer.give(shards));
    }

    /// Waits for the shards that are being written, if any.
    fn settle(&mut self) -> Result<()> {
        let Some((spare, written)) = self.writer.wait() else { return Ok(()) };
        let step = spare.steps;
        self.spare = spare;
        written.map_err(|failure| failure.context(&format!("saving after step {step} failed")))
    }
}
