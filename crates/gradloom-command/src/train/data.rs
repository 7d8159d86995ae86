//! The data of a run: text that is encoded in memory, or files of tokens.
//!
//! In: the settings' paths and tokenizer. Out: the data, split for training and evaluation. Invariant:
//! files of tokens are not loaded into memory.

use super::settings::{DataSource, Settings};
use crate::failure::{Failure, Result};
use crate::tokenizer::{AnyTokenizer, BYTES, FILE};
use gradloom_models::data::{DataError, ShardPaths, Skipped, Split, Text, TokenShards, Tokens, load};
use std::path::PathBuf;

/// Text included in the program.
const BUILT_IN: &str = include_str!("../../assets/corpus.txt");

/// The data of a run.
pub(super) struct Data {
    pub(super) source: Source,
    pub(super) split: Split,
    pub(super) tokenizer: AnyTokenizer,
}

/// Description of the data that was read.
pub(super) struct Source {
    /// Paths of the files; empty for the built-in text.
    pub(super) files: Vec<PathBuf>,
    pub(super) bytes: usize,
    pub(super) is_of_tokens: bool,
    pub(super) skipped: Vec<Skipped>,
    sha256: String,
}

impl Source {
    /// Returns the description that a run records.
    pub(super) fn described(&self, settings: &Settings) -> DataSource {
        DataSource {
            paths: settings.data.paths.clone(),
            files: self.files.len(),
            bytes: self.bytes,
            sha256: self.sha256.clone(),
        }
    }
}

impl Data {
    /// Reads and splits the data; `what` names it in errors. A resumed run passes its tokenizer.
    pub(super) fn read(settings: &Settings, tokenizer: Option<AnyTokenizer>, what: &str) -> Result<Self> {
        let failure = |error: DataError| Failure::from(error).context(what);
        if let Some(paths) = ShardPaths::find(&settings.data.paths).map_err(failure)? {
            return Self::of_tokens(settings, tokenizer, &paths, what);
        }
        let text = if settings.data.paths.is_empty() {
            Text::built_in(BUILT_IN)
        } else {
            load(&settings.data.paths).map_err(failure)?
        };
        let tokenizer = tokenizer.map_or_else(|| chosen(settings, &text.bytes), Ok)?;
        let tokens =
            tokenizer.get().encode(&text.bytes).map_err(|error| Failure::from(error).context(what))?;
        let split = Split::new(tokens, settings.model.context()).map_err(failure)?;
        let sha256 = text.fingerprint();
        let Text { bytes, sources, skipped } = text;
        let source = Source { files: sources, bytes: bytes.len(), is_of_tokens: false, skipped, sha256 };
        Ok(Self { source, split, tokenizer })
    }

    fn of_tokens(
        settings: &Settings,
        tokenizer: Option<AnyTokenizer>,
        paths: &ShardPaths,
        what: &str,
    ) -> Result<Self> {
        let failure = |error: DataError| Failure::from(error).context(what);
        let given = settings.tokenizer.given.as_deref();
        let tokenizer = match (tokenizer, given) {
            (Some(tokenizer), _) => tokenizer,
            (None, Some(given)) if AnyTokenizer::trained_size(given).is_some() => {
                return Err(Failure::usage(format!("--tokenizer {given}: there is no text to train it on"))
                    .help("name the tokenizer that made the tokens"));
            }
            (None, Some(given)) => named(given)?,
            (None, None) => {
                let beside = paths.folder().map(|folder| folder.join(FILE)).filter(|path| path.exists());
                let beside = beside.ok_or_else(|| {
                    Failure::usage(format!("{what}: these are tokens, and no {FILE} is beside them"))
                        .help("name the tokenizer that made them: --tokenizer PATH, or --tokenizer bytes")
                })?;
                AnyTokenizer::open(&beside.display().to_string())?
            }
        };
        tokenizer.check_shards(paths, what)?;
        let vocabulary = tokenizer.get().vocabulary();
        let all: Vec<&PathBuf> = paths.training.iter().chain(&paths.held_out).collect();
        // Open all files together, for their total size and fingerprint. Opening them twice costs no memory,
        // because they are mapped.
        let whole = TokenShards::open(&all, vocabulary).map_err(failure)?;
        let context = settings.model.context();
        let split = if paths.held_out.is_empty() || paths.training.is_empty() {
            Split::new(Tokens::Shards(whole.clone()), context)
        } else {
            let open = |paths| TokenShards::open(paths, vocabulary).map(Tokens::Shards).map_err(failure);
            Split::of_parts(open(&paths.training)?, open(&paths.held_out)?, context)
        };
        let source = Source {
            files: all.into_iter().cloned().collect(),
            bytes: whole.bytes(),
            is_of_tokens: true,
            skipped: Vec::new(),
            sha256: whole.fingerprint(),
        };
        Ok(Self { source, split: split.map_err(failure)?, tokenizer })
    }
}

/// Opens the tokenizer that the option names.
fn named(given: &str) -> Result<AnyTokenizer> {
    of_option(AnyTokenizer::open(given))
}

fn of_option<T>(opened: Result<T>) -> Result<T> {
    opened.map_err(|failure| failure.context("--tokenizer"))
}

/// Opens the tokenizer of the settings, or trains it on a text.
fn chosen(settings: &Settings, text: &[u8]) -> Result<AnyTokenizer> {
    let given = settings.tokenizer.given.as_deref().unwrap_or(BYTES);
    match AnyTokenizer::trained_size(given) {
        // Do not train the tokenizer on the held-out text, the last tenth.
        Some(size) => {
            of_option(size.and_then(|size| AnyTokenizer::train(&text[..text.len() - text.len() / 10], size)))
        }
        None => named(given),
    }
}
