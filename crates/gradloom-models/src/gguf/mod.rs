//! Models in GGUF files, the format of llama.cpp.
//!
//! In: a memory-mapped file. Out: its metadata and tensors ([`Gguf`]), and the same model in Hugging Face's
//! format: the configuration, the weights with their names, and the tokenizer. Invariant: everything
//! returned lies within the file, and memory use is bounded by a small multiple of its size, whatever the
//! header contains.
//!
//! Quantized elements (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K) are converted to f32 by
//! [`dequantize`]; f32, f16 and bf16 are unchanged.

mod architecture;
mod config;
mod cursor;
mod dequantize;
mod error;
mod header;
mod tokenizer;
mod types;
mod value;
mod weights;
mod words;

pub use architecture::{Architecture, Layout};
pub use dequantize::dequantize;
pub use types::TensorType;
pub use value::{Array, FromValue, Value};

use error::{damaged, error, unread};
use gradloom_core::error::Result;
use gradloom_runtime::files::Bytes;
use header::{Header, Place};
use std::path::Path;

/// A GGUF file: metadata and tensors.
///
/// ```no_run
/// # use gradloom_models::gguf::Gguf;
/// let file = Gguf::open("model.gguf")?;
/// println!("{}", file.require::<&str>("general.architecture")?);
/// let (config, weights) = (file.hugging_face_config()?, file.weights()?);
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Gguf {
    /// Path of the file, or another name used in messages.
    name: String,
    bytes: Bytes,
    header: Header,
}

/// A tensor in a file.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Name of the tensor.
    pub name: &'a str,
    /// Row-major shape: GGUF's dimensions in reverse order.
    pub shape: &'a [usize],
    /// Element type.
    pub ty: TensorType,
    /// Data of the blocks.
    pub bytes: &'a [u8],
}

impl Tensor<'_> {
    /// Returns the elements, row-major.
    ///
    /// # Errors
    /// Returns an error if the element type is not supported.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        // The bytes are whole blocks, so only the type can cause an error.
        dequantize(self.ty, self.bytes)
            .map_err(|fault| unread(&format!("the tensor `{}`", self.name), fault.message()))
    }
}

impl Gguf {
    /// Maps a file into memory. Tensors are read when they are used. No other process may truncate the file
    /// while it is in use.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not a GGUF file, has a version other than 2 and 3, is
    /// big-endian, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::of(path.display().to_string(), Bytes::open(path)?)
    }

    /// Parses a file in memory.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Gguf::open`].
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        Self::of("the file in memory".to_string(), bytes.into().into())
    }

    fn of(name: String, bytes: Bytes) -> Result<Self> {
        let header = Header::parse(&bytes, &name)?;
        Ok(Self { name, bytes, header })
    }

    /// Returns the path as given, or a generic name for a file in memory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.header.version
    }

    /// Returns the keys of the metadata in ascending order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.header.metadata.keys().map(String::as_str)
    }

    /// Returns the value of a key.
    pub fn metadata(&self, key: &str) -> Option<Value<'_>> {
        // `ok` discards no error, because all values were validated when the file was opened.
        self.header.metadata.get(key)?.value(&self.bytes).ok()
    }

    /// Returns the value of a key, if it exists. An integer may have any type, as long as its value fits in
    /// `T`.
    ///
    /// # Errors
    /// Returns an error if the value has another type, or is an integer out of range.
    pub fn get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.metadata(key) else { return Ok(None) };
        T::from_value(value).map(Some).ok_or_else(|| {
            error(&self.name, format_args!("the metadata `{key}` is of type {value} and not {}", T::wanted()))
                .help("convert the model once more")
        })
    }

    /// Returns the value of a required key.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`get`](Self::get), or if the key is missing.
    pub fn require<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.get(key)?.ok_or_else(|| {
            error(&self.name, format_args!("the metadata has no `{key}`")).help("convert the model once more")
        })
    }

    /// Returns all tensors in order of their names.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.header.tensors.iter().map(|(name, place)| self.placed(name, place))
    }

    /// Returns the tensor with this name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        self.header.tensors.get_key_value(name).map(|(name, place)| self.placed(name, place))
    }

    fn placed<'a>(&'a self, name: &'a str, place: &'a Place) -> Tensor<'a> {
        Tensor { name, shape: &place.shape, ty: place.ty, bytes: &self.bytes[place.bytes.clone()] }
    }

    /// Returns a size in the metadata, which must not be 0.
    fn size(&self, key: &str) -> Result<usize> {
        if self.metadata(key).is_none() {
            self.require::<usize>(key)?;
        }
        self.size_or(key, 0)
    }

    /// Returns a size that defaults to `default` if the key is missing. The size must not be 0.
    fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        match self.size_of_all(key)?.unwrap_or(default) {
            0 => Err(damaged(&self.name, format_args!("the metadata makes `{key}` 0"))),
            size => Ok(size),
        }
    }

    /// Returns an optional size. It may be an array with one entry per layer if all entries are equal.
    fn size_of_all(&self, key: &str) -> Result<Option<usize>> {
        let Some(Value::Array(_)) = self.metadata(key) else { return self.get(key) };
        let sizes: Vec<usize> = self.get(key)?.unwrap_or_default();
        match sizes.split_first() {
            Some((size, others)) if others.iter().all(|other| other == size) => Ok(Some(*size)),
            _ => {
                let message = format!("`{key}` is {sizes:?}, and layers of several sizes are not read");
                Err(unread(&self.name, message))
            }
        }
    }
}
