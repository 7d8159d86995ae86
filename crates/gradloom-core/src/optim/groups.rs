//! Different optimizers for groups of parameters, chosen by name.

use super::{Hyperparameters, Optimizer, Schedule, StepBuilder, Trainable, set_number};
use crate::error::Result;
use crate::ir::ValueId;
use crate::nn::Pattern;

/// A default optimizer, and other optimizers for the parameters whose names match a pattern. If several
/// patterns match, the first one applies. Each optimizer has its own algorithm and hyperparameters and
/// follows its own schedule.
///
/// ```
/// # use gradloom_core::optim::{AdamW, Groups, Muon, Sgd};
/// let optimizer = Groups::new(Muon::new(0.02))
///     .group("embedding.*", AdamW::new(3e-4).weight_decay(0.0))
///     .group("*.bias", Sgd::new(1e-2));
/// ```
///
/// The names of a group's hyperparameters begin with the group's pattern and a colon, as in
/// `*.bias:weight_decay`.
#[derive(Debug)]
pub struct Groups {
    rest: Box<dyn Optimizer>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    pattern: Pattern,
    /// Prefix of the names of the group's hyperparameters.
    prefix: String,
    optimizer: Box<dyn Optimizer>,
}

impl Groups {
    /// Creates groups with a default optimizer, for the parameters that no pattern matches.
    pub fn new(rest: impl Optimizer) -> Self {
        Self { rest: Box::new(rest), groups: Vec::new() }
    }

    /// Uses `optimizer` for the parameters whose names match `pattern`.
    #[must_use]
    pub fn group(mut self, pattern: impl Into<Pattern>, optimizer: impl Optimizer) -> Self {
        let pattern = pattern.into();
        let prefix = format!("{pattern}:");
        self.groups.push(Group { pattern, prefix, optimizer: Box::new(optimizer) });
        self
    }
}

impl Group {
    /// Returns the group's hyperparameters, without the prefix of their names.
    fn own(&self, numbers: &Hyperparameters) -> Hyperparameters {
        let own =
            |(name, value): (&String, &f64)| Some((name.strip_prefix(&self.prefix)?.to_string(), *value));
        numbers.iter().filter_map(own).collect()
    }

    fn set(&self, numbers: &mut Hyperparameters, own: Hyperparameters) {
        for (name, value) in own {
            set_number(numbers, &format!("{}{name}", self.prefix), value);
        }
    }
}

impl Optimizer for Groups {
    fn schedule(&self) -> &Schedule {
        self.rest.schedule()
    }

    fn set_rates(&self, numbers: &mut Hyperparameters, step: u64) {
        self.rest.set_rates(numbers, step);
        for group in &self.groups {
            let mut own = group.own(numbers);
            group.optimizer.set_rates(&mut own, step);
            group.set(numbers, own);
        }
    }

    fn hyperparameters(&self) -> Hyperparameters {
        let mut numbers = self.rest.hyperparameters();
        self.groups.iter().for_each(|group| group.set(&mut numbers, group.optimizer.hyperparameters()));
        numbers
    }

    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()> {
        self.rest.derive(numbers)?;
        for group in &self.groups {
            let mut own = group.own(numbers);
            let derived = group.optimizer.derive(&mut own);
            derived.map_err(|error| error.note(format!("of the parameters `{}`", group.pattern)))?;
            group.set(numbers, own);
        }
        Ok(())
    }

    fn check(&self, parameters: &[Trainable]) -> Result<()> {
        let names = parameters.iter().map(|parameter| parameter.name.as_str());
        self.rest.check(parameters)?;
        for group in &self.groups {
            group.pattern.expect_any(names.clone())?;
            let checked = group.optimizer.check(parameters);
            checked.map_err(|error| error.note(format!("of the parameters `{}`", group.pattern)))?;
        }
        Ok(())
    }

    fn update(&self, s: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId {
        match self.groups.iter().find(|group| group.pattern.matches(&parameter.name)) {
            Some(group) => s.in_group(&group.prefix, |s| group.optimizer.update(s, parameter)),
            None => self.rest.update(s, parameter),
        }
    }

    fn is_elementwise(&self, parameter: &str) -> bool {
        let group = self.groups.iter().find(|group| group.pattern.matches(parameter));
        group.map_or(&self.rest, |group| &group.optimizer).is_elementwise(parameter)
    }
}
