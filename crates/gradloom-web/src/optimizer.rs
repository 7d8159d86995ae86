//! Optimizers, schedules and initial values as numbers: what reads them is made by the build script from
//! their declarations.

use crate::arguments::Arguments;
use crate::commands::misuse;
use crate::model::Model;
use gradloom_core::error::Result;
use gradloom_core::nn::Init;
use gradloom_core::optim::Schedule;
use gradloom_runtime::Trainer;
use std::sync::Arc;

include!(concat!(env!("OUT_DIR"), "/training.rs"));

/// Gives a trainer the optimizer, bounds and schedule that the numbers say: code, clip norm (0: none), memory
/// budget in bytes (0: none), schedule, and settings as pairs of code and number.
pub(crate) fn configure(trainer: Trainer<Model>, arguments: &mut Arguments<'_>) -> Result<Trainer<Model>> {
    let (code, clip, budget) = (arguments.index()?, arguments.number()?, arguments.index()?);
    let lr = schedule(arguments)?;
    let settings = arguments.rest(|arguments| Ok((arguments.index()?, arguments.number()?)))?;
    let built = with_optimizer(trainer, code, lr, &settings);
    let mut trainer = built.ok_or_else(|| misuse("there is no such optimizer or setting"))?;
    if clip != 0.0 {
        trainer = trainer.clip_norm(clip);
    }
    if budget > 0 {
        trainer = trainer.memory_budget(budget);
    }
    Ok(trainer)
}
