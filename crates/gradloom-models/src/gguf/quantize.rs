//! f32 as quantised blocks.
//!
//! In: finite elements. Out: blocks of Q8_0 or Q4_0. Always holds: the same bytes as ggml's reference
//! (`quantize_row_q8_0_ref` and `quantize_row_q4_0_ref` in its `ggml-quants.c`).

use super::types::TensorType;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::half::to_f16;

/// Elements of a block.
const BLOCK: usize = 32;

/// Appends a block.
type Write = fn(&[f32; BLOCK], &mut Vec<u8>);

/// The blocks of elements; [`dequantize`](super::dequantize) has their layout. Blocks do not cross rows: a
/// tensor's rows must be multiples of 32.
///
/// # Errors
/// When the type is another than Q8_0 and Q4_0; when the elements are no multiple of 32; when one is not
/// finite, or so large that the scale is beyond f16.
pub fn quantize(ty: TensorType, elements: &[f32]) -> Result<Vec<u8>> {
    let wrong = |message: String, help: &str| Err(Error::new(ErrorKind::File, message).help(help));
    let (largest, write): (f32, Write) = match ty {
        TensorType::Q8_0 => (127.0, q8_0),
        TensorType::Q4_0 => (8.0, q4_0),
        _ => return wrong(format!("{ty} is not written"), "take Q8_0 or Q4_0"),
    };
    let (blocks, rest) = elements.as_chunks();
    if !rest.is_empty() {
        let message = format!("{} elements are no whole blocks of {BLOCK} of {ty}", elements.len());
        return wrong(message, "write tensors with other rows as f16");
    }
    // From 65,520 on, an f16 is infinite.
    let is_too_large = |x: &f32| x.is_nan() || x.abs() / largest >= 65_520.0;
    if let Some(index) = elements.iter().position(is_too_large) {
        let message = format!("element {index} is {}, which {ty} does not hold", elements[index]);
        return wrong(message, "write the tensor as f32");
    }
    let mut bytes = Vec::with_capacity(blocks.len() * ty.block().1);
    blocks.iter().for_each(|elements| write(elements, &mut bytes));
    Ok(bytes)
}

/// 1 / d, and 0 for 0: such a block is all zeros.
fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// The largest magnitude becomes 127; halves are rounded away from zero.
fn q8_0(elements: &[f32; BLOCK], bytes: &mut Vec<u8>) {
    let d = elements.iter().fold(0.0, |most: f32, x| most.max(x.abs())) / 127.0;
    let inverse = inverse(d);
    bytes.extend(to_f16(d).to_le_bytes());
    bytes.extend(elements.iter().map(|x| (x * inverse).round() as i8 as u8));
}

/// The first element of the largest magnitude becomes -8, so that its sign is kept by the scale's; the others
/// are rounded to -8..=7, and 8 is added.
fn q4_0(elements: &[f32; BLOCK], bytes: &mut Vec<u8>) {
    let most = elements.iter().fold(0.0, |most: f32, &x| if x.abs() > most.abs() { x } else { most });
    let d = most / -8.0;
    let inverse = inverse(d);
    let q = |x: f32| ((x * inverse + 8.5) as u8).min(15);
    bytes.extend(to_f16(d).to_le_bytes());
    bytes.extend((0..16).map(|i| q(elements[i]) | q(elements[i + 16]) << 4));
}
