//! Learning rates during training: the optimizer's, and the schedules or the plateau that replace them.
//!
//! In: an optimizer, and the settings of [`Train::set_lr`](super::Train::set_lr) and similar methods. Out:
//! the rate of each group of parameters at a step. Invariant: the rates depend only on the settings and on
//! the attempted step, so that training continues with the same rates after both are restored from a
//! checkpoint.

use gradloom_core::collections::SortedMap;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::optim::{Hyperparameters, Optimizer, Plateau, Schedule, set_number};

/// Name of the rate of the parameters in no group.
pub(crate) const LR: &str = "lr";
/// Suffix of the names of groups' rates.
const OF_GROUP: &str = ":lr";

/// Rates that replace those of an optimizer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Schedules by name of the rate: `lr`, or `*.bias:lr` for a group.
    pub(crate) schedules: SortedMap<String, Schedule>,
    /// Plateau that sets the rate of the parameters in no group, unless that has a schedule here. All other
    /// rates fall by the same factor.
    pub(crate) plateau: Option<Plateau>,
}

impl Rates {
    /// Returns the names of the optimizer's rates.
    pub(crate) fn names(optimizer: &dyn Optimizer) -> Vec<String> {
        let mut numbers = Hyperparameters::new();
        optimizer.set_rates(&mut numbers, 0);
        set_number(&mut numbers, LR, 0.0);
        let is_rate = |name: &str| name == LR || name.ends_with(OF_GROUP);
        numbers.iter().filter(|(name, _)| is_rate(name)).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the name of a group's rate.
    ///
    /// # Errors
    /// Returns an error if the optimizer has no such group.
    pub(crate) fn name_of(names: &[String], group: &str) -> Result<String> {
        let name = format!("{group}{OF_GROUP}");
        if names.contains(&name) {
            return Ok(name);
        }
        let groups: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(OF_GROUP)).collect();
        let help = match &groups[..] {
            [] => {
                "it has none: `Groups` makes some, and `set_lr` sets the rate of all parameters".to_string()
            }
            groups => format!("it has: {}", groups.join(", ")),
        };
        Err(Error::new(ErrorKind::Feed, format!("the optimizer has no group `{group}`")).help(help))
    }

    /// Returns the rate, at a step, of the parameters in no group. Does not allocate.
    pub(crate) fn of_rest(&self, optimizer: &dyn Optimizer, step: u64) -> f64 {
        let replaced = self.schedules.get(LR);
        let own = replaced.unwrap_or_else(|| optimizer.schedule()).at(step);
        match &self.plateau {
            None => own,
            Some(plateau) if replaced.is_none() => plateau.lr(),
            Some(plateau) => plateau.scaled(own),
        }
    }

    /// Sets the rates of a step in the optimizer's hyperparameters. Does not allocate if they already exist.
    pub(crate) fn set(
        &self,
        numbers: &mut Hyperparameters,
        names: &[String],
        optimizer: &dyn Optimizer,
        step: u64,
    ) {
        optimizer.set_rates(numbers, step);
        for (name, schedule) in self.schedules.iter() {
            set_number(numbers, name, schedule.at(step));
        }
        let Some(plateau) = &self.plateau else { return };
        for name in names {
            let own = numbers.get(name).copied().unwrap_or_default();
            let follows = name == LR && !self.schedules.contains_key(LR);
            set_number(numbers, name, if follows { plateau.lr() } else { plateau.scaled(own) });
        }
    }
}
