//! Errors of tokenizers.

use gradloom_runtime::regular_file::Refusal;
use std::path::PathBuf;

/// Reason why a tokenizer cannot be had, or text cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// There is nothing of this name.
    #[error("{}: no such file or folder", .path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// A folder without the files of a tokenizer.
    #[error("{}: no tokenizer in this folder", .path.display())]
    NoTokenizer {
        /// The folder.
        path: PathBuf,
    },
    /// The system would not let a file be read.
    #[error("{}: cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file that is damaged, or of another kind.
    #[error("{name}: {reason}")]
    Malformed {
        /// The file.
        name: String,
        /// The fault and its place.
        reason: String,
    },
    /// JSON of another kind.
    #[error("{name}: it has no `model`: it is no tokenizer.json")]
    OtherJson {
        /// The file.
        name: String,
    },
    /// A sound file of a kind that is not understood.
    #[error("{name}: {what} is not supported")]
    Unsupported {
        /// The file.
        name: String,
        /// The part of it.
        what: String,
    },
    /// Text that is not UTF-8, for a tokenizer that has no tokens for such bytes.
    #[error(
        "{name} has no token for the byte {byte:#04x} at offset {offset} of the text, which is not UTF-8"
    )]
    NoByte {
        /// The tokenizer.
        name: String,
        /// The byte.
        byte: u8,
        /// Bytes before it.
        offset: u64,
    },
    /// A text that a tokenizer refuses.
    #[error("{name} cannot encode the text: {reason}")]
    Encode {
        /// The tokenizer.
        name: String,
        /// Its reason.
        reason: String,
    },
    /// A text over which the crate that encodes it panics.
    #[error("{name} cannot encode the text: the crate `tokenizers` panics: {reason}")]
    Panicked {
        /// The tokenizer.
        name: String,
        /// The message of the panic.
        reason: String,
    },
    /// A text that is too long to be encoded as a whole.
    #[error("{name} cannot encode the text: {reason}")]
    Uncut {
        /// The tokenizer.
        name: String,
        /// Bytes of the limit.
        reason: String,
    },
    /// The tokenizer has no chat template.
    #[error("{name} has no chat template")]
    NoTemplate {
        /// The tokenizer.
        name: String,
    },
    /// A chat template that is malformed, or refuses the messages.
    #[error("the chat template of {name}: {reason}")]
    Template {
        /// The tokenizer.
        name: String,
        /// The problem, with its line.
        reason: String,
    },
    /// A vocabulary of a size that cannot be trained.
    #[error("a vocabulary of {asked} tokens is not from {least} to {most}")]
    Size {
        /// Tokens that were asked for.
        asked: usize,
        /// Fewest tokens: every byte and the end of a text.
        least: usize,
        /// Most tokens.
        most: usize,
    },
}

impl TokenizerError {
    /// Returns the remedy.
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

    /// Returns the error of a piece that begins so many bytes later.
    #[must_use]
    pub fn later_by(mut self, bytes: u64) -> Self {
        if let Self::NoByte { offset, .. } = &mut self {
            *offset += bytes;
        }
        self
    }
}
