//! Where a command takes a model from: the folder of a run, one of transformers, or a GGUF file.

use crate::failure::{Failure, Result};
use crate::output::quoted;
use crate::run::{MODEL, STATE, Saved};
use crate::tokenizer::{AnyTokenizer, FILE, is_gguf};
use gradloom::nn::{Stored, store_matrices};
use gradloom::runtime::files::{Load, Weights};
use gradloom::{Device, Session};
use gradloom_models::any_model::{AnyConfig, AnyModel};
use gradloom_models::data::{Bpe, Bytes, Tokenizer, TokenizerError};
use gradloom_models::gguf::Gguf;
use gradloom_models::hugging_face::Folder;
use std::fs;
use std::path::Path;

/// A model in files that were found sound.
pub(crate) struct Source {
    config: AnyConfig,
    kind: Kind,
}

enum Kind {
    Run(Box<Saved>),
    Folder(Box<Folder>),
}

impl Source {
    /// Opens the folder of a run, its `model.safetensors`, a folder of transformers, or a GGUF file.
    pub(crate) fn open(given: &Path) -> Result<Self> {
        let is_gguf = is_gguf(given);
        if is_gguf || Folder::is_at(given) {
            let folder = if is_gguf { Folder::open_gguf(given)? } else { Folder::open(given)? };
            return Ok(Self { config: folder.config().clone(), kind: Kind::Folder(Box::new(folder)) });
        }
        let path = if given.is_dir() { given.join(MODEL) } else { given.to_path_buf() };
        if !path.exists() {
            return Err(Failure::usage(format!("{}: there is no such run", given.display()))
                .help("give the folder that `gradloom train` named, such as runs/tiny-1"));
        }
        if path.file_name().is_some_and(|name| name == STATE) {
            let folder = folder_of(&path);
            return Err(Failure::usage(format!(
                "{}: this is the state of a run, not its model",
                path.display()
            ))
            .help(format!("give the run's folder: {}", quoted(&folder.display().to_string()))));
        }
        let saved = Saved::open(&path)?;
        Ok(Self { config: saved.settings.model.clone(), kind: Kind::Run(Box::new(saved)) })
    }

    /// The sizes of the model.
    pub(crate) fn config(&self) -> &AnyConfig {
        &self.config
    }

    /// What wrote the files, in a word or two.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.kind {
            Kind::Run(_) => "a run of gradloom train",
            Kind::Folder(folder) if folder.path().is_file() => "a GGUF file",
            Kind::Folder(folder) if folder.stored().is_some() => "a folder of gradloom export --weights",
            Kind::Folder(_) => "a folder of transformers",
        }
    }

    /// The tokenizer in the folder, or in the GGUF file. A model of no more tokens than there are bytes may
    /// go without.
    pub(crate) fn tokenizer(&self) -> Result<AnyTokenizer> {
        match &self.kind {
            Kind::Run(saved) => {
                let folder = Path::new(saved.weights().name()).parent().unwrap_or(Path::new("."));
                AnyTokenizer::of_run(folder, &saved.settings)
            }
            Kind::Folder(folder) => {
                let path = folder.path();
                if path.is_file() {
                    let file = Gguf::open(path)?;
                    // A tokenizer that is not known may lie beside the file in another form.
                    match file.has_tokenizer().then(|| file.tokenizer()) {
                        Some(Ok(tokenizer)) => return Ok(AnyTokenizer::Bpe(Box::new(tokenizer))),
                        Some(Err(error)) if !has_tokenizer_beside(path) => return Err(error.into()),
                        _ => {}
                    }
                }
                let path = if path.is_dir() { path } else { folder_of(path) };
                match Bpe::open(path) {
                    Err(TokenizerError::NoTokenizer { .. })
                        if self.config.vocabulary() <= Bytes.vocabulary() =>
                    {
                        Ok(AnyTokenizer::Bytes(Bytes))
                    }
                    opened => Ok(AnyTokenizer::Bpe(Box::new(opened?))),
                }
            }
        }
    }

    /// The tokens that end a text: the tokenizer's, and those that the files say.
    pub(crate) fn ends(&self, tokenizer: &AnyTokenizer) -> Vec<i32> {
        let mut ends: Vec<i32> = tokenizer.get().end_of_text().into_iter().collect();
        if let Some(folder) = self.folder() {
            let text = fs::read_to_string(folder.path().join("generation_config.json"));
            let generation = text.ok().and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
            for said in [Some(folder.json()), generation.as_ref()].into_iter().flatten() {
                let said = &said["eos_token_id"];
                let all = said.as_array().map_or(std::slice::from_ref(said), Vec::as_slice);
                ends.extend(all.iter().filter_map(|id| id.as_i64().and_then(|id| i32::try_from(id).ok())));
            }
        }
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// The tensors.
    pub(crate) fn weights(&self) -> &Weights {
        match &self.kind {
            Kind::Run(saved) => saved.weights(),
            Kind::Folder(folder) => folder.weights(),
        }
    }

    /// The folder of transformers, if it is one.
    pub(crate) fn folder(&self) -> Option<&Folder> {
        match &self.kind {
            Kind::Run(_) => None,
            Kind::Folder(folder) => Some(folder),
        }
    }

    /// The model with its parameters, on a device.
    pub(crate) fn session(&self, device: &Device) -> Result<Session<AnyModel>> {
        match &self.kind {
            Kind::Folder(folder) => Ok(folder.session(device)?),
            Kind::Run(_) => self.session_stored(device, None),
        }
    }

    /// The model with its parameters, on a device, with matrices kept in a form of fewer bits, or as f32.
    pub(crate) fn session_stored(
        &self,
        device: &Device,
        stored: Option<Stored>,
    ) -> Result<Session<AnyModel>> {
        match &self.kind {
            Kind::Folder(folder) => Ok(folder.session_stored(device, stored)?),
            Kind::Run(saved) => {
                let model = self.config.build().map_err(|error| {
                    Failure::usage(format!("these sizes make no model: {error}")).help(error.remedy())
                })?;
                let Some(stored) = stored else {
                    let session = Session::new(model, device, 0)?;
                    session.materialize()?;
                    saved.restore_parameters(&session.store())?;
                    return Ok(session);
                };
                store_matrices(&model, stored)?;
                let session = Session::new(model, device, 0)?;
                session.load_with(saved.weights(), &Load::strict()).map(drop)?;
                Ok(session)
            }
        }
    }

    /// The form in which the files keep matrices, if in fewer bits.
    pub(crate) fn stored(&self) -> Option<Stored> {
        self.folder().and_then(Folder::stored)
    }

    /// Sets the parameters of a session in f32, which has all of them already, to those of the files.
    pub(crate) fn load_into(&self, session: &Session<AnyModel>) -> Result<()> {
        match &self.kind {
            Kind::Folder(folder) => Ok(folder.load_into(session)?),
            Kind::Run(saved) => saved.restore_parameters(&session.store()),
        }
    }
}

/// Whether a tokenizer.json lies beside a file.
fn has_tokenizer_beside(file: &Path) -> bool {
    folder_of(file).join(FILE).is_file()
}

/// The folder that a file is in.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
