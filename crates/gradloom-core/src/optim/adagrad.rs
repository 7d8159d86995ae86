//! Adagrad (Duchi, Hazan, Singer, 2011), with PyTorch's formulas.

use super::{
    DecayRule, Hyperparameters, Optimizer, Schedule, StepBuilder, Trainable, check_epsilon, check_rates,
    check_size, named,
};
use crate::error::Result;
use crate::ir::{BinaryOp, UnaryOp, ValueId};

/// Adagrad, which divides gradients by the root of the sum of all their squares so far.
///
/// See [the formulas](crate::optim#formulas).
#[derive(Clone, Debug)]
pub struct Adagrad {
    schedule: Schedule,
    epsilon: f64,
    initial: f64,
    weight_decay: f64,
    decay_rule: DecayRule,
}

impl Adagrad {
    /// Creates the optimizer with a learning rate (a number or a [`Schedule`]), epsilon 1e-10, sums that
    /// start at 0, and no weight decay.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Self {
            schedule: lr.into(),
            epsilon: 1e-10,
            initial: 0.0,
            weight_decay: 0.0,
            decay_rule: DecayRule::default(),
        }
    }

    setters! {
        /// Sets the number that is added to the root; 1e-10 by default.
        epsilon
        /// Sets the initial value of the sums of squares; 0 by default.
        initial
        /// Sets the weight decay, which is added to the gradient; 0 by default.
        ///
        /// By default, it applies to parameters of rank 2 or higher.
        weight_decay;
        decay_everything
    }
}

impl Optimizer for Adagrad {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn hyperparameters(&self) -> Hyperparameters {
        named([("epsilon", self.epsilon), ("weight_decay", self.weight_decay)])
    }

    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()> {
        check_rates(numbers)?;
        // The number `initial` is checked separately: it is not passed to the device, as it is the initial
        // value of the states.
        check_size(&named([("initial", self.initial)]), "initial")?;
        check_epsilon(numbers, "epsilon")
    }

    fn update(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId {
        let gradient = s.with_decay(parameter, self.decay_rule);
        let ty = s.builder.ty(parameter.value);
        let sum = s.state_of("sum", parameter, ty, self.initial);
        let square = s.builder.mul(gradient, gradient);
        let sum_now = s.builder.add(sum, square);
        let sum_now = s.assign(sum, sum_now);
        let root = s.builder.unary(UnaryOp::Sqrt, sum_now);
        let epsilon = s.scalar("epsilon");
        let divisor = s.with_scalar(BinaryOp::Add, root, epsilon);
        let direction = s.builder.div(gradient, divisor);
        s.descend(parameter.value, direction)
    }

    fn is_elementwise(&self, _: &str) -> bool {
        true
    }
}
