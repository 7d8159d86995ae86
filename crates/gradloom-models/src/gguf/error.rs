//! Errors of GGUF files. Every message names the file; every error has a remedy.

use gradloom_core::error::{Error, ErrorKind};
use std::fmt::Display;

/// Returns the error of a file that can be read but is wrong.
pub(super) fn error(file: &str, message: impl Display) -> Error {
    Error::new(ErrorKind::File, format!("{file}: {message}"))
}

/// Returns the error of a file that is truncated or damaged.
pub(super) fn damaged(file: &str, reason: impl Display) -> Error {
    error(file, format_args!("the file is truncated or damaged: {reason}"))
        .help("get the file once more, or restore it from a copy")
}

/// Returns the error of a sound file, or tensor of one, that is not supported.
pub(super) fn unread(file: &str, message: impl Display) -> Error {
    error(file, message).help("use the model's safetensors files, or one of a kind that is read")
}
