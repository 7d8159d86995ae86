//! Changes of gradients before the optimizer runs, and running means of parameters after it.

use super::norm::global_norm;
use super::{Hyperparameters, StepBuilder, Trainable, check, check_positive, loss_scale, set_number};
use crate::error::Result;
use crate::ir::{BinaryOp, Builder, CompareOp, DType, Update, ValueId};
use crate::nn::Pattern;

/// Settings that apply in addition to the optimizer. Gradients are changed in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Patterns of parameter names; the gradient of each matching parameter is divided by its own norm plus
    /// 1e-8.
    pub normalize: Vec<Pattern>,
    /// Maximum absolute value of the elements of gradients.
    pub clip_value: Option<f64>,
    /// Maximum global norm of the gradients.
    pub clip_norm: Option<f64>,
    /// Decay rate per step of running means of the parameters; `None` for no running means.
    pub average: Option<f64>,
}

impl Settings {
    /// Returns the hyperparameters of the settings, which may change at every step.
    pub fn numbers(&self) -> Hyperparameters {
        let all =
            [("max_norm", self.clip_norm), ("max_value", self.clip_value), ("average_decay", self.average)];
        all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
    }

    /// Checks the hyperparameters, and adds the numbers that the device needs and that are derived from them.
    /// This is called before every step, so existing numbers are changed in place.
    ///
    /// # Errors
    /// Returns an error that names the number if one is out of range.
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

    /// Returns the gradients for the optimizer, and the global norm of the original gradients. Both are
    /// divided by the loss scale, if any.
    pub(super) fn gradients(
        &self,
        s: &mut StepBuilder<'_, '_>,
        parameters: &[Trainable],
    ) -> (Vec<ValueId>, ValueId) {
        let mut gradients: Vec<ValueId> = parameters.iter().map(|p| p.gradient).collect();
        let ranks = |number: usize| parameters[number].shard.as_ref().map(|shard| shard.ranks);
        let norm_of_all = |b: &mut Builder<'_>, gradients: &[ValueId]| {
            global_norm(b, gradients.iter().enumerate().map(|(number, gradient)| (*gradient, ranks(number))))
        };
        let mut norm = norm_of_all(s.builder, &gradients);
        if let Some(scale) = loss_scale::of(s.builder.graph) {
            // Divide by the scale here, in the optimizer's kernel, and not where the gradients are computed:
            // an op after a product prevents the product from being summed with others.
            let one = s.builder.number(1.0);
            let by = s.builder.div(one, scale);
            norm = s.builder.mul(norm, by);
            gradients.iter_mut().for_each(|gradient| *gradient = s.with_scalar(BinaryOp::Mul, *gradient, by));
        }
        for (number, (gradient, parameter)) in gradients.iter_mut().zip(parameters).enumerate() {
            if self.normalize.iter().any(|pattern| pattern.matches(&parameter.name)) {
                let own = global_norm(s.builder, [(*gradient, ranks(number))]);
                let own = s.builder.add_number(own, 1e-8);
                *gradient = s.with_scalar(BinaryOp::Div, *gradient, own);
            }
        }
        if self.clip_value.is_some() {
            let limit = s.scalar("max_value");
            let least = s.builder.neg(limit);
            for gradient in &mut gradients {
                let shape = s.builder.shape(*gradient);
                let [limit, least] = [limit, least].map(|bound| s.builder.broadcast(bound, &shape));
                let bounded = s.builder.binary(BinaryOp::Min, *gradient, limit);
                *gradient = s.builder.binary(BinaryOp::Max, bounded, least);
            }
        }
        if self.clip_norm.is_some() {
            let as_they_came = self.normalize.is_empty() && self.clip_value.is_none();
            let now = if as_they_came { norm } else { norm_of_all(s.builder, &gradients) };
            let max_norm = s.scalar("max_norm");
            // PyTorch's formula (`clip_grad_norm_`) is g · min(1, max_norm / (norm + 1e-6)). Pascanu,
            // Mikolov, Bengio, 2013.
            let safe = s.builder.add_number(now, 1e-6);
            let ratio = s.builder.div(max_norm, safe);
            let one = s.builder.number(1.0);
            let by = s.builder.binary(BinaryOp::Min, ratio, one);
            gradients.iter_mut().for_each(|gradient| *gradient = s.with_scalar(BinaryOp::Mul, *gradient, by));
        }
        (gradients, norm)
    }

    /// Records the next value of a parameter, given in f32, and its running mean, if any.
    pub(super) fn replace(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable, updated: ValueId) {
        let leaf = parameter.value;
        let value = s.builder.cast(updated, s.builder.ty(leaf).dtype);
        s.builder.graph.updates.push(Update { target: leaf, region: None, value, must_alias: false });
        self.average(s, parameter, updated);
    }

    /// Adds the running mean of a parameter: its value after the first step, then
    /// `mean + (p - mean)·(1 - decay)`, like PyTorch's `AveragedModel` with `get_ema_avg_fn`.
    fn average(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable, updated: ValueId) {
        if self.average.is_none() {
            return;
        }
        let gain = s.shared("average gain", |s| {
            let (gain, one) = (s.scalar("average_gain"), s.builder.number(1.0));
            let is_first = s.builder.compare(CompareOp::Le, s.step, one);
            let first = s.builder.cast(is_first, DType::F32);
            s.builder.binary(BinaryOp::Max, gain, first)
        });
        let ty = s.builder.ty(updated);
        let mean = s.state_of(AVERAGE, &Trainable { shard: None, ..parameter.clone() }, ty, 0.0);
        let difference = s.builder.sub(updated, mean);
        let change = s.with_scalar(BinaryOp::Mul, difference, gain);
        let next = s.builder.add(mean, change);
        s.assign(mean, next);
    }
}

/// Kind of the states that hold running means of parameters.
const AVERAGE: &str = "average";
/// Prefix of the names of the states that hold running means of parameters; the parameter's name follows.
pub const AVERAGE_PREFIX: &str = "optim.average.";
