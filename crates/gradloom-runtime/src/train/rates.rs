//! Learning rates of a training: the optimizer's, and the schedules or the plateau that replace them.
//!
//! In: an optimizer, and what [`Train::set_lr`](super::Train::set_lr) and others said. Out: the rate of each
//! group of parameters at a step. Always holds: the rates are functions of this value and of the attempted
//! step, so that a training whose checkpoint has both goes on with the same rates.

use gradloom_core::collections::SortedMap;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::optim::{Hyperparameters, Optimizer, Plateau, Schedule, set_number};

/// The name of the rate of the parameters that are in no group.
pub(crate) const LR: &str = "lr";
/// The ending of the names of groups' rates.
const OF_GROUP: &str = ":lr";

/// Rates that replace an optimizer's.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Schedules by the names of rates: `lr`, or `*.bias:lr` of a group.
    pub(crate) schedules: SortedMap<String, Schedule>,
    /// The rate of the parameters in no group follows it, unless it has a schedule here; others fall with it.
    pub(crate) plateau: Option<Plateau>,
}

impl Rates {
    /// Returns the names of an optimizer's rates.
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
    /// When the optimizer has no such group.
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

    /// Returns the rate of the parameters in no group at a step. Allocates nothing.
    pub(crate) fn of_rest(&self, optimizer: &dyn Optimizer, step: u64) -> f64 {
        let replaced = self.schedules.get(LR);
        let own = replaced.unwrap_or_else(|| optimizer.schedule()).at(step);
        match &self.plateau {
            None => own,
            Some(plateau) if replaced.is_none() => plateau.lr(),
            Some(plateau) => plateau.scaled(own),
        }
    }

    /// Sets the rates of a step among the optimizer's numbers. Allocates nothing where they are there.
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
