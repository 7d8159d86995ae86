//! Errors of training data.

use gradloom_runtime::files::FileKind;
use gradloom_runtime::regular_file::Refusal;
use std::path::PathBuf;

/// Reason why there is nothing to train on.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The name matches no file, folder or pattern.
    #[error("{}: no such file or folder", .path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// A pattern that nothing matches.
    #[error("{pattern}: no file matches")]
    NoMatch {
        /// The pattern as given.
        pattern: String,
    },
    /// A pattern that is not well-formed.
    #[error("{pattern}: not a pattern: {reason}")]
    Pattern {
        /// The pattern as given.
        pattern: String,
        /// The problem and its position.
        reason: String,
    },
    /// The system would not let the file or folder be read.
    #[error("{}: cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A pipe or a device: it may never end, and cannot be read again when a run is resumed.
    #[error("{}: neither a file nor a folder", .path.display())]
    NoFile {
        /// The path as given.
        path: PathBuf,
    },
    /// A file without a byte.
    #[error("{}: the file is empty", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A file that is no text.
    #[error("{}: the file is not text ({evidence})", .path.display())]
    Binary {
        /// The file.
        path: PathBuf,
        /// The evidence that the file is not text.
        evidence: String,
    },
    /// Folders or patterns that lead to files, none of which is text.
    #[error("{}: no text in it ({files} files, all of them empty or not text)", .path.display())]
    NoText {
        /// The folder or pattern as given.
        path: PathBuf,
        /// Number of files that were found.
        files: usize,
    },
    /// Fewer tokens than one window for training and one held out need.
    #[error("the {part} has {tokens} tokens, but a context of {context} needs at least {needed}")]
    TooShort {
        /// The data, or its part for training or measuring.
        part: &'static str,
        /// Tokens that there are.
        tokens: usize,
        /// The model's context.
        context: usize,
        /// Tokens that there must be.
        needed: usize,
    },
    /// A file of tokens that is cut off, or of another kind.
    #[error("{}: {reason}", .path.display())]
    Shard {
        /// The file.
        path: PathBuf,
        /// The reason, for the message.
        reason: String,
    },
    /// A file of another kind, named as one of tokens.
    #[error("{}: the file is {kind}, and no file of tokens", .path.display())]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// Its kind.
        kind: FileKind,
    },
    /// A token of a file that the tokenizer does not have.
    #[error(
        "{}: the token at {position} is {token}, but the vocabulary has {vocabulary} tokens",
        .path.display()
    )]
    Token {
        /// The file.
        path: PathBuf,
        /// Tokens before it in the file.
        position: usize,
        /// The token.
        token: u32,
        /// Tokens of the vocabulary.
        vocabulary: usize,
    },
    /// Text and tokens in one list.
    #[error("{}: a file of tokens among files of text", .path.display())]
    Mixed {
        /// The first path of the other kind.
        path: PathBuf,
    },
}

impl DataError {
    /// Returns the remedy.
    pub fn remedy(&self) -> String {
        match self {
            DataError::Missing { .. } => "check the spelling".to_string(),
            DataError::NoMatch { .. } => {
                "check the pattern: ** crosses folders, * does not; quote it so that the shell leaves it \
                 alone"
                    .to_string()
            }
            DataError::Pattern { .. } => "* ? [a-z] and ** (a whole folder name) are understood".to_string(),
            DataError::Unreadable { source, .. } => {
                Refusal::of(source).map_or("check the permissions", Refusal::remedy).to_string()
            }
            DataError::NoFile { .. } => "write the text to a file first".to_string(),
            DataError::Empty { .. } => "give a file with text in it".to_string(),
            DataError::Binary { .. } => {
                "give plain text, UTF-8 or nearly so; convert or unpack the file first".to_string()
            }
            DataError::NoText { .. } => {
                "give a folder or pattern with text files in it; a .gitignore or .ignore may leave some out"
                    .to_string()
            }
            DataError::Shard { .. } | DataError::OtherKind { .. } => {
                "give files of tokens whole, as `gradloom prepare`, llm.c or nanoGPT write them".to_string()
            }
            DataError::Token { .. } => "give the tokenizer that made the file".to_string(),
            DataError::Mixed { .. } => "name either files of tokens (.bin) or text".to_string(),
            DataError::TooShort { part, tokens, .. } => {
                match (tokens / if *part == "data" { 2 } else { 1 }).checked_sub(1) {
                    Some(context) if context > 0 => {
                        format!("give more text, or take a context of {context} or less")
                    }
                    _ => "give more text".to_string(),
                }
            }
        }
    }
}
