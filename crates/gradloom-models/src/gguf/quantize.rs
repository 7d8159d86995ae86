//! Quantization of f32.
//!
//! In: finite elements. Out: blocks of Q8_0 or Q4_0. Invariant: the bytes are those of ggml's reference
//! (`quantize_row_q8_0_ref` and `quantize_row_q4_0_ref` in its `ggml-quants.c`).

use super::types::TensorType;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{BLOCK, BlockFormat};

/// Quantizes elements; [`dequantize`](super::dequantize) documents the layout of the blocks. Blocks do not
/// cross rows, so the rows of a tensor must be multiples of 32 elements.
///
/// # Errors
/// Returns an error if the type is neither Q8_0 nor Q4_0, if the number of elements is not a multiple of 32,
/// or if an element is NaN, infinite, or so large that its scale overflows f16.
pub fn quantize(ty: TensorType, elements: &[f32]) -> Result<Vec<u8>> {
    let wrong = |message: String, help: &str| Err(Error::new(ErrorKind::File, message).help(help));
    let (largest, format) = match ty {
        TensorType::Q8_0 => (127.0, BlockFormat::Q8_0),
        TensorType::Q4_0 => (8.0, BlockFormat::Q4_0),
        _ => return wrong(format!("{ty} is not written"), "take Q8_0 or Q4_0"),
    };
    let (blocks, rest) = elements.as_chunks::<BLOCK>();
    if !rest.is_empty() {
        let message = format!("{} elements are no whole blocks of {BLOCK} of {ty}", elements.len());
        return wrong(message, "write tensors with other rows as f16");
    }
    // Reject scales from 65,520 on, which round to infinity in f16.
    let is_too_large = |x: &f32| x.is_nan() || x.abs() / largest >= 65_520.0;
    if let Some(index) = elements.iter().position(is_too_large) {
        let message = format!("element {index} is {}, which {ty} does not hold", elements[index]);
        return wrong(message, "write the tensor as f32");
    }
    let mut bytes = Vec::with_capacity(blocks.len() * ty.block().1);
    blocks.iter().for_each(|elements| format.encode(elements, &mut bytes));
    Ok(bytes)
}
