//! Models in GGUF files, which llama.cpp and the programs around it use.
//!
//! In: a file, mapped into memory. Out: its metadata and tensors as they are ([`Gguf`]); and the same model
//! as Hugging Face's files have it: the configuration, the weights by their names there, and the tokenizer.
//! Always holds: everything that is returned lies within the file, and no more is allocated than a small
//! multiple of it, whatever a header says.
//!
//! Quantised elements become f32 ([`dequantize`]): Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K; f32,
//! f16 and bf16 stay as they are. [`quantize`] makes Q8_0 and Q4_0.

mod architecture;
mod config;
mod cursor;
mod dequantize;
mod error;
mod header;
mod quantize;
mod tokenizer;
mod types;
mod value;
mod vocabulary;
mod weights;
mod words;

pub use architecture::{Architecture, Layout};
pub use dequantize::dequantize;
pub use quantize::quantize;
pub use types::TensorType;
pub use value::{Array, FromValue, Value};
pub use vocabulary::{TokenType, Vocabulary};

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
    /// The path, or what else stands for it in messages.
    name: String,
    bytes: Bytes,
    header: Header,
}

/// A tensor in a file.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its extents, row-major: GGUF's dimensions in reverse.
    pub shape: &'a [usize],
    /// The type of its elements.
    pub ty: TensorType,
    /// Its blocks.
    pub bytes: &'a [u8],
}

impl Tensor<'_> {
    /// Returns the elements, row-major.
    ///
    /// # Errors
    /// When their type is not read; the message names it.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        // The bytes are whole blocks: the type alone can be at fault.
        dequantize(self.ty, self.bytes)
            .map_err(|fault| unread(&format!("the tensor `{}`", self.name), fault.message()))
    }
}

impl Gguf {
    /// Opens a file; its tensors are read when they are used. While it is in use, the file must not be cut
    /// off by another process.
    ///
    /// # Errors
    /// When the file cannot be read, is no GGUF file, is of another version than 2 and 3, is big-endian, or
    /// is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::of(path.display().to_string(), Bytes::open(path)?)
    }

    /// Takes a whole file that is in memory.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        Self::of("the file in memory".to_string(), bytes.into().into())
    }

    fn of(name: String, bytes: Bytes) -> Result<Self> {
        let header = Header::parse(&bytes, &name)?;
        Ok(Self { name, bytes, header })
    }

    /// Returns the path as it was given; for bytes, the name that stands for it in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.header.version
    }

    /// Returns the keys of the metadata, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.header.metadata.keys().map(String::as_str)
    }

    /// Returns the value of a key.
    pub fn metadata(&self, key: &str) -> Option<Value<'_>> {
        // It was sound when the file was opened.
        self.header.metadata.get(key)?.value(&self.bytes).ok()
    }

    /// Returns the value of a key, if it is there. Integers may have any width that holds them.
    ///
    /// # Errors
    /// When it is of another type, or an integer out of range.
    pub fn get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.metadata(key) else { return Ok(None) };
        T::from_value(value).map(Some).ok_or_else(|| {
            error(&self.name, format_args!("the metadata `{key}` is of type {value} and not {}", T::wanted()))
                .help("convert the model once more")
        })
    }

    /// Returns the value of a key that must be there.
    ///
    /// # Errors
    /// As [`get`](Self::get), and when it is not there.
    pub fn require<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.get(key)?.ok_or_else(|| {
            error(&self.name, format_args!("the metadata has no `{key}`")).help("convert the model once more")
        })
    }

    /// Returns all tensors, by name.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.header.tensors.iter().map(|(name, place)| self.placed(name, place))
    }

    /// Returns the tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        self.header.tensors.get_key_value(name).map(|(name, place)| self.placed(name, place))
    }

    fn placed<'a>(&'a self, name: &'a str, place: &'a Place) -> Tensor<'a> {
        Tensor { name, shape: &place.shape, ty: place.ty, bytes: &self.bytes[place.bytes.clone()] }
    }

    /// Returns a size in the metadata, which is not 0.
    fn size(&self, key: &str) -> Result<usize> {
        if self.metadata(key).is_none() {
            self.require::<usize>(key)?;
        }
        self.size_or(key, 0)
    }

    /// Returns a size that follows from others if the metadata does not have it; not 0 either.
    fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        match self.size_of_all(key)?.unwrap_or(default) {
            0 => Err(damaged(&self.name, format_args!("the metadata makes `{key}` 0"))),
            size => Ok(size),
        }
    }

    /// Returns a size, if it is there, which may be given for each layer if it is the same in all.
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
