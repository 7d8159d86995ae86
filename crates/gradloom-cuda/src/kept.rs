//! Files in the user's cache with results compiled or measured for a GPU.
//!
//! Invariant: a file that is damaged or was made from another key is ignored; a problem with the cache is
//! never an error.

use gradloom_device::regular_file;
use gradloom_device::user_cache::{self, hash};
use std::path::PathBuf;

/// Start of a file: the format, with its version as the last byte.
const MAGIC: [u8; 8] = *b"gradlcu\x01";
/// Maximum size in bytes of a file that is read; all kernels are smaller.
const LARGEST: u64 = 64 << 20;

/// A cache in a folder; without a folder, nothing is cached.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) folder: Option<PathBuf>,
}

impl Kept {
    fn file(&self, kind: &str, key: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{:016x}.{kind}", hash(key.as_bytes()))))
    }

    /// Returns the cached content of this kind that was made from `key`, if there is one.
    pub(super) fn read(&self, kind: &str, key: &str) -> Option<Vec<u8>> {
        let bytes = regular_file::read(&self.file(kind, key)?, LARGEST).ok()?;
        let content = bytes.strip_prefix(&MAGIC)?;
        let (sum, content) = content.split_first_chunk::<8>()?;
        if hash(content) != u64::from_le_bytes(*sum) {
            return None;
        }
        let (length, content) = content.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (made_from, made) = content.split_at_checked(length)?;
        (made_from == key.as_bytes() && !made.is_empty()).then(|| made.to_vec())
    }

    /// Writes the key and the content with a checksum of both. Errors are ignored; the content is then made
    /// again in the next process.
    pub(super) fn write(&self, kind: &str, key: &str, made: &[u8]) {
        let Some(file) = self.file(kind, key) else { return };
        let content = [&(key.len() as u64).to_le_bytes(), key.as_bytes(), made].concat();
        let _ = user_cache::write(&file, &[&MAGIC[..], &hash(&content).to_le_bytes(), &content].concat());
    }
}
