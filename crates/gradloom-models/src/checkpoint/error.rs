//! Errors of checkpoint files.

use gradloom_runtime::regular_file::Refusal;
use std::io;
use std::path::PathBuf;

/// Why a checkpoint was not read or not written. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The system would not let the file be read.
    #[error("{}: cannot be read: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The system would not let the file be written; what was there before is untouched.
    #[error("{}: cannot be written: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file ends too early or has another size than its header says.
    #[error("{}: the file is truncated or damaged: {reason}", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The inconsistency.
        reason: String,
    },
    /// The file is no safetensors file, or one whose header is damaged.
    #[error("{}: the file is no safetensors file, or its header is damaged: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The problem of the header.
        reason: String,
    },
    /// The contents are not those that were written.
    #[error("{}: the file is damaged: its contents do not match their checksum", .path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// A sound safetensors file that gradloom did not write.
    #[error("{}: the file was not written by gradloom{}", .path.display(), .differences.prefixed())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The differences between its tensors and the expected ones, as far as they are known.
        differences: Differences,
    },
    /// A file of ours with other tensors than the model's.
    #[error("{}: the file is of another model{}", .path.display(), .differences.prefixed())]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// The differences between its tensors and the model's.
        differences: Differences,
    },
    /// Metadata that should be there is missing or cannot be understood.
    #[error("{}: {reason}", .path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The entry and what is wrong.
        reason: String,
    },
}

impl CheckpointError {
    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            CheckpointError::Read { source, .. } | CheckpointError::Write { source, .. }
                if let Some(refusal) = Refusal::of(source) =>
            {
                refusal.remedy()
            }
            CheckpointError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "check the path: a run's folder has model.safetensors and state.safetensors once training \
                 began"
            }
            CheckpointError::Read { source, .. } if source.kind() == io::ErrorKind::OutOfMemory => {
                "the file is larger than the memory that there is: use a smaller model, or raise the limit"
            }
            CheckpointError::Read { .. } => "check the permissions and the disk",
            CheckpointError::Write { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                    "free some space or raise the limit"
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "choose a folder that you may write to"
                }
                _ => "check the folder and the disk",
            },
            CheckpointError::Truncated { .. } | CheckpointError::Checksum { .. } => {
                "restore the file from a copy, or train again"
            }
            CheckpointError::Malformed { .. } => {
                "check that this is the file you meant; if it is, restore it from a copy"
            }
            CheckpointError::Foreign { .. } => "use the folder of a run of `gradloom train`",
            CheckpointError::OtherModel { .. } | CheckpointError::Entry { .. } => {
                "use the configuration that the file was made with"
            }
        }
    }
}

/// Tensors that are expected and not there, there and not expected, or of another type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Expected names that the file lacks.
    pub missing: Vec<String>,
    /// Names in the file that were not expected.
    pub unknown: Vec<String>,
    /// Name, expected type, type in the file.
    pub mismatched: Vec<(String, String, String)>,
}

impl Differences {
    /// Whether the tensors are the expected ones.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unknown.is_empty() && self.mismatched.is_empty()
    }

    fn prefixed(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let mismatched: Vec<String> = self
            .mismatched
            .iter()
            .map(|(name, expected, found)| format!("{name} is {found} and not {expected}"))
            .collect();
        let parts = [("missing", &self.missing), ("unknown", &self.unknown), ("mis-shaped", &mismatched)];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {}", abridged(names)))
            .collect();
        format!(" ({})", parts.join("; "))
    }
}

/// The first names of a list and how many there are more.
fn abridged(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl std::fmt::Display for Differences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.prefixed().trim_start())
    }
}
