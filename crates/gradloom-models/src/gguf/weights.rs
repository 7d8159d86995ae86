//! Tensors in Hugging Face's format.
//!
//! In: a file of a supported architecture. Out: [`Weights`] with the names, shapes and elements of the same
//! model's safetensors file; f16 and bf16 are kept, all other types become f32. Invariant: every tensor is
//! used, or the error names an unknown one; only one dequantized tensor at a time is in memory in addition to
//! the result.

use super::architecture::Layout;
use super::config::ROPE_FACTORS;
use super::dequantize::is_read;
use super::error::{error, unread};
use super::{Architecture, Gguf, Tensor, TensorType, dequantize};
use gradloom_core::error::Result;
use gradloom_runtime::files::Weights;
use safetensors::{Dtype, View};
use std::borrow::Cow;

const EMBEDDING: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";

/// A tensor to be converted during serialization.
struct Converted<'a> {
    tensor: Tensor<'a>,
    shape: Vec<usize>,
    layout: Layout,
    /// Number of heads whose rows are permuted.
    heads: usize,
}

impl Gguf {
    /// Returns all tensors under their Hugging Face names, as a safetensors file in memory. f16 and bf16 are
    /// kept; all other types become f32.
    ///
    /// # Errors
    /// Returns an error if the architecture or the type of a tensor is not supported, if a tensor is unknown,
    /// or if its shape does not match its layout.
    pub fn weights(&self) -> Result<Weights> {
        let architecture = self.architecture()?;
        let is_tied = self.is_tied()?;
        let mut views = Vec::new();
        for tensor in self.tensors() {
            // Skip a tensor whose information the configuration already contains.
            if tensor.name == ROPE_FACTORS || (tensor.name == OUTPUT && is_tied) {
                continue;
            }
            let Some((name, layout)) = architecture.hugging_face_name(tensor.name) else {
                let message = format!("`{}` is no tensor of `{}`", tensor.name, architecture.name());
                return Err(unread(&self.name, message));
            };
            views.push((name, self.converted(tensor, layout)?));
        }
        let bytes = safetensors::serialize(views, None)
            .map_err(|reason| error(&self.name, reason).help("use the model's safetensors files"))?;
        Ok(Weights::from_bytes(bytes)?.named(&*self.name))
    }

    fn converted<'a>(&'a self, tensor: Tensor<'a>, layout: Layout) -> Result<Converted<'a>> {
        let Tensor { name, shape, ty, .. } = tensor;
        if !is_read(ty) {
            let message = format!("`{name}` has elements of the type {ty}, which are not read");
            return Err(unread(&self.name, message));
        }
        let heads = match layout {
            Layout::QueryPairs => self.query_heads()?,
            Layout::KeyPairs => self.key_heads()?,
            Layout::Same | Layout::Transposed => 1,
        };
        let fits = match layout {
            Layout::Same => true,
            Layout::Transposed => shape.len() == 2,
            Layout::QueryPairs | Layout::KeyPairs => shape
                .first()
                .is_some_and(|rows| rows.is_multiple_of(heads) && (rows / heads).is_multiple_of(2)),
        };
        if !fits {
            let problem = match layout {
                Layout::Transposed => "is no matrix".to_string(),
                _ => format!("does not fit {heads} heads"),
            };
            let message = format!("`{name}` is {ty}{shape:?}, which {problem}");
            return Err(unread(&self.name, message));
        }
        let mut shape = shape.to_vec();
        if layout == Layout::Transposed {
            shape.reverse();
        }
        Ok(Converted { tensor, shape, layout, heads })
    }

    /// Returns `true` if the output layer is tied to the token embedding. Its tensor is then missing, or a
    /// copy, which may have been quantized to another type.
    pub(super) fn is_tied(&self) -> Result<bool> {
        let (Some(output), Some(embedding)) = (self.tensor(OUTPUT), self.tensor(EMBEDDING)) else {
            return Ok(self.tensor(OUTPUT).is_none());
        };
        // Do not compare the tensors of a Llama file, which contains an output layer only if it is not tied.
        let &[rows, _] = output.shape else { return Ok(false) };
        let is_alike = output.shape == embedding.shape && is_read(output.ty) && is_read(embedding.ty);
        if self.architecture()? == Architecture::Llama || !is_alike {
            return Ok(false);
        }
        if output.ty == embedding.ty || output.bytes.is_empty() {
            return Ok(output.bytes == embedding.bytes);
        }
        let (mut difference, mut size) = (0.0f64, 0.0f64);
        for row in 0..rows {
            for (a, b) in output.row(row)?.iter().zip(embedding.row(row)?) {
                difference += f64::from(a - b).powi(2);
                size += f64::from(*a).powi(2);
            }
        }
        // Compare with a relative error of 1/4, squared: rounding to 4 bits has one of about 0.1, and an
        // unrelated matrix has one above 1.
        Ok(difference <= size / 16.0)
    }
}

impl Tensor<'_> {
    /// Returns a row along the first dimension, dequantized.
    fn row(&self, row: usize) -> Result<Vec<f32>> {
        let size = self.bytes.len() / self.shape[0];
        dequantize(self.ty, &self.bytes[row * size..][..size])
    }
}

impl View for Converted<'_> {
    fn dtype(&self) -> Dtype {
        match self.tensor.ty {
            TensorType::F16 => Dtype::F16,
            TensorType::BF16 => Dtype::BF16,
            _ => Dtype::F32,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype().bitsize() / 8
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let bytes = match self.tensor.ty {
            TensorType::F32 | TensorType::F16 | TensorType::BF16 => Cow::Borrowed(self.tensor.bytes),
            _ => {
                let elements = self.tensor.to_f32().expect("the type was found to be read");
                elements.iter().map(|x| x.to_le_bytes()).collect::<Vec<_>>().into_flattened().into()
            }
        };
        let width = self.dtype().bitsize() / 8;
        match self.layout {
            Layout::Same => bytes,
            Layout::Transposed => by_columns(&bytes, self.shape[0], width).into(),
            Layout::QueryPairs | Layout::KeyPairs => halves(&bytes, self.shape[0], self.heads).into(),
        }
    }
}

/// Transposes a matrix with `columns` columns of elements of `width` bytes.
fn by_columns(bytes: &[u8], columns: usize, width: usize) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len());
    // Return early for an empty matrix: if it has no columns, `chunks_exact` would panic.
    if bytes.is_empty() {
        return result;
    }
    for column in 0..columns {
        for row in bytes.chunks_exact(columns * width) {
            result.extend_from_slice(&row[column * width..][..width]);
        }
    }
    result
}

/// Reorders the rows of each head: the even ones first, then the odd ones.
fn halves(bytes: &[u8], rows: usize, heads: usize) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len());
    // Return early for an empty matrix, for which the division or `chunks_exact` would panic.
    if bytes.is_empty() {
        return result;
    }
    let row = bytes.len() / rows;
    for head in bytes.chunks_exact(rows / heads * row) {
        let pairs = || head.chunks_exact(2 * row);
        pairs().for_each(|pair| result.extend_from_slice(&pair[..row]));
        pairs().for_each(|pair| result.extend_from_slice(&pair[row..]));
    }
    result
}
