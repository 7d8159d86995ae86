//! Reading tensors from a file.

use super::checksum::Checksum;
use super::error::Differences;
use super::{CheckpointError, Entries, Envelope, METADATA_KEY, safetensors_dtype};
use gradloom_core::ir::Type;
use gradloom_runtime::regular_file;
use safetensors::tensor::{Metadata, SafeTensorError, SafeTensors, TensorInfo};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A safetensors file in memory, found sound.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    file: Vec<u8>,
    /// Offset of the tensors' data in `file`.
    data: usize,
    tensors: BTreeMap<String, TensorInfo>,
    /// `None` for a file that gradloom did not write.
    entries: Option<Entries>,
}

impl Checkpoint {
    /// Reads a file and verifies its structure and, if gradloom wrote it, its checksum.
    ///
    /// # Errors
    /// When the file cannot be read, is no safetensors file, or is damaged.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let (file, header, metadata) = contents(path)?;
        let tensors = metadata.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
        let mut checkpoint =
            Self { path: path.to_path_buf(), data: 8 + header as usize, file, tensors, entries: None };
        checkpoint.entries = checkpoint.verified_entries(&metadata)?;
        Ok(checkpoint)
    }

    fn verified_entries(&self, metadata: &Metadata) -> Result<Option<Entries>, CheckpointError> {
        let Some(text) = metadata.metadata().as_ref().and_then(|map| map.get(METADATA_KEY)) else {
            return Ok(None);
        };
        let damaged = || CheckpointError::Checksum { path: self.path.clone() };
        let envelope: Envelope = serde_json::from_str(text).map_err(|_| damaged())?;
        let mut checksum = Checksum::new(&envelope.entries);
        // Files are written in the order of their data; see `write`.
        let mut tensors: Vec<_> = self.tensors.iter().collect();
        tensors.sort_by_key(|(name, info)| (info.data_offsets, *name));
        for (name, info) in tensors {
            checksum.tensor(name, info.dtype, &info.shape, self.bytes_of(info));
        }
        if checksum.finish() == envelope.sha256 { Ok(Some(envelope.entries)) } else { Err(damaged()) }
    }

    fn bytes_of(&self, info: &TensorInfo) -> &[u8] {
        &self.file[self.data + info.data_offsets.0..self.data + info.data_offsets.1]
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Elements of a tensor, little-endian, row-major.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.tensors.get(name).map(|info| self.bytes_of(info))
    }

    /// A metadata entry.
    ///
    /// # Errors
    /// When gradloom did not write the file, or the entry is not there.
    pub fn entry(&self, key: &str) -> Result<&str, CheckpointError> {
        let Some(entries) = &self.entries else {
            return Err(self.foreign(Differences::default()));
        };
        entries.get(key).map(String::as_str).ok_or_else(|| self.entry_error(key, "is missing"))
    }

    /// A metadata entry as a value.
    ///
    /// # Errors
    /// As [`entry`](Self::entry), and when the text does not parse.
    pub fn parsed_entry<T: std::str::FromStr>(&self, key: &str) -> Result<T, CheckpointError> {
        self.entry(key)?.parse().map_err(|_| self.entry_error(key, "is not of the right form"))
    }

    fn entry_error(&self, key: &str, problem: &str) -> CheckpointError {
        CheckpointError::Entry {
            path: self.path.clone(),
            reason: format!("the metadata entry {key} {problem}"),
        }
    }

    fn foreign(&self, differences: Differences) -> CheckpointError {
        CheckpointError::Foreign { path: self.path.clone(), differences }
    }

    /// The bytes of exactly these tensors, in their order.
    ///
    /// # Errors
    /// When gradloom did not write the file, or a tensor is missing, unknown, or of another type; the message
    /// tells which.
    pub fn exactly<'a>(
        &'a self,
        expected: impl IntoIterator<Item = (&'a str, &'a Type)>,
    ) -> Result<Vec<TensorOf<'a>>, CheckpointError> {
        let expected: Vec<_> = expected.into_iter().collect();
        let differences = self.differences(&expected);
        if self.entries.is_none() {
            return Err(self.foreign(differences));
        }
        if !differences.is_empty() {
            return Err(CheckpointError::OtherModel { path: self.path.clone(), differences });
        }
        Ok(expected.into_iter().map(|(name, ty)| (name, ty, self.bytes_of(&self.tensors[name]))).collect())
    }

    fn differences(&self, expected: &[(&str, &Type)]) -> Differences {
        let mut differences = Differences::default();
        for &(name, ty) in expected {
            match self.tensors.get(name) {
                None => differences.missing.push(name.to_string()),
                Some(info) if info.dtype != safetensors_dtype(ty.dtype) || info.shape[..] != ty.shape[..] => {
                    let found = format!("{}{:?}", info.dtype.to_string().to_lowercase(), info.shape);
                    differences.mismatched.push((name.to_string(), ty.to_string(), found));
                }
                Some(_) => {}
            }
        }
        let is_expected = |name: &&String| expected.iter().any(|(e, _)| e == name);
        differences.unknown = self.tensors.keys().filter(|name| !is_expected(name)).cloned().collect();
        differences
    }
}

/// A tensor's name, type and bytes.
type TensorOf<'a> = (&'a str, &'a Type, &'a [u8]);

/// The largest header that the safetensors format allows.
const LARGEST_HEADER: u64 = 100_000_000;

/// The bytes of a file, and its header. Of a file that has another size than its header says, however large,
/// the header alone is read.
fn contents(path: &Path) -> Result<(Vec<u8>, u64, Metadata), CheckpointError> {
    let unreadable = |source| CheckpointError::Read { path: path.to_path_buf(), source };
    let file = regular_file::open_to_read(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut bytes = Vec::new();
    (&file).take(8).read_to_end(&mut bytes).map_err(unreadable)?;
    let header = bytes.as_slice().try_into().map_or(u64::MAX, u64::from_le_bytes);
    if header <= LARGEST_HEADER {
        (&file).take(header).read_to_end(&mut bytes).map_err(unreadable)?;
    }
    // The format's own reader says what is wrong with a header; it would also add up sizes that overflow.
    let malformed = |bytes: &[u8]| {
        let error = SafeTensors::read_metadata(bytes).err();
        structural_error(path, size, &error.unwrap_or(SafeTensorError::InvalidHeaderLength))
    };
    if (bytes.len() as u64).checked_sub(8) != Some(header) {
        return Err(malformed(&bytes));
    }
    let Ok(metadata) = serde_json::from_slice::<Metadata>(&bytes[8..]) else {
        return Err(malformed(&bytes));
    };
    if (metadata.data_len() as u64).checked_add(8 + header) != Some(size) {
        return Err(structural_error(path, size, &SafeTensorError::MetadataIncompleteBuffer));
    }
    regular_file::read_rest(&file, &mut bytes, size).map_err(unreadable)?;
    if bytes.len() as u64 != size {
        // It was cut short meanwhile.
        return Err(structural_error(path, bytes.len() as u64, &SafeTensorError::MetadataIncompleteBuffer));
    }
    Ok((bytes, header, metadata))
}

fn structural_error(path: &Path, bytes: u64, error: &SafeTensorError) -> CheckpointError {
    let path = path.to_path_buf();
    match error {
        SafeTensorError::MetadataIncompleteBuffer => CheckpointError::Truncated {
            path,
            reason: format!("it has {bytes} bytes, which is not what its header says"),
        },
        SafeTensorError::HeaderTooSmall => {
            CheckpointError::Truncated { path, reason: format!("it has only {bytes} bytes") }
        }
        SafeTensorError::InvalidHeaderLength => {
            CheckpointError::Truncated { path, reason: "it ends within its header".to_string() }
        }
        other => CheckpointError::Malformed { path, reason: other.to_string() },
    }
}
