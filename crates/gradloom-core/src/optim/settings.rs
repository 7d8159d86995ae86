//! Changes to gradients before the optimizer sees them, and to parameters after.

use super::clip::{clip_by_global_norm, clip_by_value, global_norm};
use super::{Hyperparameters, StepBuilder, Trainable, check, check_positive, loss_scale, set_number};
use crate::error::Result;
use crate::ir::{BinaryOp, CompareOp, DType, ValueId};
use crate::nn::Pattern;

/// Settings beside the rule of the optimizer, in the order in which they apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The gradients of parameters with one of these names are divided by their norm plus 1e-8, each by its
    /// own.
    pub normalize: Vec<Pattern>,
    /// Elements of gradients are limited to this, with either sign.
    pub clip_value: Option<f64>,
    /// The norm of all gradients together is limited to this.
    pub clip_norm: Option<f64>,
    /// A running mean of each parameter is kept, of which so much stays at a step.
    pub average: Option<f64>,
}

impl Settings {
    /// Returns the numbers that may change from step to step.
    pub fn numbers(&self) -> Hyperparameters {
        let all =
            [("max_norm", self.clip_norm), ("max_value", self.clip_value), ("average_decay", self.average)];
        all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
    }

    /// Checks the numbers, and adds what the device needs that is derived from them. Called before every
    /// step, so numbers that are there are changed in place.
    ///
    /// # Errors
    /// When a number is out of range, naming it.
    pub fn derive(&self, numbers: &mut Hyperparameters) -> Result<()> {
        for (name, is_set) in
            [("max_norm", self.clip_norm.is_some()), ("max_value", self.clip_value.is_some())]
        {
            if is_set {
                check_positive(numbers, name)?;
            }
        }
        if self.average.is_some() {
            let range = "at least 0 and less than 1";
            let decay = check(numbers, "average_decay", |v| (0.0..1.0).contains(&v), range)?;
            set_number(numbers, "average_gain", 1.0 - decay);
        }
        Ok(())
    }

    /// Returns the gradients that the optimizer sees, and the norm of all as they came; divided by the loss
    /// scale, if there is one.
    pub(super) fn gradients(
        &self,
        s: &mut StepBuilder<'_, '_>,
        parameters: &[Trainable],
    ) -> (Vec<ValueId>, ValueId) {
        let mut gradients: Vec<ValueId> = parameters.iter().map(|p| p.gradient).collect();
        let mut norm = global_norm(s.builder, &gradients);
        if let Some(scale) = loss_scale::of(s.builder.graph) {
            // Here, where the optimizer's kernel can do it, and not where gradients are made: whatever
            // follows a product keeps it from being summed up together with others.
            let one = s.builder.number(1.0);
            let by = s.builder.div(one, scale);
            norm = s.builder.mul(norm, by);
            gradients.iter_mut().for_each(|gradient| *gradient = s.with_scalar(BinaryOp::Mul, *gradient, by));
        }
        for (gradient, parameter) in gradients.iter_mut().zip(parameters) {
            if self.normalize.iter().any(|pattern| pattern.matches(&parameter.name)) {
                let own = global_norm(s.builder, &[*gradient]);
                let own = s.builder.add_number(own, 1e-8);
                *gradient = s.with_scalar(BinaryOp::Div, *gradient, own);
            }
        }
        if self.clip_value.is_some() {
            let limit = s.scalar("max_value");
            gradients = clip_by_value(s.builder, &gradients, limit);
        }
        if self.clip_norm.is_some() {
            let as_they_came = self.normalize.is_empty() && self.clip_value.is_none();
            let now = if as_they_came { norm } else { global_norm(s.builder, &gradients) };
            let max_norm = s.scalar("max_norm");
            gradients = clip_by_global_norm(s.builder, &gradients, now, max_norm);
        }
        (gradients, norm)
    }

    /// Keeps the running mean of a parameter: its first value, then `mean + (p - mean)·(1 - decay)`, as
    /// PyTorch's `AveragedModel` with `get_ema_avg_fn`.
    pub(super) fn average(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable, updated: ValueId) {
        if self.average.is_none() {
            return;
        }
        let gain = s.shared("average gain", |s| {
            let (gain, one) = (s.scalar("average_gain"), s.builder.number(1.0));
            let is_first = s.builder.compare(CompareOp::Le, s.step, one);
            let first = s.builder.cast(is_first, DType::F32);
            s.builder.binary(BinaryOp::Max, gain, first)
        });
        let mean = s.state(AVERAGE, parameter);
        let difference = s.builder.sub(updated, mean);
        let change = s.with_scalar(BinaryOp::Mul, difference, gain);
        let next = s.builder.add(mean, change);
        s.assign(mean, next);
    }
}

/// The kind of the states that are running means of parameters.
const AVERAGE: &str = "average";
/// Prefix of their names; the parameter's name follows.
pub const AVERAGE_PREFIX: &str = "optim.average.";
