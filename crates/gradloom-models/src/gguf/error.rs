//! Errors of GGUF files. Every message names the file; every error has a remedy.

use gradloom_core::error::{Error, ErrorKind};
use std::fmt::Display;

/// Something is wrong with a file that can be read.
pub(super) fn error(file: &str, message: impl Display) -> Error {
    Error::new(ErrorKind::File, format!("{file}: {message}"))
}

/// The header does not fit the file.
pub(super) fn damaged(file: &str, reason: impl Display) -> Error {
    error(file, format_args!("the file is truncated or damaged: {reason}"))
        .help("get the file once more, or restore it from a copy")
}

/// A sound file, or tensor of one, that is not read.
pub(super) fn unread(file: &str, message: impl Display) -> Error {
    error(file, message).help("use the model's safetensors files, or one of a kind that is read")
}
