//! Errors of GGUF files. Every message contains the file's name, and every error has a remedy.

use gradloom_core::error::{Error, ErrorKind};
use std::fmt::Display;

/// Returns the error for a file that is readable but invalid.
pub(super) fn error(file: &str, message: impl Display) -> Error {
    Error::new(ErrorKind::File, format!("{file}: {message}"))
}

/// Returns the error for a file that is truncated or damaged.
pub(super) fn damaged(file: &str, reason: impl Display) -> Error {
    error(file, format_args!("the file is truncated or damaged: {reason}"))
        .help("get the file once more, or restore it from a copy")
}

/// Returns the error for a valid file, or a tensor in it, that is not supported.
pub(super) fn unread(file: &str, message: impl Display) -> Error {
    error(file, message).help("use the model's safetensors files, or one of a kind that is read")
}
