//! Saves and restores all state of a training run in one file.

use super::{Entries, ShardWriter, TensorBytes, Weights, remove_shards, write};
use crate::Train;
use crate::train::Rates;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Type;
use gradloom_core::nn::Module;
use gradloom_core::optim::{Hyperparameters, Plateau, Schedule};
use gradloom_core::plan::StoreEntry;
use std::path::Path;

// The npm package uses the same names in the header of its checkpoints: see `web/src/state.ts`.
/// Prefix of the names of a trainer's notes. It is followed by the trainer's name and a dot, if the trainer
/// has a name, and then by one of the names below.
pub(super) const PREFIX: &str = "gradloom.";
/// Name of the note with the version of the format.
pub(super) const VERSION: &str = "state";
const ATTEMPTED: &str = "attempted_steps";
const SEED: &str = "seed";
/// Name of the note with the constant learning rate that replaces the optimizer's schedule. If a schedule or
/// a plateau replaces it instead, the note is the text `"scheduled"`: the npm package and earlier versions do
/// not support [`SCHEDULE`], [`RATE`] and [`PLATEAU`], and then expect the caller to set the schedule again.
const LR: &str = "lr";
/// Name of the note with the schedule that replaces the optimizer's schedule.
const SCHEDULE: &str = "schedule";
/// Prefix of the name of the note with the schedule of one group of the optimizer.
const RATE: &str = "rate.";
/// Name of the note with the plateau that adjusts the learning rate.
const PLATEAU: &str = "plateau";
/// Prefix of the name of the note with a hyperparameter that was set.
const NUMBER: &str = "number.";

/// Contents of a checkpoint other than tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// Notes of the caller, such as the position in the data or the best loss, and notes of other trainers.
    pub entries: Entries,
    /// Number of steps submitted before the checkpoint.
    pub attempted_steps: u64,
    /// True if a schedule was set with [`Train::set_schedule`] but is not in the file, so that it must be set
    /// again. Files of this version contain the schedule; files of earlier versions and of the npm package
    /// may not.
    pub was_scheduled: bool,
}

struct Notes {
    attempted_steps: u64,
    seed: u64,
    numbers: Hyperparameters,
    rates: Rates,
    was_scheduled: bool,
}

impl<M: Module, const N: usize> Train<M, N> {
    /// Writes all state of the training run to a safetensors file, replacing an existing file atomically:
    /// parameters, states, the states of all optimizers, counters, hyperparameters and schedules that were
    /// set, a plateau with its state, and the key of the random numbers. `entries` are the caller's own
    /// notes, such as the position in the data. A run restored from the file computes the same bits. Waits
    /// for the device.
    ///
    /// In a world, rank 0 writes the file, which has the states of all. But if the trainer
    /// [shards](crate::Trainer::shard_states) the optimizer's states, all ranks must call this
    /// after the same step, with one path in a folder that they share. Each rank then writes its shards to a
    /// file beside the checkpoint, `PATH.NUMBER-WORLD.RANK-of-RANKS`. One process, or any number of ranks,
    /// can restore it.
    ///
    /// If several trainers share one session, one of them writes the file, with the [notes](Train::notes) of
    /// the others in `entries`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, in which case the old file is unchanged; if an entry
    /// has the name of one of this trainer's notes; or on the null device.
    pub fn save_checkpoint(&self, path: impl AsRef<Path>, entries: &Entries) -> Result<()> {
        let mut all = self.notes();
        for (name, text) in entries {
            if self.is_own(name) || all.insert(name.clone(), text.clone()).is_some() {
                let message = format!("the entry `{name}` is called like one of the trainer's notes");
                return Err(Error::new(ErrorKind::File, message).help("give it another name"));
            }
        }
        let has_shards = self.store().entries().iter().any(|entry| !entry.whole.is_empty());
        if !has_shards && self.session().device().rank() > 0 {
            return Ok(());
        }
        let content = self.store().read_all()?;
        if has_shards {
            return self.save_shards(path.as_ref(), &content, &all);
        }
        let tensors: Vec<_> = content
            .iter()
            .map(|(entry, bytes)| TensorBytes { name: &entry.name, ty: &entry.ty, bytes })
            .collect();
        write(path.as_ref(), &tensors, &all)?;
        remove_shards(path.as_ref());
        Ok(())
    }

    /// Writes a checkpoint together with the other ranks.
    fn save_shards(&self, path: &Path, content: &[(StoreEntry, Vec<u8>)], notes: &Entries) -> Result<()> {
        let communicator = self.session().device().backend().communicator();
        let communicator = communicator.expect("only a trainer of a world has shards");
        // The contents of the store change with its version. Rank 0 counts, because only its number need be
        // new.
        let mut number = self.store().version().to_le_bytes().to_vec();
        communicator.broadcast(0, &mut number)?;
        let writer = ShardWriter {
            rank: communicator.rank(),
            ranks: communicator.size(),
            world: communicator.session(),
            number: u64::from_le_bytes(number.try_into().unwrap_or_default()),
            check: &|| communicator.check(),
        };
        // Ranks that wait for a file of this one must not wait for ever.
        writer.write(path, content, notes).inspect_err(|error| communicator.fail(error))
    }

    /// Returns the notes about this trainer in a checkpoint: counters, hyperparameters, schedules, a plateau,
    /// and the seed.
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

    /// Restores this trainer from its notes in a checkpoint that another trainer has loaded.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if a note is missing or cannot be parsed.
    pub fn load_notes(&mut self, entries: &Entries) -> Result<()> {
        let notes = self.parsed(entries)?;
        self.go_on(notes.attempted_steps, notes.seed, notes.numbers, notes.rates);
        Ok(())
    }

    /// Restores a checkpoint of this trainer, written on any device. If there is an error, nothing changes.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is damaged, or is not a checkpoint, or if its tensors are
    /// not those of this session's model and optimizers.
    pub fn load_checkpoint(&mut self, path: impl AsRef<Path>) -> Result<Restored> {
        self.restore(&Weights::open(path)?)
    }

    /// Restores an open checkpoint, as [`Train::load_checkpoint`] does.
    ///
    /// # Errors
    /// Returns the same errors as [`Train::load_checkpoint`].
    pub fn restore(&mut self, checkpoint: &Weights) -> Result<Restored> {
        let notes = self.parsed(checkpoint.entries()).map_err(|error| {
            let message = format!("{}: {}", checkpoint.name(), error.message());
            Error::new(ErrorKind::File, message).help("give a file that `Train::save_checkpoint` wrote")
        })?;
        let entries = self.store().entries();
        let types: Vec<Type> = entries.iter().map(StoreEntry::whole_type).collect();
        let names = entries.iter().map(|entry| entry.name.as_str());
        let tensors = checkpoint.exactly(names.zip(&types))?;
        self.store().write_all(&tensors)?;
        self.go_on(notes.attempted_steps, notes.seed, notes.numbers, notes.rates);
        let others = checkpoint.entries().iter().filter(|(key, _)| !self.is_own(key));
        Ok(Restored {
            entries: others.map(|(key, value)| (key.clone(), value.clone())).collect(),
            attempted_steps: notes.attempted_steps,
            was_scheduled: notes.was_scheduled,
        })
    }

    /// Returns `true` if this name is reserved for notes of this trainer.
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
        // A schedule is noted as a JSON object or a quoted string, and a constant rate as a number.
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
