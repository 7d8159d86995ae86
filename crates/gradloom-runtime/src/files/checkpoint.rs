//! Everything that training changes, in one file.

use super::{Entries, TensorBytes, Weights, write};
use crate::Train;
use crate::train::Rates;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::nn::Module;
use gradloom_core::optim::{Hyperparameters, Plateau, Schedule};
use std::path::Path;

// What a checkpoint of the npm package says in the texts of its header has the same names: see
// `web/src/state.ts`.
/// Prefix of the names of trainers' entries; the trainer's name and a dot follow, if it has a name, then
/// one of the names below.
pub(super) const PREFIX: &str = "gradloom.";
/// Version of this format.
pub(super) const VERSION: &str = "state";
const ATTEMPTED: &str = "attempted_steps";
const SEED: &str = "seed";
/// Number that replaces the optimizer's schedule. If a schedule or a plateau replaces it instead, the note
/// is the text `"scheduled"`: the npm package and earlier versions, which do not know the next notes, then
/// expect the schedule to be set again.
const LR: &str = "lr";
/// Schedule that replaces the optimizer's.
const SCHEDULE: &str = "schedule";
/// Schedule that replaces that of a group of the optimizer.
const RATE: &str = "rate.";
/// Plateau that is followed.
const PLATEAU: &str = "plateau";
/// Hyperparameter that was set.
const NUMBER: &str = "number.";

/// Content of a checkpoint besides the tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// The caller's notes: position in the data, best loss, .., and those of other trainers.
    pub entries: Entries,
    /// Steps that were submitted before the checkpoint.
    pub attempted_steps: u64,
    /// True if a schedule was set with [`Train::set_schedule`] that is not in the file: set it again. Files
    /// of this version have it; those of earlier ones, and of the npm package, may not.
    pub was_scheduled: bool,
}

/// Content of a trainer's notes.
struct Notes {
    attempted_steps: u64,
    seed: u64,
    numbers: Hyperparameters,
    rates: Rates,
    was_scheduled: bool,
}

impl<M: Module, const N: usize> Train<M, N> {
    /// Writes everything that training changes to a safetensors file, which replaces an old one at once:
    /// parameters, states, those of all optimizers, the counters, numbers and schedules that were set, a
    /// plateau with what it remembers, what keys random numbers; and `entries`, the caller's own notes, such
    /// as the position in the data. Training goes on from it with the same bits. Waits for the device.
    ///
    /// Of several trainings over one session, one writes the file, with the [notes](Train::notes) of the
    /// others among the entries.
    ///
    /// # Errors
    /// When the file cannot be written: the old one is then untouched; when an entry has the name of one of
    /// this trainer's notes; on the null device.
    pub fn save_checkpoint(&self, path: impl AsRef<Path>, entries: &Entries) -> Result<()> {
        let mut all = self.notes();
        for (name, text) in entries {
            if self.is_own(name) || all.insert(name.clone(), text.clone()).is_some() {
                let message = format!("the entry `{name}` is called like one of the trainer's notes");
                return Err(Error::new(ErrorKind::File, message).help("give it another name"));
            }
        }
        let content = self.store().read_all()?;
        let tensors: Vec<_> = content
            .iter()
            .map(|(entry, bytes)| TensorBytes { name: &entry.name, ty: &entry.ty, bytes })
            .collect();
        write(path.as_ref(), &tensors, &all)
    }

    /// Returns a checkpoint's notes about this trainer, besides the tensors: counters, numbers, schedules,
    /// a plateau, and the seed.
    pub fn notes(&self) -> Entries {
        let mut notes = Entries::new();
        let mut note = |name: &str, text: String| _ = notes.insert(format!("{}{name}", self.prefix()), text);
        note(VERSION, "1".to_string());
        note(ATTEMPTED, self.attempted_steps().to_string());
        note(SEED, self.seed().to_string());
        let Rates { schedules, plateau } = self.rates();
        for (name, schedule) in schedules.iter() {
            match schedule {
                _ if name != LR => note(&format!("{RATE}{name}"), schedule.to_string()),
                Schedule::Constant(lr) => note(LR, lr.to_string()),
                _ => note(SCHEDULE, schedule.to_string()),
            }
        }
        if let Some(plateau) = plateau {
            note(PLATEAU, plateau.to_string());
        }
        if schedules.get(LR).map_or(plateau.is_some(), |lr| !matches!(lr, Schedule::Constant(_))) {
            note(LR, "\"scheduled\"".to_string());
        }
        for (name, value) in self.numbers_set() {
            note(&format!("{NUMBER}{name}"), value.to_string());
        }
        notes
    }

    /// Takes over the notes of this trainer from a checkpoint that another one has loaded.
    ///
    /// # Errors
    /// When they are not there, or cannot be understood; nothing changes then.
    pub fn load_notes(&mut self, entries: &Entries) -> Result<()> {
        let notes = self.parsed(entries)?;
        self.go_on(notes.attempted_steps, notes.seed, notes.numbers, notes.rates);
        Ok(())
    }

    /// Goes on from a checkpoint of this trainer, wherever it was written: all of it, or, with an error,
    /// nothing.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged; when its tensors are not those of this session's model and
    /// optimizers; when it is no checkpoint.
    pub fn load_checkpoint(&mut self, path: impl AsRef<Path>) -> Result<Restored> {
        self.restore(&Weights::open(path)?)
    }

    /// Like [`Train::load_checkpoint`], from a file that is open.
    ///
    /// # Errors
    /// As [`Train::load_checkpoint`].
    pub fn restore(&mut self, checkpoint: &Weights) -> Result<Restored> {
        let notes = self.parsed(checkpoint.entries()).map_err(|error| {
            let message = format!("{}: {}", checkpoint.name(), error.message());
            Error::new(ErrorKind::File, message).help("give a file that `Train::save_checkpoint` wrote")
        })?;
        let entries = self.store().entries();
        let tensors = checkpoint.exactly(entries.iter().map(|entry| (entry.name.as_str(), &entry.ty)))?;
        self.store().write_all(&tensors)?;
        self.go_on(notes.attempted_steps, notes.seed, notes.numbers, notes.rates);
        let others = checkpoint.entries().iter().filter(|(key, _)| !self.is_own(key));
        Ok(Restored {
            entries: others.map(|(key, value)| (key.clone(), value.clone())).collect(),
            attempted_steps: notes.attempted_steps,
            was_scheduled: notes.was_scheduled,
        })
    }

    /// Returns whether the notes of this trainer may have this name.
    fn is_own(&self, key: &str) -> bool {
        key.strip_prefix(&self.prefix())
            .is_some_and(|key| !key.contains('.') || key.starts_with(NUMBER) || key.starts_with(RATE))
    }

    fn prefix(&self) -> String {
        if self.name().is_empty() { PREFIX.to_string() } else { format!("{PREFIX}{}.", self.name()) }
    }

    fn parsed(&self, entries: &Entries) -> Result<Notes> {
        let prefix = self.prefix();
        let wrong = |name: &str, what: &str| {
            Error::new(ErrorKind::Store, format!("the note {prefix}{name} of the checkpoint {what}"))
                .help("use notes of a checkpoint of this trainer")
        };
        let text =
            |name: &str| entries.get(&format!("{prefix}{name}")).ok_or_else(|| wrong(name, "is missing"));
        let whole = |name: &str| text(name)?.parse::<u64>().map_err(|_| wrong(name, "is no whole number"));
        let number = |name: &str| text(name)?.parse::<f64>().map_err(|_| wrong(name, "is no number"));
        if whole(VERSION)? != 1 {
            return Err(
                wrong(VERSION, "is of another version").help("use the version of gradloom that wrote it")
            );
        }
        let (attempted_steps, seed) = (whole(ATTEMPTED)?, whole(SEED)?);
        let found = |name: &str| entries.get(&format!("{prefix}{name}"));
        let lr = found(LR);
        // An object, or a text in quotes, as JSON has them.
        let is_scheduled = lr.is_some_and(|lr| lr.starts_with(['{', '"']));
        let mut rates = Rates::default();
        if lr.is_some() && !is_scheduled {
            rates.schedules.insert(LR.to_string(), Schedule::Constant(number(LR)?));
        }
        if let Some(text) = found(SCHEDULE) {
            let schedule = text.parse().map_err(|_| wrong(SCHEDULE, "is no schedule"))?;
            rates.schedules.insert(LR.to_string(), schedule);
        }
        if let Some(text) = found(PLATEAU) {
            rates.plateau = Some(text.parse::<Plateau>().map_err(|_| wrong(PLATEAU, "is no plateau"))?);
        }
        let was_scheduled = is_scheduled && rates == Rates::default();
        let mut numbers = Vec::new();
        for key in entries.keys() {
            if let Some(name) = key.strip_prefix(&prefix).and_then(|key| key.strip_prefix(NUMBER)) {
                numbers.push((name, number(&format!("{NUMBER}{name}"))?));
            }
            if let Some(name) = key.strip_prefix(&prefix).and_then(|key| key.strip_prefix(RATE)) {
                let note = format!("{RATE}{name}");
                let schedule = text(&note)?.parse().map_err(|_| wrong(&note, "is no schedule"))?;
                rates.schedules.insert(name.to_string(), schedule);
            }
        }
        let numbers = self.derived(&numbers, attempted_steps, &rates)?;
        Ok(Notes { attempted_steps, seed, numbers, rates, was_scheduled })
    }
}
