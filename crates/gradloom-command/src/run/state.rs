//! The files `state.safetensors` and `model.safetensors`.

use super::folder::{MODEL, RunFolder, STATE};
use crate::failure::{Failure, Result};
use crate::train::settings::{Lora, Settings};
use crate::world;
use gradloom::Store;
use gradloom::ir::{DType, Type};
use gradloom::nn::add_low_rank;
use gradloom::optim::STATE_PREFIX;
use gradloom::plan::StoreEntry;
use gradloom::runtime::files::{Entries, TensorBytes, Weights, remove_shards, write};
use gradloom_models::any_model::AnyConfig;
use std::path::Path;

/// Metadata key of a run's configuration.
const CONFIG: &str = "config";

/// A copy of everything that training changes, as of a step.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    entries: Vec<(StoreEntry, Vec<u8>)>,
    /// Number of completed steps.
    pub(crate) steps: u64,
}

impl Snapshot {
    /// Copies the store.
    pub(crate) fn of(store: &Store, steps: u64) -> Result<Self> {
        let mut snapshot = Self::default();
        snapshot.renew(store, steps)?;
        Ok(snapshot)
    }

    /// Copies the store again, into the same memory.
    pub(crate) fn renew(&mut self, store: &Store, steps: u64) -> Result<()> {
        self.steps = steps;
        Ok(store.read_all_into(&mut self.entries)?)
    }

    /// Returns the name of the first parameter or state with an infinity or a NaN.
    pub(crate) fn not_finite(&self) -> Option<&str> {
        // Test whole blocks, which the compiler vectorizes, because training waits for this.
        let finite = |bytes: &[u8]| {
            bytes.chunks(1 << 14).all(|block| floats(block).fold(true, |all, x| all & x.is_finite()))
        };
        let mut floats = self.entries.iter().filter(|(entry, _)| entry.ty.dtype == DType::F32);
        floats.find(|(_, bytes)| !finite(bytes)).map(|(entry, _)| entry.name.as_str())
    }

    /// Writes parameters, moments, counters and configuration: everything that a resumed run needs.
    /// If this process keeps shards of the states, all ranks must call this; the first one writes what is
    /// whole.
    pub(crate) fn write_state(&self, folder: &Path, settings: &Settings) -> Result<()> {
        let path = folder.join(STATE);
        if world::shards_states() {
            return world::write_shards(&path, self.steps, &self.entries, &self.notes(settings));
        }
        self.write(&path, settings, |_| true)?;
        remove_shards(&path);
        Ok(())
    }

    /// Writes only the parameters, with adapters merged into their weights.
    pub(crate) fn write_model(&self, folder: &RunFolder, settings: &Settings) -> Result<()> {
        // Select the parameters: only states have initial values in the store's layout.
        let wanted = |entry: &StoreEntry| entry.init.is_none();
        match &settings.lora {
            None => self.write(&folder.file(MODEL), settings, wanted),
            Some(lora) => {
                let entries = self.entries.iter().filter(|(entry, _)| !is_of_adapter(&entry.name));
                let merged = entries.map(|(entry, bytes)| (entry.clone(), self.merged(entry, bytes, lora)));
                Self { entries: merged.collect(), steps: self.steps }.write(
                    &folder.file(MODEL),
                    settings,
                    wanted,
                )
            }
        }
    }

    /// Returns the bytes of a parameter with its adapter, if any, merged into it.
    fn merged(&self, entry: &StoreEntry, bytes: &[u8], lora: &Lora) -> Vec<u8> {
        let factor = |part: &str| -> Option<Vec<f32>> {
            let name = format!("{}.{part}", entry.name);
            self.entries
                .iter()
                .find(|(entry, _)| entry.name == name)
                .map(|(_, bytes)| floats(bytes).collect())
        };
        let (Some(a), Some(b)) = (factor("lora_a"), factor("lora_b")) else { return bytes.to_vec() };
        let mut weight: Vec<f32> = floats(bytes).collect();
        add_low_rank(&mut weight, [&a, &b], lora.rank, lora.alpha / lora.rank as f64);
        weight.into_iter().flat_map(f32::to_le_bytes).collect()
    }

    fn write(&self, path: &Path, settings: &Settings, wanted: impl Fn(&StoreEntry) -> bool) -> Result<()> {
        let wanted = self.entries.iter().filter(|(entry, _)| wanted(entry));
        let tensors: Vec<TensorBytes<'_>> =
            wanted.map(|(entry, bytes)| TensorBytes { name: &entry.name, ty: &entry.ty, bytes }).collect();
        Ok(write(path, &tensors, &self.notes(settings))?)
    }

    fn notes(&self, settings: &Settings) -> Entries {
        [("step".to_string(), self.steps.to_string()), (CONFIG.to_string(), settings.to_json())].into()
    }
}

/// Returns `true` if a parameter is a factor of an adapter.
fn is_of_adapter(name: &str) -> bool {
    name.ends_with(".lora_a") || name.ends_with(".lora_b")
}

/// Returns the elements of an f32 tensor.
fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// A verified state or model file.
#[derive(Debug)]
pub(crate) struct Saved {
    checkpoint: Weights,
    pub(crate) settings: Settings,
    /// Number of completed steps.
    pub(crate) steps: u64,
}

impl Saved {
    /// Reads a file and its configuration.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::of(Weights::open(path)?)
    }

    /// Returns `true` if a file is a run's model.
    pub(crate) fn is_one(file: &Weights) -> bool {
        file.is_verified() && file.entries().contains_key(CONFIG) && !Self::is_state(file)
    }

    /// Returns `true` if a file is a run's state.
    pub(crate) fn is_state(file: &Weights) -> bool {
        file.is_verified()
            && file.entries().contains_key(CONFIG)
            && file.iter().any(|(name, _)| name.starts_with(STATE_PREFIX))
    }

    /// Reads the configuration of a file.
    pub(crate) fn of(checkpoint: Weights) -> Result<Self> {
        if !checkpoint.is_verified() {
            return Err(foreign(&checkpoint));
        }
        let settings = Settings::parse(checkpoint.entry(CONFIG)?).map_err(|reason| {
            Failure::failed(format!("{}: its configuration cannot be used: {reason}", checkpoint.name()))
                .help("use the version of gradloom that wrote it")
        })?;
        let steps = checkpoint.parsed_entry("step")?;
        let saved = Self { checkpoint, settings, steps };
        saved.check_parameters()?;
        Ok(saved)
    }

    /// Checks that the configuration matches the tensors, before anything is allocated for it. Compares the
    /// number of parameters first, because a list of all names may be longer than the file.
    fn check_parameters(&self) -> Result<()> {
        let held: usize = self.checkpoint.iter().map(|(_, found)| found.bytes.len()).sum();
        let fits = self.settings.model.parameters() <= held / DType::F32.bytes() && {
            let types = crate::model::parameter_types(&self.settings.model);
            let types: Vec<_> = types.iter().map(|(name, ty)| (name.as_str(), ty)).collect();
            let differences = self.checkpoint.differences(&types);
            differences.missing.is_empty() && differences.mismatched.is_empty()
        };
        let file = self.checkpoint.name();
        let refusal = || Failure::failed(format!("{file}: its configuration is not that of its tensors"));
        if fits { Ok(()) } else { Err(refusal().help("the file is damaged: use another run")) }
    }

    pub(crate) fn weights(&self) -> &Weights {
        &self.checkpoint
    }

    /// Writes every parameter and state of the file into the store, which must have the same entries.
    pub(crate) fn restore(&self, store: &Store) -> Result<()> {
        let entries = store.entries();
        let types: Vec<Type> = entries.iter().map(StoreEntry::whole_type).collect();
        let names = entries.iter().map(|entry| entry.name.as_str());
        Ok(store.write_all(&self.checkpoint.exactly(names.zip(&types))?)?)
    }

    /// Writes every parameter into the store, regardless of its states and adapters.
    pub(crate) fn restore_parameters(&self, store: &Store) -> Result<()> {
        let entries = store.entries();
        let parameters = entries.iter().filter(|entry| entry.init.is_none() && !is_of_adapter(&entry.name));
        let tensors = self.checkpoint.exactly(parameters.map(|entry| (entry.name.as_str(), &entry.ty)))?;
        Ok(store.write(&tensors)?)
    }
}

/// Returns the failure for a file of another program. The message compares its tensors with the smallest
/// preset's, which shows what kind of file it is.
fn foreign(file: &Weights) -> Failure {
    let expected =
        crate::model::parameter_types(&AnyConfig::Gpt2(gradloom_models::gpt2::PRESETS[0].config.clone()));
    let expected: Vec<_> = expected.iter().map(|(name, ty)| (name.as_str(), ty)).collect();
    let differences = file.differences(&expected);
    let differences = if differences.is_empty() { String::new() } else { format!(" ({differences})") };
    Failure::failed(format!("{}: the file was not written by gradloom{differences}", file.name()))
        .help("use the folder of a run of `gradloom train`")
}
