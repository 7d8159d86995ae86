//! Contents of a file.
//!
//! In: a file, or bytes in memory. Out: a slice. Invariant: a mapped file is a regular file, of the size
//! that it had when it was opened.

use super::error::{truncated, unreadable};
use gradloom_core::error::Result;
use gradloom_device::regular_file;
use memmap2::Mmap;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;

/// Contents of a file: either mapped into memory, or owned bytes.
#[derive(Debug)]
pub struct Bytes(Held);

#[derive(Debug)]
enum Held {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Mapped(bytes) => bytes,
            Held::Owned(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Held::Owned(bytes))
    }
}

impl Bytes {
    /// Maps a regular file. No other process may truncate the file while it is mapped.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or is not a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = regular_file::open_to_read(path).map_err(|source| unreadable(&name, &source))?;
        let size = file.metadata().map_err(|source| unreadable(&name, &source))?.len();
        Self::map(&file, size, &name)
    }

    /// Maps an open file of `size` bytes.
    ///
    /// # Errors
    /// Returns an error if the system refuses the mapping, or if the size of the file has changed.
    pub(super) fn map(file: &File, size: u64, name: &str) -> Result<Self> {
        // Return no bytes for an empty file, which cannot be mapped.
        if size == 0 {
            return Ok(Vec::new().into());
        }
        // SAFETY: the file is mapped for reading only, and any bytes are valid; changes by another process
        // become visible in them. A process that truncates the file makes a later read of these bytes end
        // this process, as with every mapped file. gradloom itself replaces files by renaming, and never
        // truncates them.
        let bytes = unsafe { Mmap::map(file) }.map_err(|source| unreadable(name, &source))?;
        if bytes.len() as u64 != size {
            return Err(truncated(name, "it changes while it is read"));
        }
        Ok(Self(Held::Mapped(bytes)))
    }
}
