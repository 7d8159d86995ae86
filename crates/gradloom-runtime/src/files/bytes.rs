//! The bytes of a file.
//!
//! In: a file, or bytes that are in memory. Out: a slice. Always holds: what was mapped is a regular file, of
//! the size that it had when it was opened.

use super::error::{truncated, unreadable};
use gradloom_core::error::Result;
use gradloom_device::regular_file;
use memmap2::Mmap;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;

/// The bytes of a file, mapped into memory, or of what stands for one.
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
    /// Maps a regular file. While it is in use, the file must not be cut off by another process.
    ///
    /// # Errors
    /// When the file cannot be read, or is no regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = regular_file::open_to_read(path).map_err(|source| unreadable(&name, &source))?;
        let size = file.metadata().map_err(|source| unreadable(&name, &source))?.len();
        Self::map(&file, size, &name)
    }

    /// Maps an open file of `size` bytes.
    ///
    /// # Errors
    /// When the system does not allow it, or the file has another size by now.
    pub(super) fn map(file: &File, size: u64, name: &str) -> Result<Self> {
        // No memory can be mapped of an empty file.
        if size == 0 {
            return Ok(Vec::new().into());
        }
        // SAFETY: the file is mapped for reading. What another process makes of it meanwhile, these bytes
        // show, and any bytes are valid; one that cuts the file off ends this process when it is read, as
        // with every mapped file: gradloom replaces files by renaming, and never does so.
        let bytes = unsafe { Mmap::map(file) }.map_err(|source| unreadable(name, &source))?;
        if bytes.len() as u64 != size {
            return Err(truncated(name, "it changes while it is read"));
        }
        Ok(Self(Held::Mapped(bytes)))
    }
}
