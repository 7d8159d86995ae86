//! Optimizers and schedules as numbers.

use crate::arguments::Arguments;
use crate::model::Model;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::optim::{Adam, AdamW, Schedule, Sgd};
use gradloom_runtime::Trainer;

/// Gives a trainer the optimizer, bounds and schedule that the numbers say: kind (0 Adam, 1 AdamW, 2 SGD),
/// beta1, beta2, epsilon, decay, momentum (-1: none), Nesterov, whether everything decays, clip norm (0:
/// none), memory budget in bytes (0: none), schedule.
pub(crate) fn configure(trainer: Trainer<Model>, arguments: &mut Arguments<'_>) -> Result<Trainer<Model>> {
    let kind = arguments.index()?;
    let (beta1, beta2, epsilon) = (arguments.number()?, arguments.number()?, arguments.number()?);
    let (decay, momentum, nesterov) = (arguments.number()?, arguments.number()?, arguments.bool()?);
    let everything = arguments.bool()?;
    let (clip, budget) = (arguments.number()?, arguments.index()?);
    let lr = schedule(arguments)?;
    macro_rules! adam {
        ($kind:ident) => {{
            let adam = $kind::new(lr).betas(beta1, beta2).epsilon(epsilon).weight_decay(decay);
            trainer.optimizer(if everything { adam.decay_everything() } else { adam })
        }};
    }
    let mut trainer = match kind {
        0 => adam!(Adam),
        1 => adam!(AdamW),
        2 => {
            let mut sgd = Sgd::new(lr).weight_decay(decay);
            if momentum >= 0.0 {
                sgd = sgd.momentum(momentum);
            }
            if nesterov {
                sgd = sgd.nesterov();
            }
            trainer.optimizer(if everything { sgd.decay_everything() } else { sgd })
        }
        _ => return Err(Error::new(ErrorKind::Internal, "there is no such optimizer")),
    };
    if clip != 0.0 {
        trainer = trainer.clip_norm(clip);
    }
    if budget > 0 {
        trainer = trainer.memory_budget(budget);
    }
    Ok(trainer)
}

/// A schedule: its kind, then its numbers.
pub(crate) fn schedule(arguments: &mut Arguments<'_>) -> Result<Schedule> {
    let steps = |arguments: &mut Arguments<'_>| Ok::<u64, Error>(arguments.index()? as u64);
    let then = |arguments: &mut Arguments<'_>| Ok::<Box<Schedule>, Error>(Box::new(schedule(arguments)?));
    Ok(match arguments.index()? {
        0 => Schedule::Constant(arguments.number()?),
        1 => {
            Schedule::Linear { from: arguments.number()?, to: arguments.number()?, steps: steps(arguments)? }
        }
        2 => {
            Schedule::Cosine { from: arguments.number()?, to: arguments.number()?, steps: steps(arguments)? }
        }
        3 => Schedule::Warmup { peak: arguments.number()?, steps: steps(arguments)?, then: then(arguments)? },
        4 => Schedule::Staircase {
            peak: arguments.number()?,
            every: steps(arguments)?,
            gamma: arguments.number()?,
        },
        5 => {
            let (peak, gamma) = (arguments.number()?, arguments.number()?);
            let milestones = arguments.integers()?.into_iter().map(|step| step as u64).collect();
            Schedule::Milestones { peak, milestones, gamma }
        }
        6 => Schedule::Delayed { start: steps(arguments)?, then: then(arguments)? },
        _ => return Err(Error::new(ErrorKind::Internal, "there is no such schedule")),
    })
}
