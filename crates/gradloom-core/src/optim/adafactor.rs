//! Adafactor (Shazeer and Stern, 2018), with PyTorch's formulas.

use super::{
    DecayRule, Hyperparameters, Optimizer, Schedule, StepBuilder, Trainable, check, check_epsilon,
    check_positive, check_rates, named,
};
use crate::error::Result;
use crate::ir::{BinaryOp, ReduceOp, UnaryOp, ValueId};

/// Adafactor, which stores the second moments of a matrix as one mean for each row and one for each column,
/// and therefore needs very little memory. Its steps are relative to the size of the parameter.
///
/// See [the formulas](crate::optim#formulas).
#[derive(Clone, Debug)]
pub struct Adafactor {
    schedule: Schedule,
    beta2_decay: f64,
    epsilon1: f64,
    epsilon2: f64,
    threshold: f64,
    weight_decay: f64,
    decay_rule: DecayRule,
}

impl Adafactor {
    /// Creates the optimizer with a maximum relative step (a number or a [`Schedule`]; 0.01 is usual), decay
    /// exponent -0.8, epsilons 2^-23 and 1e-3, a clipping threshold of 1, and no weight decay.
    pub fn new(lr: impl Into<Schedule>) -> Self {
        Self {
            schedule: lr.into(),
            beta2_decay: -0.8,
            epsilon1: f32::EPSILON.into(),
            epsilon2: 1e-3,
            threshold: 1.0,
            weight_decay: 0.0,
            decay_rule: DecayRule::default(),
        }
    }

    setters! {
        /// Sets the decay exponent: at step t, the second moments move towards the squares by the fraction
        /// `t^decay`. -0.8 by default.
        beta2_decay
        /// Sets the minimum of the root of a second moment; 2^-23 by default.
        epsilon1
        /// Sets the minimum of the parameter's size, to which steps are relative; at most 1e9, and 1e-3 by
        /// default.
        epsilon2
        /// Sets the maximum root mean square of a parameter's scaled gradient; 1 by default.
        threshold
        /// Sets the weight decay, which shrinks the parameter in proportion to the learning rate; 0 by
        /// default.
        ///
        /// By default, it applies to parameters of rank 2 or higher.
        weight_decay;
        decay_everything
    }
}

/// Appends the root mean square of all elements of `x`, as a value of rank 0.
fn root_mean_square(s: &mut StepBuilder<'_, '_>, x: ValueId) -> ValueId {
    let shape = s.builder.shape(x);
    let axes: Vec<usize> = (0..shape.rank()).collect();
    let square = s.builder.mul(x, x);
    let sum = s.builder.reduce(ReduceOp::Sum, square, &axes);
    let mean = s.builder.mul_number(sum, 1.0 / shape.elements().max(1) as f64);
    s.builder.unary(UnaryOp::Sqrt, mean)
}

/// Appends the mean over an axis, which is kept with extent 1.
fn mean(s: &mut StepBuilder<'_, '_>, x: ValueId, axis: usize) -> ValueId {
    let extent = s.builder.shape(x)[axis];
    let sum = s.builder.reduce_keep(ReduceOp::Sum, x, &[axis]);
    s.builder.mul_number(sum, 1.0 / extent.max(1) as f64)
}

impl Adafactor {
    /// Appends `from + (to - from) · t^decay`, where `from` is a new state that is updated to the result.
    fn moment(&self, s: &mut StepBuilder<'_, '_>, kind: &str, parameter: &Trainable, to: ValueId) -> ValueId {
        let rate = s.shared("moment_rate", |s| {
            let decay = s.scalar("beta2_decay");
            s.builder.binary(BinaryOp::Pow, s.step, decay)
        });
        let ty = s.builder.ty(to);
        let state = s.state_of(kind, parameter, ty, 0.0);
        let difference = s.builder.sub(to, state);
        let change = s.with_scalar(BinaryOp::Mul, difference, rate);
        let next = s.builder.add(state, change);
        s.assign(state, next)
    }
}

impl Optimizer for Adafactor {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn hyperparameters(&self) -> Hyperparameters {
        named([
            ("beta2_decay", self.beta2_decay),
            ("epsilon1", self.epsilon1),
            ("epsilon2", self.epsilon2),
            ("threshold", self.threshold),
            ("weight_decay", self.weight_decay),
        ])
    }

    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()> {
        check_rates(numbers)?;
        // Parameters can grow to the size epsilon2, and the sum of their squares must fit f32.
        check(numbers, "epsilon2", |v| (0.0..=1e9).contains(&v), "at least 0 and at most 1e9")?;
        check_epsilon(numbers, "epsilon1")?;
        check_positive(numbers, "threshold")?;
        check(numbers, "beta2_decay", |v| v <= 0.0 && v.is_finite(), "finite and not above 0")?;
        Ok(())
    }

    fn update(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId {
        let (gradient, shape) = (parameter.gradient, s.builder.shape(parameter.value));
        let from = s.shrunk(parameter, self.decay_rule);
        let square = s.builder.mul(gradient, gradient);
        let epsilon1 = s.scalar("epsilon1");
        let variance = if shape.rank() >= 2 {
            let (row, column) = (shape.rank() - 1, shape.rank() - 2);
            let (rows, columns) = (mean(s, square, row), mean(s, square, column));
            let (rows, columns) =
                (self.moment(s, "rows", parameter, rows), self.moment(s, "columns", parameter, columns));
            let level = mean(s, rows, column);
            let level = s.with_scalar(BinaryOp::Max, level, epsilon1);
            // Compute the outer product of `rows` and `columns`, divided by the mean of `rows`.
            let [rows, columns, level] = [rows, columns, level].map(|x| s.builder.broadcast(x, &shape));
            let product = s.builder.mul(rows, columns);
            s.builder.div(product, level)
        } else {
            self.moment(s, "square", parameter, square)
        };
        let least = s.builder.mul(epsilon1, epsilon1);
        let variance = s.with_scalar(BinaryOp::Max, variance, least);
        let scale = s.builder.unary(UnaryOp::Rsqrt, variance);
        let update = s.builder.mul(gradient, scale);
        // Make the step relative to the parameter's size, and scale down a large update.
        let rate = s.shared("relative_rate", |s| {
            let root = s.builder.unary(UnaryOp::Rsqrt, s.step);
            let lr = s.scalar("lr");
            s.builder.binary(BinaryOp::Min, lr, root)
        });
        let (size, epsilon2) = (root_mean_square(s, parameter.value), s.scalar("epsilon2"));
        let size = s.builder.binary(BinaryOp::Max, size, epsilon2);
        // Clamp the size, as the squares of large parameters may overflow, and an update of 0 times infinity
        // would be NaN.
        let largest = s.builder.number(f32::MAX.into());
        let size = s.builder.binary(BinaryOp::Min, size, largest);
        let alpha = s.builder.mul(size, rate);
        let (excess, threshold) = (root_mean_square(s, update), s.scalar("threshold"));
        let excess = s.builder.div(excess, threshold);
        let one = s.builder.number(1.0);
        let excess = s.builder.binary(BinaryOp::Max, excess, one);
        let alpha = s.builder.div(alpha, excess);
        let change = s.with_scalar(BinaryOp::Mul, update, alpha);
        s.builder.sub(from, change)
    }
}
