//! Sources of a command's model: the folder of a run, a folder of transformers, or a GGUF file.

use crate::failure::{Failure, Result};
use crate::output::{quoted, tell};
use crate::place::{Place, contents, look};
use crate::run::{MODEL, STATE, Saved};
use crate::tokenizer::{AnyTokenizer, FILE};
use gradloom::nn::{Stored, store_matrices};
use gradloom::runtime::files::{FileKind, Load, Weights};
use gradloom::{Device, Session};
use gradloom_models::any_model::{AnyConfig, AnyModel};
use gradloom_models::data::{Bpe, Bytes, Tokenizer, TokenizerError};
use gradloom_models::gguf::Gguf;
use gradloom_models::hugging_face::{Folder, Generation};
use std::fs;
use std::path::{Path, PathBuf};

/// A model in valid files.
pub(crate) struct Source {
    config: AnyConfig,
    kind: Kind,
}

enum Kind {
    Run(Box<Saved>),
    Folder(Box<Folder>),
}

/// Remedy if a path contains no model.
const MODELS: &str =
    "give the folder of a run, such as runs/tiny-1, a folder of transformers, or a GGUF file";

/// A model, or only tensors, at a path.
pub(crate) enum Found {
    Model(Source),
    /// Tensors without a configuration.
    Tensors(Box<Weights>),
}

impl Source {
    /// Opens the folder of a run, its `model.safetensors`, a folder of transformers, or a GGUF file.
    pub(crate) fn open(given: &Path) -> Result<Self> {
        match Found::open(given)? {
            Found::Model(source) => Ok(source),
            Found::Tensors(weights) => Err(without_configuration(&weights)),
        }
    }

    fn of_folder(folder: Folder) -> Result<Found> {
        if let Some(note) = folder.note() {
            tell!("note: {note}");
        }
        let (config, kind) = (folder.config().clone(), Kind::Folder(Box::new(folder)));
        Self { config, kind }.checked()
    }

    /// Returns the model if its sizes are valid.
    fn checked(self) -> Result<Found> {
        match self.config.validate() {
            Ok(()) => Ok(Found::Model(self)),
            Err(error) => {
                let name = match &self.kind {
                    Kind::Run(saved) => saved.weights().name().to_string(),
                    Kind::Folder(folder) => folder.path().display().to_string(),
                };
                Err(Failure::failed(format!("{name}: its sizes make no model: {error}"))
                    .help("get the model once more, or restore it from a copy"))
            }
        }
    }

    /// Returns the sizes of the model.
    pub(crate) fn config(&self) -> &AnyConfig {
        &self.config
    }

    /// Returns a description of the files by the program that wrote them.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.kind {
            Kind::Run(_) => "a run of gradloom train",
            Kind::Folder(folder) if folder.path().is_file() => "a GGUF file",
            Kind::Folder(folder) if folder.stored().is_some() => "a folder of gradloom export --weights",
            Kind::Folder(_) => "a folder of transformers",
        }
    }

    /// Returns the tokenizer in the folder or in the GGUF file. A model with no more tokens than there are
    /// bytes needs no tokenizer.
    pub(crate) fn tokenizer(&self) -> Result<AnyTokenizer> {
        match &self.kind {
            Kind::Run(saved) => {
                AnyTokenizer::of_run(folder_of(Path::new(saved.weights().name())), &saved.settings)
            }
            Kind::Folder(folder) => {
                let path = folder.path();
                if path.is_file() {
                    let file = Gguf::open(path)?;
                    // If the file's own tokenizer is not supported, use the one next to the file.
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

    /// Reads the files' settings for generating text.
    pub(crate) fn generation(&self) -> Result<Generation> {
        match &self.kind {
            Kind::Run(saved) => Ok(Generation::open(folder_of(Path::new(saved.weights().name())), None)?),
            Kind::Folder(folder) => Ok(folder.generation()?),
        }
    }

    /// Returns the tokens that end a text, according to the tokenizer and the files.
    pub(crate) fn ends(&self, tokenizer: &AnyTokenizer) -> Result<Vec<i32>> {
        Ok(ends(tokenizer, &self.generation()?))
    }

    pub(crate) fn weights(&self) -> &Weights {
        match &self.kind {
            Kind::Run(saved) => saved.weights(),
            Kind::Folder(folder) => folder.weights(),
        }
    }

    /// Returns the folder of transformers or the GGUF file, unless the model is a run.
    pub(crate) fn folder(&self) -> Option<&Folder> {
        match &self.kind {
            Kind::Run(_) => None,
            Kind::Folder(folder) => Some(folder),
        }
    }

    /// Loads the model and its parameters on a device.
    pub(crate) fn session(&self, device: &Device) -> Result<Session<AnyModel>> {
        match &self.kind {
            Kind::Folder(folder) => Ok(folder.session(device)?),
            Kind::Run(_) => self.session_stored(device, None),
        }
    }

    /// Loads the model and its parameters on a device, with matrices stored as `stored`, or as f32.
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

    /// Returns the type in which the files store matrices, if smaller than f32.
    pub(crate) fn stored(&self) -> Option<Stored> {
        self.folder().and_then(Folder::stored)
    }

    /// Sets all parameters of a session, which are f32, to those of the files.
    pub(crate) fn load_into(&self, session: &Session<AnyModel>) -> Result<()> {
        match &self.kind {
            Kind::Folder(folder) => Ok(folder.load_into(session)?),
            Kind::Run(saved) => saved.restore_parameters(&session.store()),
        }
    }
}

impl Found {
    /// Opens what [`Source::open`] accepts, or a file with only tensors.
    pub(crate) fn open(given: &Path) -> Result<Self> {
        match look(given, MODELS)? {
            Place::Folder => Self::in_folder(given),
            Place::File(FileKind::Gguf) => Source::of_folder(Folder::open_gguf(given)?),
            Place::File(FileKind::Safetensors) => Self::of_file(given),
            Place::File(FileKind::Json) if is_index(given) => {
                Ok(Self::Tensors(Box::new(Weights::open(given)?)))
            }
            Place::File(FileKind::Json) if given.file_name().is_some_and(|name| name == CONFIG) => {
                let folder = quoted(&folder_of(given).display().to_string());
                Err(Failure::usage(format!("{}: this is the configuration of a model", given.display()))
                    .help(format!("give its folder: {folder}")))
            }
            // Let the reader report the error of a damaged file, which may have no known kind.
            Place::File(FileKind::Other) if given.extension().is_some_and(|end| end == "safetensors") => {
                Self::of_file(given)
            }
            Place::File(FileKind::Other) if given.extension().is_some_and(|end| end == "gguf") => {
                Source::of_folder(Folder::open_gguf(given)?)
            }
            Place::File(kind) => {
                let remedy = match kind {
                    FileKind::Json | FileKind::Text | FileKind::Other => MODELS,
                    kind => kind.remedy(),
                };
                let and = if kind == FileKind::Empty { "" } else { ", and no model" };
                Err(Failure::usage(format!("{}: the file is {kind}{and}", given.display())).help(remedy))
            }
        }
    }

    /// Opens a safetensors file: a run's model, or only tensors.
    fn of_file(path: &Path) -> Result<Self> {
        let weights = Weights::open(path)?;
        if !Saved::is_one(&weights) {
            return Ok(Self::Tensors(Box::new(weights)));
        }
        let saved = Saved::of(weights)?;
        Source { config: saved.settings.model.clone(), kind: Kind::Run(Box::new(saved)) }.checked()
    }

    fn in_folder(folder: &Path) -> Result<Self> {
        let config = folder.join(CONFIG);
        let name = folder.display();
        if Folder::is_at(folder) {
            // A folder without a model is an error of the command line; a wrong configuration is not.
            let is_none = || weights_in(folder).is_none() && Folder::configuration(folder).is_ok();
            let opened = Folder::open(folder).map_err(|error| match is_none() {
                true => Failure::from(error).into_usage(),
                false => error.into(),
            });
            return Source::of_folder(opened?);
        }
        if folder.join(MODEL).exists() {
            let found = Self::of_file(&folder.join(MODEL))?;
            if let Self::Tensors(_) = found
                && config.exists()
            {
                return Err(Folder::open(folder).map_or_else(Failure::from, |_| {
                    Failure::failed(format!("{}: it has no `model_type`", config.display()))
                }));
            }
            return Ok(found);
        }
        if config.exists() && !folder.join(STATE).exists() {
            return Err(Folder::open(folder).map_or_else(Failure::from, |_| {
                Failure::usage(format!("{name}: no weights in this folder")).help(MODELS)
            }));
        }
        let has = if folder.join(STATE).exists() {
            return Err(Failure::failed(format!(
                "{name}: the run has no {MODEL} yet: it was ended before it saved one"
            ))
            .help(format!("go on with it by `gradloom train`, which takes its {STATE}")));
        } else {
            match (weights_in(folder), contents(folder)) {
                (Some(path), _) => {
                    let path = quoted(&path.display().to_string());
                    return Err(Failure::usage(format!(
                        "{name}: the folder is neither a run nor of transformers"
                    ))
                    .help(format!("give a file in it: {path}")));
                }
                (None, Some(names)) => format!("it has {names}, and neither {MODEL} nor {CONFIG}"),
                (None, None) => "it is empty".to_string(),
            }
        };
        Err(Failure::usage(format!("{name}: no model in this folder: {has}")).help(MODELS))
    }
}

/// Returns the sorted tokens that end a text, according to a tokenizer and to files.
pub(crate) fn ends(tokenizer: &AnyTokenizer, generation: &Generation) -> Vec<i32> {
    let mut ends = generation.ends();
    ends.extend(tokenizer.get().end_of_text());
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// Name of the configuration file of a run, and of a folder of transformers.
const CONFIG: &str = "config.json";

/// Returns `true` if a path names an index, which joins several files of tensors.
fn is_index(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".safetensors.index.json")
}

/// Returns the first GGUF or safetensors file in a folder.
fn weights_in(folder: &Path) -> Option<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let is_one =
        |path: &PathBuf| matches!(FileKind::of_file(path), Ok(FileKind::Gguf | FileKind::Safetensors));
    files.into_iter().find(is_one)
}

/// Returns the failure for a file that has tensors but no configuration.
fn without_configuration(weights: &Weights) -> Failure {
    let path = Path::new(weights.name());
    let folder = folder_of(path);
    let shown = quoted(&folder.display().to_string());
    if Saved::is_state(weights) {
        let message = format!("{}: this is the state of a run, not its model", path.display());
        return Failure::usage(message).help(format!("give the run's folder: {shown}"));
    }
    if Folder::is_at(folder) {
        let message = format!("{}: the file has a model's tensors alone", path.display());
        return Failure::usage(message)
            .help(format!("give its folder, which has the configuration: {shown}"));
    }
    let message = format!("{}: the file has tensors, and no configuration of a model", path.display());
    Failure::usage(message)
        .help("put its config.json beside it, and give the folder; `gradloom info` lists its tensors")
}

/// Returns `true` if there is a tokenizer.json next to a file.
fn has_tokenizer_beside(file: &Path) -> bool {
    folder_of(file).join(FILE).is_file()
}

/// Returns the folder that contains a file.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
