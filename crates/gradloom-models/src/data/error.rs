//! Errors of loading training data.

use gradloom_runtime::files::FileKind;
use gradloom_runtime::regular_file::Refusal;
use std::path::PathBuf;

/// An error that occurs when training data is loaded.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// No file or folder exists at the path.
    #[error("{}: no such file or folder", .path.display())]
    Missing {
        /// Path as given.
        path: PathBuf,
    },
    /// No file matches the pattern.
    #[error("{pattern}: no file matches")]
    NoMatch {
        /// Pattern as given.
        pattern: String,
    },
    /// The pattern is malformed.
    #[error("{pattern}: not a pattern: {reason}")]
    Pattern {
        /// Pattern as given.
        pattern: String,
        /// Description of the problem, with its position.
        reason: String,
    },
    /// The operating system reported an error when the file or folder was read.
    #[error("{}: cannot be read: {source}", .path.display())]
    Unreadable {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error reported by the operating system.
        source: std::io::Error,
    },
    /// The path leads to a pipe, socket or device, which may be endless and cannot be read again when a run
    /// is resumed.
    #[error("{}: neither a file nor a folder", .path.display())]
    NoFile {
        /// Path as given.
        path: PathBuf,
    },
    /// The file is empty.
    #[error("{}: the file is empty", .path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is not text.
    #[error("{}: the file is not text ({evidence})", .path.display())]
    Binary {
        /// Path of the file.
        path: PathBuf,
        /// Evidence that the file is not text.
        evidence: String,
    },
    /// The folder or pattern contains files, but none of them is text.
    #[error("{}: no text in it ({files} files, all of them empty or not text)", .path.display())]
    NoText {
        /// Folder or pattern as given.
        path: PathBuf,
        /// Number of files found.
        files: usize,
    },
    /// The data has too few tokens for a training window and a held-out window, or one of these parts has too
    /// few for its window.
    #[error("the {part} has {tokens} tokens, but a context of {context} needs at least {needed}")]
    TooShort {
        /// Name of the part that is too short: the whole data, or one part of the split.
        part: &'static str,
        /// Number of tokens present.
        tokens: usize,
        /// Context length of the model.
        context: usize,
        /// Number of tokens needed.
        needed: usize,
    },
    /// The token file is truncated or has another format.
    #[error("{}: {reason}", .path.display())]
    Shard {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// The file named as a token file is of another kind.
    #[error("{}: the file is {kind}, and no file of tokens", .path.display())]
    OtherKind {
        /// Path of the file.
        path: PathBuf,
        /// Kind of the file.
        kind: FileKind,
    },
    /// The file contains a token that is not in the vocabulary.
    #[error(
        "{}: the token at {position} is {token}, but the vocabulary has {vocabulary} tokens",
        .path.display()
    )]
    Token {
        /// Path of the file.
        path: PathBuf,
        /// Position of the token in the file.
        position: usize,
        /// Id of the token.
        token: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// The list of paths mixes text files and token files.
    #[error("{}: a file of tokens among files of text", .path.display())]
    Mixed {
        /// First path of the other kind.
        path: PathBuf,
    },
}

impl DataError {
    /// Returns a suggestion for fixing the error.
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
