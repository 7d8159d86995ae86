//! Errors of tokenizers.

use gradloom_runtime::regular_file::Refusal;
use std::path::PathBuf;

/// An error that occurs when a tokenizer is loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// No file or folder exists at the path.
    #[error("{}: no such file or folder", .path.display())]
    Missing {
        /// Path as given.
        path: PathBuf,
    },
    /// The folder contains no tokenizer.
    #[error("{}: no tokenizer in this folder", .path.display())]
    NoTokenizer {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The operating system reported an error when a file was read.
    #[error("{}: cannot be read: {source}", .path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error reported by the operating system.
        source: std::io::Error,
    },
    /// The file is malformed or of another kind.
    #[error("{name}: {reason}")]
    Malformed {
        /// Name of the file.
        name: String,
        /// Description of the problem, with its position.
        reason: String,
    },
    /// The file is JSON but not a tokenizer.json.
    #[error("{name}: it has no `model`: it is no tokenizer.json")]
    OtherJson {
        /// Name of the file.
        name: String,
    },
    /// The file is valid but uses an unsupported feature.
    #[error("{name}: {what} is not supported")]
    Unsupported {
        /// Name of the file.
        name: String,
        /// Name of the unsupported feature.
        what: String,
    },
    /// The text is not valid UTF-8 and the tokenizer has no token for the invalid byte.
    #[error(
        "{name} has no token for the byte {byte:#04x} at offset {offset} of the text, which is not UTF-8"
    )]
    NoByte {
        /// Name of the tokenizer.
        name: String,
        /// Invalid byte.
        byte: u8,
        /// Offset of the byte in the text.
        offset: u64,
    },
    /// The tokenizer cannot encode the text.
    #[error("{name} cannot encode the text: {reason}")]
    Encode {
        /// Name of the tokenizer.
        name: String,
        /// Reason reported by the tokenizer.
        reason: String,
    },
    /// The `tokenizers` crate panicked while encoding the text.
    #[error("{name} cannot encode the text: the crate `tokenizers` panics: {reason}")]
    Panicked {
        /// Name of the tokenizer.
        name: String,
        /// Message of the panic.
        reason: String,
    },
    /// The text cannot be cut and is too long to be encoded whole.
    #[error("{name} cannot encode the text: {reason}")]
    Uncut {
        /// Name of the tokenizer.
        name: String,
        /// Description of the problem, including the limit.
        reason: String,
    },
    /// The tokenizer has no chat template.
    #[error("{name} has no chat template")]
    NoTemplate {
        /// Name of the tokenizer.
        name: String,
    },
    /// The chat template is malformed or rejects the messages.
    #[error("the chat template of {name}: {reason}")]
    Template {
        /// Name of the tokenizer.
        name: String,
        /// Description of the problem, with its line.
        reason: String,
    },
    /// A tokenizer with this vocabulary size cannot be trained.
    #[error("a vocabulary of {asked} tokens is not from {least} to {most}")]
    Size {
        /// Requested vocabulary size.
        asked: usize,
        /// Minimum size: one token for each byte and one for the end of a text.
        least: usize,
        /// Maximum size.
        most: usize,
    },
}

impl TokenizerError {
    /// Returns a suggestion for fixing the error.
    pub fn remedy(&self) -> String {
        match self {
            Self::Missing { .. } => "check the spelling",
            Self::NoTokenizer { .. } => {
                "give a folder with tokenizer.json, or with vocab.json and merges.txt"
            }
            Self::Unreadable { source, .. } => {
                Refusal::of(source).map_or("check the permissions", Refusal::remedy)
            }
            Self::Malformed { .. } | Self::OtherJson { .. } => {
                "give the tokenizer.json that belongs to the model, whole"
            }
            Self::Unsupported { .. } => {
                "give a byte-pair encoding over bytes (as GPT-2, Llama 3, Qwen) or with byte fallback (as \
                 Llama 2, Gemma)"
            }
            Self::NoByte { .. } => "convert the text to UTF-8",
            Self::Encode { .. } => "give a tokenizer that has a token for every byte",
            Self::Panicked { .. } => {
                "leave out the normalizer, or `lstrip`, `rstrip`, `single_word` and `normalized` of added tokens"
            }
            Self::Uncut { .. } => "give the text in parts, or a tokenizer that splits it into words",
            Self::NoTemplate { .. } => {
                "take the tokenizer's folder, whose tokenizer_config.json or chat_template.jinja has it"
            }
            Self::Template { .. } => "give messages of the roles and in the order that the template is for",
            Self::Size { .. } => "take a number in between, such as 4096",
        }
        .to_string()
    }

    /// Returns the error with its offset increased by `bytes`, for a piece that starts at that offset in the
    /// text.
    #[must_use]
    pub fn later_by(mut self, bytes: u64) -> Self {
        if let Self::NoByte { offset, .. } = &mut self {
            *offset += bytes;
        }
        self
    }
}
