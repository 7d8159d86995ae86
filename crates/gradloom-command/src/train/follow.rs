//! Training on the ranks other than the first.
//!
//! In: the options of the first rank. Out: the same steps on another part of each batch. Invariants: nothing
//! is printed or written; the first rank says when to stop.

use super::begin::Follower;
use super::interrupt;
use super::options::Options;
use crate::failure::{Failure, Result};
use crate::world::{self, Agreement};
use gradloom::ErrorKind;
use gradloom_models::data::Batches;
use std::path::Path;

/// Trains until the first rank stops.
pub(super) fn follow(resumed: Option<&Path>, options: &Options) -> Result<()> {
    let Follower { settings, data, mut train, mut steps } = Follower::new(resumed, options)?;
    let (world, mut agreement) = (world::joined()?, Agreement::default());
    let training = &settings.training;
    let batches = Batches::new(training.seed, training.batch, settings.model.context())
        .part(world.rank(), world.size());
    while steps < training.steps && agreement.goes_on(steps, interrupt::asked())? {
        let (ids, targets) = batches.draw(steps, &data.training)?;
        let loss = train.step((&ids, &targets)).and_then(|step| step.loss());
        loss.map_err(|error| match error.kind() {
            // The first rank has the same loss, and tells it.
            ErrorKind::NotFinite { .. } => Failure::from(error).of_all_ranks(),
            _ => error.into(),
        })?;
        steps += 1;
    }
    Ok(())
}
