//! `state.safetensors` and `model.safetensors`.

use super::folder::{MODEL, RunFolder, STATE};
use crate::failure::{Failure, Result};
use crate::train::settings::Settings;
use gradloom::Store;
use gradloom_models::checkpoint::{Checkpoint, CheckpointError, TensorBytes, write};
use std::path::Path;

/// Writes the state (parameters, moments, counters, configuration) and then the model (parameters alone). Each file is replaced as a whole,
/// and a resumed run reads the state alone, so an interruption between the two does no harm.
pub(crate) fn save(folder: &RunFolder, store: &Store, settings: &Settings, steps: u64) -> Result<()> {
    let entries = store.entries();
    let bytes = entries.iter().map(|entry| store.read(&entry.name)).collect::<gradloom::Result<Vec<_>>>()?;
    let tensors: Vec<TensorBytes<'_>> = entries
        .iter()
        .zip(&bytes)
        .map(|(entry, bytes)| TensorBytes { name: &entry.name, ty: &entry.ty, bytes })
        .collect();
    // Only states have initial values in the store's layout.
    let parameters: Vec<TensorBytes<'_>> =
        tensors.iter().zip(&entries).filter(|(_, entry)| entry.init.is_none()).map(|(t, _)| *t).collect();
    let metadata =
        [("step".to_string(), steps.to_string()), ("config".to_string(), settings.to_json())].into();
    write(&folder.file(STATE), &tensors, &metadata)?;
    write(&folder.file(MODEL), &parameters, &metadata)?;
    Ok(())
}

/// A state or model file, read and found sound.
#[derive(Debug)]
pub(crate) struct Saved {
    checkpoint: Checkpoint,
    pub(crate) settings: Settings,
    /// Steps that were made.
    pub(crate) steps: u64,
}

impl Saved {
    /// Reads a file and the configuration in it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let checkpoint = Checkpoint::open(path)?;
        let settings = match checkpoint.entry("config") {
            Ok(text) => Settings::parse(text).map_err(|reason| {
                Failure::failed(format!("{}: its configuration cannot be used: {reason}", path.display()))
                    .help("use the version of gradloom that wrote it")
            })?,
            Err(error) => return Err(foreign(&checkpoint, error)),
        };
        let steps = checkpoint.parsed_entry("step")?;
        Ok(Self { checkpoint, settings, steps })
    }

    /// Puts every parameter and state into the store, which must have exactly those.
    pub(crate) fn restore(&self, store: &Store) -> Result<()> {
        let entries = store.entries();
        let tensors =
            self.checkpoint.exactly(entries.iter().map(|entry| (entry.name.as_str(), &entry.ty)))?;
        Ok(store.write_all(&tensors)?)
    }

    /// Puts every parameter into the store, whatever states it has.
    pub(crate) fn restore_parameters(&self, store: &Store) -> Result<()> {
        let entries = store.entries();
        let parameters = entries.iter().filter(|entry| entry.init.is_none());
        let tensors = self.checkpoint.exactly(parameters.map(|entry| (entry.name.as_str(), &entry.ty)))?;
        Ok(store.write(&tensors)?)
    }
}

/// For a file of another program, tells how its tensors differ from the smallest preset's: that shows what kind of file it is.
fn foreign(checkpoint: &Checkpoint, error: CheckpointError) -> Failure {
    if !matches!(error, CheckpointError::Foreign { .. }) {
        return error.into();
    }
    let expected = crate::model::parameter_types(&gradloom_models::gpt2::PRESETS[0].config);
    let compared = checkpoint.exactly(expected.iter().map(|(name, ty)| (name.as_str(), ty)));
    compared.err().unwrap_or(error).into()
}
