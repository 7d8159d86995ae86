//! Tokens in files that are mapped, not loaded.

use super::format::{self, Layout};
use crate::data::DataError;
use gradloom_runtime::files::{BEGINNING, FileKind};
use gradloom_runtime::regular_file;
use memmap2::Mmap;
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The tokens of files, one after the other, or a range of them.
///
/// While they are in use, the files must not be cut off by another process. To replace one, rename another to
/// its name.
#[derive(Clone, Debug)]
pub struct TokenShards {
    shards: Arc<[Shard]>,
    range: Range<usize>,
    vocabulary: usize,
}

#[derive(Debug)]
struct Shard {
    path: PathBuf,
    bytes: Mmap,
    layout: Layout,
    /// Tokens of the files before.
    first: usize,
}

/// Parts of a file that its fingerprint reads, and the bytes of each.
const SAMPLES: usize = 64;
const SAMPLE: usize = 4096;

impl TokenShards {
    /// Opens files, in this order.
    ///
    /// # Errors
    /// When a file cannot be read, has no tokens, or another size than its header says.
    pub fn open<P: AsRef<Path>>(paths: &[P], vocabulary: usize) -> Result<Self, DataError> {
        Self::open_paths(paths.iter().map(|path| path.as_ref().to_path_buf()).collect(), vocabulary)
    }

    fn open_paths(paths: Vec<PathBuf>, vocabulary: usize) -> Result<Self, DataError> {
        let mut first = 0;
        let mut shards = Vec::new();
        for path in paths {
            let unreadable = |source| DataError::Unreadable { path: path.clone(), source };
            let file = regular_file::open_to_read(&path).map_err(unreadable)?;
            let size = file.metadata().map_err(unreadable)?.len();
            // No memory can be mapped of an empty file.
            if size == 0 {
                return Err(DataError::Empty { path });
            }
            // SAFETY: the file is mapped for reading. What another process makes of it meanwhile, these bytes
            // show, and any bytes are valid; one that cuts the file off ends this process when it is read, as
            // with every mapped file: gradloom replaces files by renaming, and never does so.
            let bytes = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
            let kind = FileKind::of(&bytes[..bytes.len().min(BEGINNING as usize)]);
            if kind.is_certain() {
                return Err(DataError::OtherKind { path, kind });
            }
            let found = format::layout(&bytes, size).and_then(|layout| match bytes.len() as u64 == size {
                true => Ok(layout),
                false => Err("it changes while it is read".to_string()),
            });
            let layout = found.map_err(|reason| DataError::Shard { path: path.clone(), reason })?;
            shards.push(Shard { path, bytes, layout, first });
            first += layout.tokens;
        }
        Ok(Self { shards: shards.into(), range: 0..first, vocabulary })
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns the paths of the files, in the order of their tokens.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.shards.iter().map(|shard| shard.path.as_path())
    }

    /// Returns the number of bytes of all files.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.bytes.len()).sum()
    }

    /// Appends the tokens `start..start + count`.
    ///
    /// # Errors
    /// When one of them is not of the vocabulary.
    ///
    /// # Panics
    /// When there are fewer tokens.
    pub fn read(&self, start: usize, count: usize, into: &mut Vec<i32>) -> Result<(), DataError> {
        assert!(count <= self.len() && start <= self.len() - count, "tokens that there are");
        let (mut next, end) = (self.range.start + start, self.range.start + start + count);
        let mut at = self.shards.partition_point(|shard| shard.first <= next).saturating_sub(1);
        while next < end {
            let shard = &self.shards[at];
            let from = next - shard.first;
            let to = (end - shard.first).min(shard.layout.tokens);
            shard.read(from..to, self.vocabulary, into)?;
            next += to - from;
            at += 1;
        }
        Ok(())
    }

    /// Returns the first `count` tokens and the others.
    ///
    /// # Panics
    /// When there are fewer tokens.
    pub fn split_at(&self, count: usize) -> (Self, Self) {
        assert!(count <= self.len(), "tokens that there are");
        let place = self.range.start + count;
        let part = |range| Self { range, ..self.clone() };
        (part(self.range.start..place), part(place..self.range.end))
    }

    /// Returns the SHA-256, in hexadecimal, of the files' sizes and of samples of their bytes: reading
    /// files that are larger than memory as a whole would take long.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for shard in self.shards.iter() {
            let bytes = &shard.bytes;
            hash.update((bytes.len() as u64).to_le_bytes());
            let last = bytes.len().saturating_sub(SAMPLE);
            for sample in 0..SAMPLES {
                let start = (last as u128 * sample as u128 / (SAMPLES - 1) as u128) as usize;
                hash.update(&bytes[start..(start + SAMPLE).min(bytes.len())]);
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Shard {
    fn read(&self, range: Range<usize>, vocabulary: usize, into: &mut Vec<i32>) -> Result<(), DataError> {
        let Layout { start, width, .. } = self.layout;
        let bytes = &self.bytes[start + range.start * width..start + range.end * width];
        let tokens = bytes.chunks_exact(width).map(|token| match *token {
            [a, b] => u32::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            _ => unreachable!("tokens of two or four bytes"),
        });
        for (position, token) in range.zip(tokens) {
            if token as usize >= vocabulary {
                return Err(DataError::Token { path: self.path.clone(), position, token, vocabulary });
            }
            into.push(token as i32);
        }
        Ok(())
    }
}
