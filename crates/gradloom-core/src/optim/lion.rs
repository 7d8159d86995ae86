//! Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023).

use super::{
    DecayRule, Hyperparameters, Optimizer, Schedule, StepBuilder, Trainable, check_rates, check_share, named,
    set_number,
};
use crate::error::Result;
use crate::ir::{UnaryOp, ValueId};

/// Lion, whose steps have the size of the learning rate and the sign of a mix of momentum and gradient. Its
/// weight decay shrinks the parameter itself, in proportion to the learning rate.
///
/// See [the formulas](crate::optim#formulas).
#[derive(Clone, Debug)]
pub struct Lion {
    schedule: Schedule,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
    decay_rule: DecayRule,
}

impl Lion {
    /// Creates the optimizer with a learning rate (a number or a [`Schedule`]; a third to a tenth of AdamW's
    /// is usual), betas 0.9 and 0.99, and no weight decay.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Self {
            schedule: lr.into(),
            beta1: 0.9,
            beta2: 0.99,
            weight_decay: 0.0,
            decay_rule: DecayRule::default(),
        }
    }

    setters! {
        /// Sets the share of the momentum in the direction, at least 0 and less than 1; 0.9 by default.
        beta1
        /// Sets the decay rate of the momentum, at least 0 and less than 1; 0.99 by default.
        beta2
        /// Sets the weight decay; 0 by default.
        ///
        /// By default, it applies to parameters of rank 2 or higher.
        weight_decay;
        decay_everything
    }
}

impl Optimizer for Lion {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn hyperparameters(&self) -> Hyperparameters {
        named([("beta1", self.beta1), ("beta2", self.beta2), ("weight_decay", self.weight_decay)])
    }

    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()> {
        check_rates(numbers)?;
        for (name, complement) in [("beta1", "one_minus_beta1"), ("beta2", "one_minus_beta2")] {
            let beta = check_share(numbers, name)?;
            set_number(numbers, complement, 1.0 - beta);
        }
        Ok(())
    }

    fn update(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId {
        let (from, gradient) = (s.shrunk(parameter, self.decay_rule), parameter.gradient);
        let momentum = s.state("momentum", parameter);
        let mix = s.moved(momentum, gradient, "one_minus_beta1");
        let direction = s.builder.unary(UnaryOp::Sign, mix);
        let next = s.moved(momentum, gradient, "one_minus_beta2");
        s.assign(momentum, next);
        s.descend(from, direction)
    }

    fn is_elementwise(&self, _: &str) -> bool {
        true
    }
}
