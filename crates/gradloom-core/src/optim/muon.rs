//! Muon (Jordan et al., 2024), with PyTorch's formulas, entirely in f32.

use super::{
    AdamW, DecayRule, Hyperparameters, Optimizer, Schedule, StepBuilder, Trainable, check_share, check_size,
    set_number,
};
use crate::error::Result;
use crate::ir::{BinaryOp, DotAxes, ReduceOp, UnaryOp, ValueId};

/// Coefficients of the iteration that orthogonalizes a matrix.
const NEWTON_SCHULZ: [f64; 3] = [3.4445, -4.775, 2.0315];
const ITERATIONS: usize = 5;

/// Muon, whose step is the momentum of a matrix, orthogonalized by a Newton-Schulz iteration. Parameters that
/// are not matrices are trained by AdamW with its default settings and a separate learning rate. Weight decay
/// shrinks the parameter itself, in proportion to the learning rate.
///
/// See [the formulas](crate::optim#formulas).
#[derive(Clone, Debug)]
pub struct Muon {
    schedule: Schedule,
    momentum: f64,
    nesterov: bool,
    matches_adam: bool,
    weight_decay: f64,
    decay_rule: DecayRule,
    others_rate: f64,
    others: AdamW,
}

impl Muon {
    /// Creates the optimizer with a learning rate (a number or a [`Schedule`]), Nesterov momentum of 0.95,
    /// and a weight decay of 0.1.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        let schedule = lr.into();
        Self {
            others: AdamW::new(schedule.clone()),
            schedule,
            momentum: 0.95,
            nesterov: true,
            matches_adam: false,
            weight_decay: 0.1,
            decay_rule: DecayRule::default(),
            others_rate: 1.0,
        }
    }

    setters! {
        /// Sets the decay rate of the momentum, at least 0 and less than 1; 0.95 by default.
        momentum
        /// Sets the weight decay of all parameters; 0.1 by default.
        ///
        /// By default, it applies to parameters of rank 2 or higher.
        weight_decay
        /// Sets the learning rate of parameters that are not matrices, as a multiple of the learning rate of
        /// matrices; 1 by default.
        others_rate
    }

    /// Uses the momentum itself as the direction, instead of Nesterov's look-ahead.
    #[must_use]
    pub fn without_nesterov(mut self) -> Self {
        self.nesterov = false;
        self
    }

    /// Scales steps by `0.2 sqrt(max(rows, columns))` instead of `sqrt(max(1, outputs / inputs))`. Steps are
    /// then as large as AdamW's, so that learning rates of AdamW can be used (Liu et al., 2025).
    #[must_use]
    pub fn match_adam(mut self) -> Self {
        self.matches_adam = true;
        self
    }

    /// Applies weight decay to every parameter, including biases and gains, except where
    /// [`Param::set_decay`](crate::nn::Param::set_decay) overrides it.
    #[must_use]
    pub fn decay_everything(mut self) -> Self {
        self.decay_rule = DecayRule::Everything;
        self.others = self.others.decay_everything();
        self
    }
}

/// Appends an approximation of the nearest orthogonal matrix: `X <- a X + (b A + c A²) X` with `A = X Xᵀ`,
/// iterated from `X / |X|`.
fn orthogonal(s: &mut StepBuilder<'_, '_>, matrix: ValueId) -> ValueId {
    let [a, b, c] = NEWTON_SCHULZ;
    let shape = s.builder.shape(matrix);
    let tall = shape[0] > shape[1];
    let mut x = if tall { s.builder.permute(matrix, &[1, 0]) } else { matrix };
    let square = s.builder.mul(x, x);
    let sum = s.builder.reduce(ReduceOp::Sum, square, &[0, 1]);
    let norm = s.builder.unary(UnaryOp::Sqrt, sum);
    let least = s.builder.number(1e-7);
    let norm = s.builder.binary(BinaryOp::Max, norm, least);
    x = s.with_scalar(BinaryOp::Div, x, norm);
    let contract =
        |left, right| DotAxes { lhs_contract: vec![left], rhs_contract: vec![right], ..DotAxes::default() };
    for _ in 0..ITERATIONS {
        let gram = s.builder.dot(x, x, contract(1, 1));
        let twice = s.builder.dot(gram, gram, contract(1, 0));
        let (first, second) = (s.builder.mul_number(gram, b), s.builder.mul_number(twice, c));
        let factor = s.builder.add(first, second);
        let (own, turned) = (s.builder.mul_number(x, a), s.builder.dot(factor, x, contract(1, 0)));
        x = s.builder.add(own, turned);
    }
    if tall { s.builder.permute(x, &[1, 0]) } else { x }
}

impl Optimizer for Muon {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn hyperparameters(&self) -> Hyperparameters {
        let mut numbers = self.others.hyperparameters();
        set_number(&mut numbers, "momentum", self.momentum);
        set_number(&mut numbers, "weight_decay", self.weight_decay);
        set_number(&mut numbers, "others_rate", self.others_rate);
        numbers
    }

    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()> {
        let momentum = check_share(numbers, "momentum")?;
        check_size(numbers, "others_rate")?;
        set_number(numbers, "one_minus_momentum", 1.0 - momentum);
        self.others.derive(numbers)
    }

    fn update(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId {
        let shape = s.builder.shape(parameter.value);
        if shape.rank() != 2 {
            let full = s.scalar("lr");
            let rate = s.shared("others_lr", |s| {
                let factor = s.scalar("others_rate");
                s.builder.mul(full, factor)
            });
            return s.at_rate("others", rate, |s| self.others.update(s, parameter));
        }
        let from = s.shrunk(parameter, self.decay_rule);
        let momentum = s.state("momentum", parameter);
        let next = s.moved(momentum, parameter.gradient, "one_minus_momentum");
        let next = s.assign(momentum, next);
        let update = if self.nesterov {
            let share = s.scalar("momentum");
            let difference = s.builder.sub(next, parameter.gradient);
            let change = s.with_scalar(BinaryOp::Mul, difference, share);
            s.builder.add(parameter.gradient, change)
        } else {
            next
        };
        let update = orthogonal(s, update);
        let (inputs, outputs) = (shape[0] as f64, shape[1] as f64);
        // Weights are [inputs, outputs] here, the transpose of PyTorch's, so the ratio is that of the columns
        // to the rows.
        let factor = match self.matches_adam {
            true => 0.2 * inputs.max(outputs).sqrt(),
            false => (outputs / inputs.max(1.0)).max(1.0).sqrt(),
        };
        let update = s.builder.mul_number(update, factor);
        s.descend(from, update)
    }
}
