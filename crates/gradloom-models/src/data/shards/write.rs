//! Writing of tokens to files of limited size.

use super::ShardFormat;
use super::format::header;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A writer of the tokens of one part of the data, `train` or `val`, to a folder.
///
/// The files are llm.c's `tokens_train_000001.bin` and so on, or nanoGPT's `train.bin`. They are incomplete
/// until [`ShardWriter::finish`] returns, so write them to a temporary folder and rename it afterwards.
#[derive(Debug)]
pub struct ShardWriter {
    folder: PathBuf,
    part: &'static str,
    format: ShardFormat,
    width: usize,
    /// Maximum number of tokens in a file.
    most: usize,
    open: Option<BufWriter<File>>,
    /// Number of tokens written to the open file.
    held: usize,
    files: usize,
    tokens: usize,
}

/// Largest number of tokens that llm.c's header can represent.
const MOST: usize = i32::MAX as usize;

impl ShardWriter {
    /// Creates a writer of tokens below `vocabulary` that starts a new file after `shard_tokens` tokens.
    /// nanoGPT's format always has a single file.
    ///
    /// # Errors
    /// Returns an error if the vocabulary does not fit in nanoGPT's 16-bit tokens.
    pub fn new(
        folder: &Path,
        part: &'static str,
        format: ShardFormat,
        vocabulary: usize,
        shard_tokens: usize,
    ) -> io::Result<Self> {
        let width = if vocabulary <= 1 << 16 { 2 } else { 4 };
        if format == ShardFormat::NanoGpt && width == 4 {
            let reason = format!("nanoGPT's tokens of 16 bits cannot hold a vocabulary of {vocabulary}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let most = if format == ShardFormat::NanoGpt { usize::MAX } else { shard_tokens.clamp(1, MOST) };
        let folder = folder.to_path_buf();
        Ok(Self { folder, part, format, width, most, open: None, held: 0, files: 0, tokens: 0 })
    }

    /// Appends tokens.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn push(&mut self, tokens: &[i32]) -> io::Result<()> {
        let mut rest = tokens;
        while !rest.is_empty() {
            if self.held == self.most {
                self.close()?;
            }
            if self.open.is_none() {
                self.begin()?;
            }
            let (now, later) = rest.split_at(rest.len().min(self.most - self.held));
            let file = self.open.as_mut().expect("a file was begun");
            for &token in now {
                // Write the token's low bytes, which suffice because ids are below the vocabulary size.
                file.write_all(&token.to_le_bytes()[..self.width])?;
            }
            self.held += now.len();
            self.tokens += now.len();
            rest = later;
        }
        Ok(())
    }

    /// Completes the last file and returns the number of files and of tokens.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn finish(mut self) -> io::Result<(usize, usize)> {
        self.close()?;
        Ok((self.files, self.tokens))
    }

    fn begin(&mut self) -> io::Result<()> {
        let name = match self.format {
            ShardFormat::NanoGpt => format!("{}.bin", self.part),
            // llm.c numbers validation files from 0 and training files from 1.
            ShardFormat::LlmC => {
                let number = self.files + usize::from(self.part == "train");
                format!("tokens_{}_{number:06}.bin", self.part)
            }
        };
        let mut file = BufWriter::with_capacity(1 << 20, File::create(self.folder.join(name))?);
        if self.format == ShardFormat::LlmC {
            file.write_all(&header(self.width, 0))?;
        }
        self.open = Some(file);
        self.files += 1;
        self.held = 0;
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        let Some(file) = self.open.take() else { return Ok(()) };
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if self.format == ShardFormat::LlmC {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header(self.width, self.held as i32))?;
        }
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{DataError, TokenShards};
    use std::fs;

    fn written(format: ShardFormat, vocabulary: usize, most: usize, tokens: &[i32]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = ShardWriter::new(folder.path(), "train", format, vocabulary, most).unwrap();
        tokens.chunks(3).for_each(|some| writer.push(some).unwrap());
        let files = writer.finish().unwrap();
        assert_eq!(files, (fs::read_dir(folder.path()).unwrap().count(), tokens.len()));
        folder
    }

    fn paths(folder: &tempfile::TempDir) -> Vec<PathBuf> {
        let mut paths: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    #[test]
    fn what_is_written_is_read_across_files() {
        let tokens: Vec<i32> = (0..100).map(|i| i * 37 % 500).collect();
        for (format, vocabulary, most, files) in [
            (ShardFormat::LlmC, 500, 7, 15),
            (ShardFormat::LlmC, 100_000, 50, 2),
            (ShardFormat::LlmC, 1 << 16, 1000, 1),
            (ShardFormat::NanoGpt, 500, 7, 1),
        ] {
            let folder = written(format, vocabulary, most, &tokens);
            let paths = paths(&folder);
            assert_eq!(paths.len(), files);
            let shards = TokenShards::open(&paths, vocabulary).unwrap();
            assert_eq!(shards.len(), 100);
            for start in 0..100 {
                for count in [0, 1, 8, 100 - start] {
                    let mut read = Vec::new();
                    let count = count.min(100 - start);
                    shards.read(start, count, &mut read).unwrap();
                    assert_eq!(read, tokens[start..start + count]);
                }
            }
            let (first, rest) = shards.split_at(33);
            let mut read = Vec::new();
            rest.split_at(40).1.read(0, 27, &mut read).unwrap();
            first.read(0, 33, &mut read).unwrap();
            assert_eq!(read, [&tokens[73..], &tokens[..33]].concat());
        }
        assert_eq!(written(ShardFormat::LlmC, 500, 7, &[]).path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn the_bytes_are_those_of_the_formats() {
        let folder = written(ShardFormat::LlmC, 50_257, 10, &[1, 50_256]);
        let bytes = fs::read(folder.path().join("tokens_train_000001.bin")).unwrap();
        assert_eq!(bytes.len(), 1024 + 4);
        assert_eq!(bytes[..12], [0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 2, 0, 0, 0]);
        assert!(bytes[12..1024].iter().all(|byte| *byte == 0));
        assert_eq!(bytes[1024..], [1, 0, 0x50, 0xc4]);
        let folder = written(ShardFormat::LlmC, 128_256, 10, &[128_255]);
        let bytes = fs::read(folder.path().join("tokens_train_000001.bin")).unwrap();
        assert_eq!(bytes[..12], [0xa1, 0xd9, 0x34, 0x01, 7, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[1024..], [0xff, 0xf4, 0x01, 0x00]);
        let folder = written(ShardFormat::NanoGpt, 50_257, 1, &[1, 50_256]);
        assert_eq!(fs::read(folder.path().join("train.bin")).unwrap(), [1, 0, 0x50, 0xc4]);
        let error = ShardWriter::new(folder.path(), "val", ShardFormat::NanoGpt, 65_537, 1).unwrap_err();
        assert!(error.to_string().ends_with("16 bits cannot hold a vocabulary of 65537"), "{error}");
    }

    #[test]
    fn damaged_files_and_foreign_tokens_are_named() {
        let folder = written(ShardFormat::LlmC, 500, 10, &(0..20).collect::<Vec<_>>());
        let paths = paths(&folder);
        let small = TokenShards::open(&paths, 15).unwrap();
        small.read(0, 15, &mut Vec::new()).unwrap();
        let error = small.read(8, 9, &mut Vec::new()).unwrap_err();
        assert!(matches!(&error, DataError::Token { path, position: 5, token: 15, vocabulary: 15 }
                if *path == paths[1]));
        assert!(
            error.to_string().contains("the token at 5 is 15, but the vocabulary has 15 tokens"),
            "{error}"
        );
        let whole = fs::read(&paths[1]).unwrap();
        for length in [1, 3, 1000, whole.len() - 1, whole.len() - 2] {
            fs::write(&paths[1], &whole[..length]).unwrap();
            let error = TokenShards::open(&paths, 500).unwrap_err();
            assert!(matches!(&error, DataError::Shard { path, .. } if *path == paths[1]), "{error}");
        }
        fs::write(&paths[1], "").unwrap();
        assert!(matches!(TokenShards::open(&paths, 500), Err(DataError::Empty { .. })));
        fs::remove_file(&paths[1]).unwrap();
        assert!(matches!(TokenShards::open(&paths, 500), Err(DataError::Unreadable { .. })));
    }

    #[test]
    fn a_fingerprint_is_of_sizes_and_samples() {
        let tokens: Vec<i32> = (0..3000).map(|i| i % 400).collect();
        let of = |tokens: &[i32]| {
            let folder = written(ShardFormat::LlmC, 500, 1000, tokens);
            TokenShards::open(&paths(&folder), 500).unwrap().fingerprint()
        };
        assert_eq!(of(&tokens), of(&tokens));
        assert_ne!(of(&tokens), of(&tokens[1..]));
        let mut other = tokens.clone();
        other[1500] += 1;
        assert_ne!(of(&tokens), of(&other));
    }
}
