//! Tokens in memory-mapped files.

use super::format::{self, Layout};
use crate::data::DataError;
use gradloom_runtime::files::{BEGINNING, FileKind};
use gradloom_runtime::regular_file;
use memmap2::Mmap;
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The concatenated tokens of several files, or a range of them.
///
/// No other process may truncate the files while they are in use. To replace a file, rename the new one over
/// it.
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
    /// Number of tokens in the preceding files.
    first: usize,
}

/// Number of samples of a file that its fingerprint covers.
const SAMPLES: usize = 64;
/// Size of a sample in bytes.
const SAMPLE: usize = 4096;

impl TokenShards {
    /// Opens the files, concatenated in the order of `paths`.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, contains no tokens, or has a size that does not match its
    /// header.
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
            // Reject an empty file, which cannot be mapped.
            if size == 0 {
                return Err(DataError::Empty { path });
            }
            // SAFETY: the mapping is read-only and any byte pattern is valid. If another process writes to
            // the file, the changed bytes become visible. If one truncates it, reading beyond the new end
            // kills this process, as with any mapped file; gradloom itself never truncates a file but
            // replaces it by renaming.
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

    /// Returns `true` if there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns the paths of the files, in the order of their tokens.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.shards.iter().map(|shard| shard.path.as_path())
    }

    /// Returns the total size of the files in bytes.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.bytes.len()).sum()
    }

    /// Appends the tokens `start..start + count` to `into`.
    ///
    /// # Errors
    /// Returns an error if a token in the range is not in the vocabulary.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
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

    /// Splits the tokens into the first `count` and the rest.
    ///
    /// # Panics
    /// Panics if there are fewer than `count` tokens.
    pub fn split_at(&self, count: usize) -> (Self, Self) {
        assert!(count <= self.len(), "tokens that there are");
        let place = self.range.start + count;
        let part = |range| Self { range, ..self.clone() };
        (part(self.range.start..place), part(place..self.range.end))
    }

    /// Returns the SHA-256, in hexadecimal, of the files' sizes and of samples of their contents. Hashing
    /// whole files larger than memory would take too long.
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
