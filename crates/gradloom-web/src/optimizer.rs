//! Optimizers, schedules and initial values encoded as numbers. The build script generates the code that
//! reads them from their declarations.

use crate::arguments::Arguments;
use crate::commands::misuse;
use crate::model::Model;
use gradloom_core::error::Result;
use gradloom_core::nn::Init;
use gradloom_core::optim::Schedule;
use gradloom_runtime::Trainer;
use std::sync::Arc;

include!(concat!(env!("OUT_DIR"), "/training.rs"));

/// Adds the optimizer, limits and schedule to a trainer. The arguments are: code, maximum norm and value of
/// gradients, memory budget in bytes, decay of running averages (0 turns off any of these four), number of
/// micro-batches, whether parameters may be unused, number of parameters with normalized gradients and their
/// indices in the model, schedule, and settings as pairs of a code and a number. Also returns the number of
/// micro-batches.
pub(crate) fn configure(
    trainer: Trainer<Model>,
    model: &Model,
    arguments: &mut Arguments<'_>,
) -> Result<(Trainer<Model>, usize)> {
    let (code, norm, value) = (arguments.index()?, arguments.number()?, arguments.number()?);
    let (budget, average, micro_batches) = (arguments.bytes()?, arguments.number()?, arguments.index()?);
    let allows_unused = arguments.bool()?;
    let mut normalized = Vec::new();
    for _ in 0..arguments.index()? {
        let param =
            model.params.get(arguments.index()?).ok_or_else(|| misuse("there is no such parameter"))?;
        normalized.push(param.0.clone());
    }
    let lr = schedule(arguments)?;
    let settings = arguments.rest(|arguments| Ok((arguments.index()?, arguments.number()?)))?;
    let built = with_optimizer(trainer, code, lr, &settings);
    let mut trainer = built.ok_or_else(|| misuse("there is no such optimizer or setting"))?;
    if norm != 0.0 {
        trainer = trainer.clip_norm(norm);
    }
    if value != 0.0 {
        trainer = trainer.clip_value(value);
    }
    if average != 0.0 {
        trainer = trainer.average(average);
    }
    if allows_unused {
        trainer = trainer.allow_unused();
    }
    trainer = normalized.into_iter().fold(trainer, Trainer::normalize_gradients);
    if budget > 0 {
        trainer = trainer.memory_budget(budget);
    }
    Ok((trainer.accumulate(micro_batches), micro_batches))
}
