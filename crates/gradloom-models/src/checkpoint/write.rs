//! Writing tensors to a file.

use super::checksum::Checksum;
use super::{CheckpointError, Entries, Envelope, METADATA_KEY, replace_file, safetensors_dtype};
use gradloom_core::ir::Type;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// One tensor to write.
#[derive(Clone, Copy, Debug)]
pub struct TensorBytes<'a> {
    /// Name of the tensor, unique in the file.
    pub name: &'a str,
    /// Element type and shape.
    pub ty: &'a Type,
    /// Elements, little-endian, row-major.
    pub bytes: &'a [u8],
}

/// Writes tensors and entries to a file that replaces the old one at once; see [`super`].
///
/// # Errors
/// [`CheckpointError::Write`]; the old file is then untouched.
///
/// # Panics
/// When a tensor's bytes are not as many as its type has, or a name comes twice.
pub fn write(path: &Path, tensors: &[TensorBytes<'_>], entries: &Entries) -> Result<(), CheckpointError> {
    let mut tensors = tensors.to_vec();
    // The order of the safetensors crate: wide elements first, so that every tensor is aligned, then by name.
    tensors.sort_by(|a, b| (b.ty.dtype.bytes(), a.name).cmp(&(a.ty.dtype.bytes(), b.name)));
    assert!(tensors.windows(2).all(|pair| pair[0].name != pair[1].name), "a tensor's name comes twice");
    let mut checksum = Checksum::new(entries);
    let mut infos = Vec::with_capacity(tensors.len());
    let mut offset = 0;
    for tensor in &tensors {
        let end = offset + tensor.bytes.len();
        assert_eq!(tensor.bytes.len(), tensor.ty.bytes(), "bytes of {}", tensor.name);
        let dtype = safetensors_dtype(tensor.ty.dtype);
        checksum.tensor(tensor.name, dtype, &tensor.ty.shape, tensor.bytes);
        let info = TensorInfo { dtype, shape: tensor.ty.shape.to_vec(), data_offsets: (offset, end) };
        infos.push((tensor.name.to_string(), info));
        offset = end;
    }
    let write_error = |source| CheckpointError::Write { path: path.to_path_buf(), source };
    let envelope = Envelope { sha256: checksum.finish(), entries: entries.clone() };
    let header = header(&envelope, infos).map_err(|error| write_error(io::Error::other(error)))?;
    replace_file(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        tensors.iter().try_for_each(|tensor| file.write_all(tensor.bytes))
    })
    .map_err(write_error)
}

/// The JSON header, filled up with spaces so that the data begins at a multiple of 8 bytes.
fn header(envelope: &Envelope, infos: Vec<(String, TensorInfo)>) -> Result<String, String> {
    let envelope = serde_json::to_string(envelope).map_err(|error| error.to_string())?;
    let metadata = HashMap::from([(METADATA_KEY.to_string(), envelope)]);
    let metadata = Metadata::new(Some(metadata), infos).map_err(|error| error.to_string())?;
    let mut header = serde_json::to_string(&metadata).map_err(|error| error.to_string())?;
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    Ok(header)
}
