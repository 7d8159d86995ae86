//! A folder that is read.

use super::names::has_own_head;
use super::stored::{built, load_stored, stored_of};
use super::{Generation, from_json, load};
use crate::any_model::{AnyConfig, AnyModel};
use crate::gguf::Gguf;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::nn::Stored;
use gradloom_runtime::files::Weights;
use gradloom_runtime::{Device, Session, python_json, regular_file};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Most bytes of a `config.json`.
const LARGEST: u64 = 16 << 20;

/// A folder with a model of transformers: its configuration, and its tensors, mapped into memory; or the
/// same of a GGUF file.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    json: Value,
    config: AnyConfig,
    weights: Weights,
    stored: Option<Stored>,
    note: Option<String>,
}

impl Folder {
    /// Returns whether a path looks like such a folder: it has a `config.json` with a `model_type`. The
    /// `config.json` of gradloom's runs has none.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        let bytes = regular_file::read(&path.as_ref().join("config.json"), LARGEST);
        let json = bytes.ok().and_then(|bytes| python_json::parse(&bytes).ok());
        json.is_some_and(|json| json.get("model_type").is_some())
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// When a file is missing, cannot be read or is damaged; when the configuration asks for what the models
    /// here do not have.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_path(path.as_ref().to_path_buf())
    }

    fn open_path(path: PathBuf) -> Result<Self> {
        let (json, mut config) = Self::configuration(&path)?;
        let name = path.join("config.json").display().to_string();
        let stored = stored_of(&json, &name)?;
        let weights = Weights::open(&path)?;
        let is_llama = matches!(config, AnyConfig::Llama(_));
        let tied = match &mut config {
            AnyConfig::Gpt2(config) => &mut config.tied,
            AnyConfig::Llama(config) => &mut config.tied,
        };
        // As transformers does: the tensors count.
        let is_untied = *tied && has_own_head(is_llama, &weights)?;
        *tied &= !is_untied;
        let note = is_untied.then(|| {
            format!(
                "{name}: `tie_word_embeddings` is not false, but the files have a `lm_head.weight` that is \
                 not the token embedding: it is the output layer"
            )
        });
        Ok(Self { path, json, config, weights, stored, note })
    }

    /// Reads the configuration of a folder, as its file has it and as sizes of a model.
    ///
    /// # Errors
    /// When it is missing, cannot be read, or asks for something that the models here do not have.
    pub fn configuration(path: impl AsRef<Path>) -> Result<(Value, AnyConfig)> {
        let path = path.as_ref();
        let file = path.join("config.json");
        let name = file.display().to_string();
        let unusable = |reason: String| {
            Error::new(ErrorKind::File, format!("{name}: {reason}"))
                .help("give a folder that transformers' `save_pretrained` wrote")
        };
        let bytes = regular_file::read(&file, LARGEST)
            .map_err(|error| unusable(format!("cannot be read: {error}")))?;
        let json = python_json::parse(&bytes).map_err(|error| unusable(format!("it is no JSON: {error}")))?;
        let config = from_json(&json, &name)?;
        Ok((json, config))
    }

    /// Opens a GGUF file as the folder that transformers would have of it.
    ///
    /// # Errors
    /// As [`Gguf::open`], [`Gguf::hugging_face_config`] and [`Gguf::weights`].
    pub fn open_gguf(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let file = Gguf::open(&path)?;
        let json = file.hugging_face_config()?;
        let config = from_json(&json, file.name())?;
        Ok(Self { path, json, config, weights: file.weights()?, stored: None, note: None })
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the sizes of the model.
    pub fn config(&self) -> &AnyConfig {
        &self.config
    }

    /// Returns the whole configuration as it is in the file.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Reads the settings for generating text of the folder or the file.
    ///
    /// # Errors
    /// As [`Generation::open`].
    pub fn generation(&self) -> Result<Generation> {
        match self.path.is_file() {
            true => Ok(Generation::of_config(&self.json)),
            false => Generation::open(&self.path, Some(&self.json)),
        }
    }

    /// Returns a note for the user, if the tensors contradict the configuration.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the tensors.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Returns the form in which the folder keeps matrices, if in fewer bits, as
    /// [`save_stored`](super::save_stored) writes them.
    pub fn stored(&self) -> Option<Stored> {
        self.stored
    }

    /// Returns the model with its parameters, on a device: matrices in the form that the folder has.
    ///
    /// # Errors
    /// When the sizes make no model, when the tensors are not those of the model, or the device has no room.
    pub fn session(&self, device: &Device) -> Result<Session<AnyModel>> {
        self.session_stored(device, self.stored)
    }

    /// Returns the model with its parameters, on a device, with matrices that are kept in a form of fewer
    /// bits, or as f32.
    ///
    /// # Errors
    /// As [`Folder::session`], and when the folder has them in another form of fewer bits.
    pub fn session_stored(&self, device: &Device, stored: Option<Stored>) -> Result<Session<AnyModel>> {
        let session = Session::new(built(&self.config, stored, &self.path)?, device, 0)?;
        self.load_into(&session)?;
        Ok(session)
    }

    /// Sets the parameters of a session of such a model.
    ///
    /// # Errors
    /// When the tensors are not those of the model, or of another form of fewer bits than the session keeps.
    pub fn load_into(&self, session: &Session<AnyModel>) -> Result<()> {
        match self.stored {
            Some(stored) => load_stored(session, &self.weights, stored),
            None => load(session, &self.weights),
        }
    }
}
