//! Stochastic gradient descent with momentum, with PyTorch's formulas.

use super::{DecayRule, Hyperparameters, Optimizer, Schedule, StepBuilder, Trainable, check};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{BinaryOp, ValueId};

/// Stochastic gradient descent.
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
    /// With a learning rate (a number, or a [`Schedule`]), without momentum and decay.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Self {
            schedule: lr.into(),
            momentum: None,
            nesterov: false,
            weight_decay: 0.0,
            decay_rule: DecayRule::default(),
        }
    }

    /// Keeps a running sum of gradients that decays by this factor, 0 to less than 1; none if not given.
    #[must_use]
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = Some(momentum);
        self
    }

    /// Looks ahead along the momentum, which must be given too (Nesterov).
    #[must_use]
    pub fn nesterov(mut self) -> Self {
        self.nesterov = true;
        self
    }

    /// Weight decay, added to the gradient; 0 if not given.
    ///
    /// By default it applies to parameters of rank 2 and more.
    #[must_use]
    pub fn weight_decay(mut self, decay: f64) -> Self {
        self.weight_decay = decay;
        self
    }

    /// Applies weight decay to every parameter, biases and gains too, unless the parameter says otherwise.
    #[must_use]
    pub fn decay_everything(mut self) -> Self {
        self.decay_rule = DecayRule::Everything;
        self
    }
}

impl Optimizer for Sgd {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn hyperparameters(&self) -> Hyperparameters {
        let momentum = self.momentum.map(|momentum| ("momentum", momentum));
        let numbers = [("weight_decay", self.weight_decay)].into_iter().chain(momentum);
        numbers.map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()> {
        check(numbers, "lr", |v| v >= 0.0 && v.is_finite(), "finite and not negative")?;
        check(numbers, "weight_decay", |v| v >= 0.0 && v.is_finite(), "finite and not negative")?;
        if self.momentum.is_some() {
            check(numbers, "momentum", |v| (0.0..1.0).contains(&v), "at least 0 and less than 1")?;
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
}
