//! RMSProp (Tieleman and Hinton, 2012), with PyTorch's formulas.

use super::{
    DecayRule, Hyperparameters, Optimizer, Schedule, StepBuilder, Trainable, check_epsilon, check_rates,
    check_share, named, set_number,
};
use crate::error::Result;
use crate::ir::{BinaryOp, UnaryOp, ValueId};

/// RMSProp, which divides gradients by the root of a running mean of their squares.
///
/// See [the formulas](crate::optim#formulas).
#[derive(Clone, Debug)]
pub struct RmsProp {
    schedule: Schedule,
    alpha: f64,
    epsilon: f64,
    momentum: Option<f64>,
    centered: bool,
    weight_decay: f64,
    decay_rule: DecayRule,
}

impl RmsProp {
    /// Creates the optimizer with a learning rate (a number or a [`Schedule`]), alpha 0.99, epsilon 1e-8, and
    /// neither momentum nor weight decay.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Self {
            schedule: lr.into(),
            alpha: 0.99,
            epsilon: 1e-8,
            momentum: None,
            centered: false,
            weight_decay: 0.0,
            decay_rule: DecayRule::default(),
        }
    }

    setters! {
        /// Sets the decay rate of the mean of squares, at least 0 and less than 1; 0.99 by default.
        alpha
        /// Sets the number that is added to the root; 1e-8 by default.
        epsilon
        /// Sets the momentum, the factor by which a running sum of steps decays, at least 0 and less than 1.
        /// By default, there is no momentum.
        momentum
        /// Sets the weight decay, which is added to the gradient; 0 by default.
        ///
        /// By default, it applies to parameters of rank 2 or higher.
        weight_decay;
        decay_everything
    }

    /// Divides gradients by an estimate of their standard deviation instead: subtracts the square of their
    /// running mean from the mean of squares (Graves, 2013).
    #[must_use]
    pub fn centered(mut self) -> Self {
        self.centered = true;
        self
    }
}

impl Optimizer for RmsProp {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn hyperparameters(&self) -> Hyperparameters {
        let numbers = [("alpha", self.alpha), ("epsilon", self.epsilon), ("weight_decay", self.weight_decay)];
        let mut numbers = named(numbers);
        self.momentum.into_iter().for_each(|momentum| set_number(&mut numbers, "momentum", momentum));
        numbers
    }

    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()> {
        check_rates(numbers)?;
        check_epsilon(numbers, "epsilon")?;
        if self.momentum.is_some() {
            check_share(numbers, "momentum")?;
        }
        let alpha = check_share(numbers, "alpha")?;
        set_number(numbers, "one_minus_alpha", 1.0 - alpha);
        Ok(())
    }

    fn update(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId {
        let gradient = s.with_decay(parameter, self.decay_rule);
        let square = s.builder.mul(gradient, gradient);
        let mut mean = s.running_mean("square", parameter, square, "one_minus_alpha");
        if self.centered {
            let centre = s.running_mean("gradient", parameter, gradient, "one_minus_alpha");
            let off = s.builder.mul(centre, centre);
            // Clamp the difference, which rounding can make negative, so that its root is not NaN.
            let difference = s.builder.sub(mean, off);
            let zeros = s.builder.splat_like(difference, 0.0);
            mean = s.builder.binary(BinaryOp::Max, difference, zeros);
        }
        let root = s.builder.unary(UnaryOp::Sqrt, mean);
        let epsilon = s.scalar("epsilon");
        let divisor = s.with_scalar(BinaryOp::Add, root, epsilon);
        let mut direction = s.builder.div(gradient, divisor);
        if self.momentum.is_some() {
            let (buffer, momentum) = (s.state("momentum", parameter), s.scalar("momentum"));
            let kept = s.with_scalar(BinaryOp::Mul, buffer, momentum);
            direction = s.builder.add(kept, direction);
            direction = s.assign(buffer, direction);
        }
        s.descend(parameter.value, direction)
    }

    fn is_elementwise(&self, _: &str) -> bool {
        true
    }
}
