//! Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019), with PyTorch's formulas.

use super::{
    DecayRule, Hyperparameters, Optimizer, Schedule, StepBuilder, Trainable, check_epsilon, check_rates,
    check_share, named, set_number,
};
use crate::error::Result;
use crate::float;
use crate::ir::{BinaryOp, UnaryOp, ValueId};

/// Adam, with weight decay that is added to the gradient.
///
/// See [the formulas](crate::optim#formulas).
pub type Adam = AdamOf<false>;

/// AdamW, with weight decay that shrinks the parameter itself, in proportion to the learning rate.
///
/// See [the formulas](crate::optim#formulas).
pub type AdamW = AdamOf<true>;

/// The implementation of [`AdamW`] if `DECOUPLED` is true, and of [`Adam`] otherwise.
#[derive(Clone, Debug)]
pub struct AdamOf<const DECOUPLED: bool> {
    schedule: Schedule,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    weight_decay: f64,
    decay_rule: DecayRule,
}

impl<const DECOUPLED: bool> AdamOf<DECOUPLED> {
    /// Creates the optimizer with a learning rate (a number or a [`Schedule`]), betas 0.9 and 0.999, epsilon
    /// 1e-8, and a weight decay of 0.01 for AdamW or 0 for Adam.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Self {
            schedule: lr.into(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: if DECOUPLED { 0.01 } else { 0.0 },
            decay_rule: DecayRule::default(),
        }
    }

    /// Sets the decay rates of both moments.
    #[must_use]
    pub fn betas(self, beta1: f64, beta2: f64) -> Self {
        self.beta1(beta1).beta2(beta2)
    }

    setters! {
        /// Sets the decay rate of the first moment, at least 0 and less than 1; 0.9 by default.
        beta1
        /// Sets the decay rate of the second moment, at least 0 and less than 1; 0.999 by default.
        beta2
        /// Sets the number that is added to the root of the bias-corrected second moment; 1e-8 by default.
        epsilon
        /// Sets the weight decay; by default 0.01 for AdamW and 0 for Adam.
        ///
        /// By default, it applies to parameters of rank 2 or higher.
        weight_decay;
        decay_everything
    }
}

impl<const DECOUPLED: bool> Optimizer for AdamOf<DECOUPLED> {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn hyperparameters(&self) -> Hyperparameters {
        named([
            ("beta1", self.beta1),
            ("beta2", self.beta2),
            ("epsilon", self.epsilon),
            ("weight_decay", self.weight_decay),
        ])
    }

    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()> {
        check_rates(numbers)?;
        check_epsilon(numbers, "epsilon")?;
        // Compute these numbers in f64, so that beta is not rounded to f32 before 1 - beta and beta^t are
        // computed.
        for (name, complement, logarithm) in
            [("beta1", "one_minus_beta1", "ln_beta1"), ("beta2", "one_minus_beta2", "ln_beta2")]
        {
            let beta = check_share(numbers, name)?;
            set_number(numbers, complement, 1.0 - beta);
            set_number(numbers, logarithm, float::log(beta));
        }
        Ok(())
    }

    fn update(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId {
        let (gradient, from) = match DECOUPLED {
            true => (parameter.gradient, s.shrunk(parameter, self.decay_rule)),
            false => (s.with_decay(parameter, self.decay_rule), parameter.value),
        };
        step(s, parameter, gradient, from)
    }

    fn is_elementwise(&self, _: &str) -> bool {
        true
    }
}

/// Returns the parameter's next value, given a gradient and the value from which the step starts.
fn step(s: &mut StepBuilder<'_, '_>, parameter: &Trainable, gradient: ValueId, from: ValueId) -> ValueId {
    use BinaryOp::{Add, Mul};
    let (m, v) = (s.state("m", parameter), s.state("v", parameter));
    let next_m = s.moved(m, gradient, "one_minus_beta1");
    let square = s.builder.mul(gradient, gradient);
    let one_minus_beta2 = s.scalar("one_minus_beta2");
    let square = s.with_scalar(Mul, square, one_minus_beta2);
    let beta2 = s.scalar("beta2");
    let kept = s.with_scalar(Mul, v, beta2);
    let next_v = s.builder.add(kept, square);
    let (next_m, next_v) = (s.assign(m, next_m), s.assign(v, next_v));

    // Computes 1 - beta^t as -expm1(t·ln beta), without cancellation for small t.
    fn correction(s: &mut StepBuilder<'_, '_>, ln_beta: &str) -> ValueId {
        let ln_beta = s.scalar(ln_beta);
        let power = s.builder.mul(s.step, ln_beta);
        let power = s.builder.unary(UnaryOp::Expm1, power);
        s.builder.neg(power)
    }
    let step_size = s.shared("step_size", |s| {
        let (lr, correction) = (s.scalar("lr"), correction(s, "ln_beta1"));
        s.builder.div(lr, correction)
    });
    // Divide once in total instead of once for each element.
    let root_factor = s.shared("root_factor", |s| {
        let correction = correction(s, "ln_beta2");
        let root = s.builder.unary(UnaryOp::Sqrt, correction);
        let one = s.builder.number(1.0);
        s.builder.div(one, root)
    });
    let root = s.builder.unary(UnaryOp::Sqrt, next_v);
    let root = s.with_scalar(Mul, root, root_factor);
    let epsilon = s.scalar("epsilon");
    let denominator = s.with_scalar(Add, root, epsilon);
    let direction = s.builder.div(next_m, denominator);
    let change = s.with_scalar(Mul, direction, step_size);
    s.builder.sub(from, change)
}
