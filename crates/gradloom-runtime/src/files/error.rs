//! Errors for files. Every message names the file; nearly every error has a remedy.

use super::FileKind;
use gradloom_core::error::{Error, ErrorKind};
use gradloom_device::regular_file::Refusal;
pub(super) use gradloom_device::regular_file::unwritable;
use std::fmt::{self, Display};
use std::io;

fn error(file: &str, message: impl Display) -> Error {
    Error::new(ErrorKind::File, format!("{file}: {message}"))
}

/// Creates the error for a file that the system could not read.
pub(super) fn unreadable(file: &str, source: &io::Error) -> Error {
    let remedy = match source.kind() {
        _ if let Some(refusal) = Refusal::of(source) => refusal.remedy(),
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::OutOfMemory => {
            "the file is larger than the memory that there is: use a smaller model, or raise the limit"
        }
        _ => "check the permissions and the disk",
    };
    error(file, format_args!("cannot be read: {source}")).help(remedy)
}

/// Creates the error for a file that ends too early, or whose size differs from the size in its header.
pub(super) fn truncated(file: &str, reason: impl Display) -> Error {
    error(file, format_args!("the file is truncated or damaged: {reason}")).help(RESTORE)
}

/// Creates the error for a file that is not a safetensors file, or whose header is damaged.
pub(super) fn malformed(file: &str, reason: impl Display) -> Error {
    error(file, format_args!("the file is no safetensors file, or its header is damaged: {reason}"))
        .help("check that this is the file you meant; if it is, restore it from a copy")
}

pub(super) fn of_another_kind(file: &str, kind: FileKind) -> Error {
    error(file, format_args!("the file is {kind}, and no safetensors file")).help(kind.remedy())
}

pub(super) fn empty(file: &str) -> Error {
    error(file, "the file is empty").help(RESTORE)
}

/// Creates the error for a file that was changed after it was written.
pub(super) fn changed(file: &str) -> Error {
    error(file, "the file is damaged: its contents do not match their checksum").help(RESTORE)
}

/// Creates the error for an intact safetensors file that gradloom did not write.
pub(super) fn foreign(file: &str, differences: &Differences) -> Error {
    error(file, format_args!("the file was not written by gradloom{}", differences.in_brackets()))
        .help("`Session::load_with` takes its tensors: it needs none of gradloom's notes")
}

/// Creates the error for an intact file whose tensors are not the wanted ones.
pub(super) fn of_another_model(file: &str, differences: &Differences) -> Error {
    error(file, format_args!("the file is of another model{}", differences.in_brackets()))
}

/// Creates the error for a required note that is missing or cannot be parsed.
pub(super) fn entry(file: &str, key: &str, problem: &str) -> Error {
    error(file, format_args!("the metadata entry {key} {problem}"))
        .help("use the configuration that the file was made with")
}

const RESTORE: &str = "get the file once more from where it came, or restore it from a copy";

/// Differences between the wanted tensors and those in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Names of wanted tensors that the file lacks.
    pub missing: Vec<String>,
    /// Names of tensors in the file that are not wanted.
    pub unknown: Vec<String>,
    /// Name, wanted type, and type in the file, of each tensor whose types differ.
    pub mismatched: Vec<(String, String, String)>,
}

impl Differences {
    /// Returns `true` if the file has exactly the wanted tensors.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unknown.is_empty() && self.mismatched.is_empty()
    }

    fn in_brackets(&self) -> String {
        if self.is_empty() { String::new() } else { format!(" ({self})") }
    }
}

impl Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mismatched: Vec<String> = self
            .mismatched
            .iter()
            .map(|(name, wanted, found)| format!("{name} is {found} and not {wanted}"))
            .collect();
        let parts = [("missing", &self.missing), ("unknown", &self.unknown), ("mis-shaped", &mismatched)];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {}", abridged(names)))
            .collect();
        f.write_str(&parts.join("; "))
    }
}

/// Returns the first names of a list, and the number of the remaining ones.
fn abridged(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
