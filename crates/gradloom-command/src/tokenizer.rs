//! The tokenizer of a command: named by a flag, or stored in a run or in a folder of tokens.
//!
//! In: the name that the user gave, or a run's settings. Out: [`AnyTokenizer`]. Invariant: a run keeps the
//! tokenizer that it started with.

use crate::failure::{Failure, Result};
use crate::output::tell;
use crate::place::{Place, look};
use crate::run::{MODEL, Saved, unusable};
use crate::train::settings::Settings;
use gradloom::runtime::files::FileKind;
use gradloom_models::data::{Bpe, Bytes, ShardPaths, Tokenizer, TokenizerError};
use gradloom_models::gguf::Gguf;
use gradloom_models::language_model::Sizes;
use std::path::Path;

/// Name of the tokenizer whose tokens are bytes.
pub(crate) const BYTES: &str = "bytes";
/// File of any other tokenizer, and its name in a run.
pub(crate) const FILE: &str = "tokenizer.json";
/// Prefix of the vocabulary size of a tokenizer that is to be trained.
const TRAINED: &str = "bpe:";

/// Returns `true` if a folder is a run whose tokens are bytes, which has no tokenizer file.
fn is_run_of_bytes(folder: &Path) -> bool {
    Saved::open(&folder.join(MODEL)).is_ok_and(|saved| saved.settings.tokenizer.name == BYTES)
}

/// A tokenizer of any kind.
#[derive(Debug)]
pub(crate) enum AnyTokenizer {
    Bytes(Bytes),
    Bpe(Box<Bpe>),
}

impl AnyTokenizer {
    /// Opens the tokenizer with a given name: `bytes`, a file, which may be a GGUF file, or a folder, which
    /// may be that of a run.
    pub(crate) fn open(given: &str) -> Result<Self> {
        const KINDS: &str = "give bytes, a tokenizer.json, a folder with one, or a GGUF file";
        if given == BYTES {
            return Ok(Self::Bytes(Bytes));
        }
        if given.starts_with(TRAINED) {
            return Err(Failure::usage(format!("{given}: a tokenizer is trained by `gradloom train` alone"))
                .help("name one that is there: bytes, a tokenizer.json, or a folder with one"));
        }
        let path = Path::new(given);
        match look(path, KINDS)? {
            Place::File(FileKind::Gguf) => {
                return Ok(Self::Bpe(Box::new(Gguf::open(given)?.tokenizer()?)));
            }
            // Let the reader report a file that is not valid JSON, with the location of the error.
            Place::File(FileKind::Json | FileKind::Text | FileKind::Other | FileKind::Empty)
                if path.extension().is_some_and(|end| end == "json") => {}
            Place::File(FileKind::Json) => {}
            Place::File(kind) => {
                return Err(
                    Failure::usage(format!("{given}: the file is {kind}, and no tokenizer")).help(KINDS)
                );
            }
            Place::Folder => {}
        }
        match Bpe::open(given) {
            Err(TokenizerError::NoTokenizer { .. }) if is_run_of_bytes(path) => Ok(Self::Bytes(Bytes)),
            opened => Ok(Self::Bpe(Box::new(opened?))),
        }
    }

    /// Returns the size in `bpe:SIZE`, or `None` if the name has no such prefix.
    pub(crate) fn trained_size(given: &str) -> Option<Result<usize>> {
        let size = given.strip_prefix(TRAINED)?;
        Some(size.parse().map_err(|_| {
            Failure::usage(format!("{given}: {size:?} is no number of tokens"))
                .help("give the size of the vocabulary: bpe:4096")
        }))
    }

    /// Trains a tokenizer on a text.
    pub(crate) fn train(text: &[u8], size: usize) -> Result<Self> {
        Ok(Self::Bpe(Box::new(Bpe::train(text, size, FILE)?)))
    }

    /// Opens the tokenizer of a run, from the run's folder.
    pub(crate) fn of_run(folder: &Path, settings: &Settings) -> Result<Self> {
        if settings.tokenizer.name == BYTES {
            return Ok(Self::Bytes(Bytes));
        }
        let path = folder.join(FILE);
        let put_back = "put the run's tokenizer.json back: the model knows no other tokens";
        let tokenizer = Bpe::open(&path).map_err(|error| match error {
            TokenizerError::Missing { .. } => {
                Failure::failed(format!("{}: the run's tokenizer is not there", path.display()))
                    .help(put_back)
            }
            error => error.into(),
        })?;
        if settings.tokenizer.sha256.as_deref() != Some(&tokenizer.fingerprint()) {
            return Err(Failure::failed(format!(
                "{}: this is not the tokenizer that the run began with",
                path.display()
            ))
            .help(put_back));
        }
        Ok(Self::Bpe(Box::new(tokenizer)))
    }

    /// Returns an error for files of tokens if the tokenizer stored next to them is another one.
    pub(crate) fn check_shards(&self, paths: &ShardPaths, what: &str) -> Result<()> {
        let beside = paths.folder().map(|folder| folder.join(FILE)).filter(|path| path.exists());
        let Some(beside) = beside else { return Ok(()) };
        let theirs = Bpe::open(&beside)?;
        if self.name_and_sha256().1.as_deref() == Some(&theirs.fingerprint()) {
            return Ok(());
        }
        let (own, theirs) = (self.get().name(), theirs.name());
        Err(Failure::usage(format!(
            "{what}: these tokens were made by {theirs}, and the model's are those of {own}"
        ))
        .help("make them anew by `gradloom prepare`, with the model's tokenizer"))
    }

    pub(crate) fn get(&self) -> &dyn Tokenizer {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Bpe(bpe) => &**bpe,
        }
    }

    /// Returns an error for tokens outside a model's vocabulary. A tokenizer may have more tokens than the
    /// model if the text contains none of them.
    pub(crate) fn check_tokens(&self, tokens: &[i32], vocabulary: usize) -> Result<()> {
        let Some(id) = tokens.iter().find(|id| **id as usize >= vocabulary) else { return Ok(()) };
        let name = self.get().name();
        Err(Failure::usage(format!("{name}: it makes the token {id}, and the model has {vocabulary}"))
            .help("put the tokenizer beside the model that belongs to it"))
    }

    /// Returns the tokens of a prompt that a model reads before it generates `count` tokens. A prompt that is
    /// too long for the context is cut to its end, after the token that begins texts; the cut leaves room for
    /// `count` tokens, but keeps at least half a context.
    pub(crate) fn prompt(&self, text: &str, sizes: Sizes, count: u64) -> Result<Vec<i32>> {
        let mut tokens = self.get().prompt(text.as_bytes())?;
        self.check_tokens(&tokens, sizes.vocabulary)?;
        let (all, context) = (tokens.len(), sizes.context);
        if all > context {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            // Count one token more than the context, because the model never reads the last generated token.
            let kept = (context + 1).saturating_sub(count).clamp(context.div_ceil(2), context);
            tell!(
                "note: the prompt has {all} tokens, and the model's context {context}: it reads the last \
                 {kept}"
            );
            let first = usize::from(self.get().beginning().is_some() && kept > 1);
            tokens.drain(first..first + all - kept);
        }
        Ok(tokens)
    }

    /// Returns the name and the fingerprint that a run records for the tokenizer.
    pub(crate) fn name_and_sha256(&self) -> (&'static str, Option<String>) {
        match self {
            Self::Bytes(_) => (BYTES, None),
            Self::Bpe(bpe) => (FILE, Some(bpe.fingerprint())),
        }
    }

    /// Writes the tokenizer's files, if any, into a folder.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        match self {
            Self::Bytes(_) => Ok(()),
            Self::Bpe(bpe) => bpe.save(folder).map_err(|error| unusable(&folder.join(FILE), &error)),
        }
    }
}
