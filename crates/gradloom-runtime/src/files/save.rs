//! Writes tensors to a file.

use super::checksum::Checksum;
use super::convert::transposed;
use super::error::unwritable;
use super::{Entries, METADATA_KEY, replace_file, safetensors_dtype};
use crate::Session;
use crate::train::Base;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::Type;
use gradloom_core::nn::Module;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

impl<M: Module> Session<M> {
    /// Writes the parameters and states of the model to a safetensors file, replacing an existing file
    /// atomically. The file does not contain the state of a training run: see
    /// [`Train::save_checkpoint`](crate::Train::save_checkpoint).
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, in which case the old file is unchanged, or on the
    /// null device.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.base().save(path.as_ref(), false)
    }

    /// Like [`Session::save`], but writes the weights of linear and recurrent layers in PyTorch's layout,
    /// `[out, in]`, and names those of recurrent layers as a one-layer `nn.LSTM` or `nn.GRU` does:
    /// `weight_ih_l0`.
    ///
    /// # Errors
    /// Returns the same errors as [`Session::save`].
    pub fn save_for_torch(&self, path: impl AsRef<Path>) -> Result<()> {
        self.base().save(path.as_ref(), true)
    }
}

impl Base {
    fn save(&self, path: &Path, torch: bool) -> Result<()> {
        let model: BTreeMap<String, bool> =
            self.model_entries()?.into_iter().map(|entry| (entry.name, entry.transposed_in_torch)).collect();
        let mut tensors = Vec::new();
        for (entry, bytes) in self.store.read_where(|entry| model.contains_key(&entry.name))? {
            let name = if torch { name_in_torch(entry.name.clone()) } else { entry.name.clone() };
            tensors.push(match torch && model[&entry.name] {
                true => (name, swapped(&entry.ty), transposed(&bytes, &entry.ty)),
                false => (name, entry.ty, bytes),
            });
        }
        let tensors: Vec<_> =
            tensors.iter().map(|(name, ty, bytes)| TensorBytes { name, ty, bytes }).collect();
        let layout = if torch { OF_TORCH } else { OURS };
        write(path, &tensors, &[(LAYOUT.to_string(), layout.to_string())].into())
    }
}

/// Name of the entry with the layout of the weights of linear and recurrent layers.
pub(super) const LAYOUT: &str = "gradloom.layout";
/// Value of [`LAYOUT`] in gradloom's layout.
pub(super) const OURS: &str = "in, out";
/// Value of [`LAYOUT`] in PyTorch's layout.
pub(super) const OF_TORCH: &str = "out, in";

/// Returns PyTorch's name of a parameter: recurrent layers append the number of the layer.
fn name_in_torch(name: String) -> String {
    match name.rsplit('.').next() {
        Some("weight_ih" | "weight_hh" | "bias_ih" | "bias_hh") => format!("{name}_l0"),
        _ => name,
    }
}

/// Returns the type of the transpose of a matrix.
pub fn swapped(ty: &Type) -> Type {
    Type::new(ty.dtype, [ty.shape[1], ty.shape[0]])
}

/// Tensor to write.
#[derive(Clone, Copy, Debug)]
pub struct TensorBytes<'a> {
    /// Name of the tensor, unique in the file.
    pub name: &'a str,
    /// Element type and shape.
    pub ty: &'a Type,
    /// Elements, little-endian, row-major.
    pub bytes: &'a [u8],
}

/// Writes tensors and entries to a file, replacing an existing file atomically; see [`super`].
///
/// # Errors
/// Returns the system's error; the old file is then unchanged.
///
/// # Panics
/// Panics if the number of bytes of a tensor does not match its type, or if two tensors have the same name.
pub fn write(path: &Path, tensors: &[TensorBytes<'_>], entries: &Entries) -> Result<()> {
    let tensors = in_order(tensors);
    let mut checksum = Checksum::new(entries);
    for tensor in &tensors {
        checksum.tensor(tensor.name, safetensors_dtype(tensor.ty.dtype), &tensor.ty.shape, tensor.bytes);
    }
    // Use a sorted map, so that the order does not depend on the enabled features of `serde_json`.
    let notes: BTreeMap<&str, serde_json::Value> =
        [("entries", serde_json::json!(entries)), ("sha256", checksum.finish().into())].into();
    write_in_order(path, &tensors, METADATA_KEY, &serde_json::json!(notes).to_string())
}

/// Writes tensors as PyTorch programs do, without gradloom's notes and checksum, because transformers accepts
/// no other metadata.
///
/// # Errors
/// Returns the same errors as [`write()`].
///
/// # Panics
/// Panics under the same conditions as [`write()`].
pub fn write_for_transformers(path: &Path, tensors: &[TensorBytes<'_>]) -> Result<()> {
    write_in_order(path, &in_order(tensors), "format", "pt")
}

/// Sorts the tensors as the safetensors crate does: by descending element size, so that every tensor is
/// aligned, then by name.
fn in_order<'a>(tensors: &[TensorBytes<'a>]) -> Vec<TensorBytes<'a>> {
    let mut tensors = tensors.to_vec();
    tensors.sort_by(|a, b| (b.ty.dtype.bytes(), a.name).cmp(&(a.ty.dtype.bytes(), b.name)));
    assert!(tensors.windows(2).all(|pair| pair[0].name != pair[1].name), "a tensor's name comes twice");
    tensors
}

fn write_in_order(path: &Path, tensors: &[TensorBytes<'_>], key: &str, note: &str) -> Result<()> {
    let mut infos = Vec::with_capacity(tensors.len());
    let mut offset = 0;
    for tensor in tensors {
        let end = offset + tensor.bytes.len();
        assert_eq!(tensor.bytes.len() as u64, tensor.ty.bytes(), "bytes of {}", tensor.name);
        let dtype = safetensors_dtype(tensor.ty.dtype);
        let info = TensorInfo { dtype, shape: tensor.ty.shape.to_vec(), data_offsets: (offset, end) };
        infos.push((tensor.name.to_string(), info));
        offset = end;
    }
    let name = path.display().to_string();
    let header = header(key, note, infos).map_err(|reason| {
        Error::new(ErrorKind::Internal, format!("{name}: no header can be made: {reason}"))
    })?;
    replace_file(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        tensors.iter().try_for_each(|tensor| file.write_all(tensor.bytes))
    })
    .map_err(|source: io::Error| unwritable(&name, &source))
}

/// Returns the JSON header, padded with spaces so that the data begins at a multiple of 8 bytes.
fn header(key: &str, note: &str, infos: Vec<(String, TensorInfo)>) -> std::result::Result<String, String> {
    let metadata = [(key.to_string(), note.to_string())].into_iter().collect();
    let metadata = Metadata::new(Some(metadata), infos).map_err(|error| error.to_string())?;
    let mut header = serde_json::to_string(&metadata).map_err(|error| error.to_string())?;
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    Ok(header)
}
