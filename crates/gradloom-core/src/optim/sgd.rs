//! Stochastic gradient descent with momentum, with PyTorch's formulas.

use super::{
    DecayRule, Hyperparameters, Optimizer, Schedule, StepBuilder, Trainable, check_rates, check_share, named,
    set_number,
};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{BinaryOp, ValueId};

/// Stochastic gradient descent, optionally with momentum.
///
/// See [the formulas](crate::optim#formulas).
#[derive(Clone, Debug)]
pub struct Sgd {
    schedule: Schedule,
    momentum: Option<f64>,
    nesterov: bool,
    weight_decay: f64,
    decay_rule: DecayRule,
}

impl Sgd {
    /// Creates the optimizer with a learning rate (a number or a [`Schedule`]), and neither momentum nor
    /// weight decay.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Self {
            schedule: lr.into(),
            momentum: None,
            nesterov: false,
            weight_decay: 0.0,
            decay_rule: DecayRule::default(),
        }
    }

    /// Uses Nesterov momentum, for which [`Sgd::momentum`] must also be called.
    #[must_use]
    pub fn nesterov(mut self) -> Self {
        self.nesterov = true;
        self
    }

    setters! {
        /// Sets the momentum, the factor by which a running sum of gradients decays, at least 0 and less than
        /// 1. By default, there is no momentum.
        momentum
        /// Sets the weight decay, which is added to the gradient; 0 by default.
        ///
        /// By default, it applies to parameters of rank 2 or higher.
        weight_decay;
        decay_everything
    }
}

impl Optimizer for Sgd {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn hyperparameters(&self) -> Hyperparameters {
        let mut numbers = named([("weight_decay", self.weight_decay)]);
        self.momentum.into_iter().for_each(|momentum| set_number(&mut numbers, "momentum", momentum));
        numbers
    }

    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()> {
        check_rates(numbers)?;
        if self.momentum.is_some() {
            check_share(numbers, "momentum")?;
        }
        Ok(())
    }

    fn check(&self, _: &[Trainable]) -> Result<()> {
        if self.nesterov && self.momentum.is_none() {
            return Err(Error::new(ErrorKind::Trace, "`nesterov` of an optimizer without momentum")
                .help("give it one, as `.momentum(0.9)`"));
        }
        Ok(())
    }

    fn update(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId {
        let mut gradient = s.with_decay(parameter, self.decay_rule);
        if self.momentum.is_some() {
            let (buffer, momentum) = (s.state("momentum", parameter), s.scalar("momentum"));
            let kept = s.with_scalar(BinaryOp::Mul, buffer, momentum);
            let next = s.builder.add(kept, gradient);
            let next = s.assign(buffer, next);
            gradient = if self.nesterov {
                let ahead = s.with_scalar(BinaryOp::Mul, next, momentum);
                s.builder.add(gradient, ahead)
            } else {
                next
            };
        }
        s.descend(parameter.value, gradient)
    }

    fn is_elementwise(&self, _: &str) -> bool {
        true
    }
}
