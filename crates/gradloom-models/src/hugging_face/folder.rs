//! Reading of a model's folder.

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

/// Maximum size of a `config.json` in bytes.
const LARGEST: u64 = 16 << 20;

/// A model in the format of transformers: its configuration, and its memory-mapped tensors. The tensors of a
/// GGUF file are converted in memory.
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
    /// Returns `true` if a path is a folder with a model: its `config.json` has a `model_type`, unlike those
    /// of gradloom's training runs.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        let bytes = regular_file::read(&path.as_ref().join("config.json"), LARGEST);
        let json = bytes.ok().and_then(|bytes| python_json::parse(&bytes).ok());
        json.is_some_and(|json| json.get("model_type").is_some())
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// Returns an error if a file is missing, cannot be read or is damaged, or if the configuration specifies
    /// an unsupported feature.
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
        // As in transformers, the tensors take precedence over the configuration.
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

    /// Reads the configuration of a folder, as JSON and as a model configuration.
    ///
    /// # Errors
    /// Returns an error if the configuration is missing, cannot be read, or specifies an unsupported feature.
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

    /// Opens a GGUF file as if it were the corresponding folder of transformers.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Gguf::open`], [`Gguf::hugging_face_config`] and
    /// [`Gguf::weights`].
    pub fn open_gguf(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let file = Gguf::open(&path)?;
        let json = file.hugging_face_config()?;
        let config = from_json(&json, file.name())?;
        Ok(Self { path, json, config, weights: file.weights()?, stored: None, note: None })
    }

    /// Returns the path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the model's configuration.
    pub fn config(&self) -> &AnyConfig {
        &self.config
    }

    /// Returns the complete `config.json`.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Reads the generation settings of the folder or GGUF file.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Generation::open`].
    pub fn generation(&self) -> Result<Generation> {
        match self.path.is_file() {
            true => Ok(Generation::of_config(&self.json)),
            false => Generation::open(&self.path, Some(&self.json)),
        }
    }

    /// Returns a note for the user if the tensors contradict the configuration.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the tensors of the model.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Returns the reduced-precision format of the stored matrices, if [`save_stored`](super::save_stored)
    /// wrote the folder.
    pub fn stored(&self) -> Option<Stored> {
        self.stored
    }

    /// Creates a session with the model on a device. Matrices keep the format that they have in the folder.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid, if the tensors do not match the model, or if the
    /// device is out of memory.
    pub fn session(&self, device: &Device) -> Result<Session<AnyModel>> {
        self.session_stored(device, self.stored)
    }

    /// Creates a session with the model on a device. Matrices are kept in the format `stored`, or as f32 if
    /// it is `None`.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Folder::session`], or if the folder stores matrices in another
    /// reduced-precision format.
    pub fn session_stored(&self, device: &Device, stored: Option<Stored>) -> Result<Session<AnyModel>> {
        let session = Session::new(built(&self.config, stored, &self.path)?, device, 0)?;
        self.load_into(&session)?;
        Ok(session)
    }

    /// Sets the parameters of a session of this model.
    ///
    /// # Errors
    /// Returns an error if the tensors do not match the model, or if the session and the folder keep matrices
    /// in different reduced-precision formats.
    pub fn load_into(&self, session: &Session<AnyModel>) -> Result<()> {
        match self.stored {
            Some(stored) => load_stored(session, &self.weights, stored),
            None => load(session, &self.weights),
        }
    }
}
