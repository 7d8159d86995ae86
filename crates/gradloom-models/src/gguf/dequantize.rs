//! Dequantization of blocks to f32.
//!
//! In: blocks of a type. Out: their elements. Invariant: except for NaN, the results are bit-identical to
//! ggml's reference (`dequantize_row_*` in its `ggml-quants.c`), because every product and sum is rounded in
//! the same way.
//!
//! A block has 32 elements (`Q4_0` to `Q8_0`) or 256 (`_K`), and little-endian f16 scales. In a run of bytes,
//! the low nibbles are the first half of the elements and the high nibbles the second half.

use super::types::TensorType;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::half::{from_bf16, from_f16};
use std::array::from_fn;

/// Returns the elements of a sequence of blocks.
///
/// # Errors
/// Returns an error if the type is not one of f32, f16, bf16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and
/// Q6_K, or if the bytes are not whole blocks.
pub fn dequantize(ty: TensorType, bytes: &[u8]) -> Result<Vec<f32>> {
    let (_, size) = ty.block();
    if !bytes.len().is_multiple_of(size) {
        let message = format!("{} bytes are no whole blocks of {size} of {ty}", bytes.len());
        return Err(Error::new(ErrorKind::File, message).help("give all bytes of a tensor, or of its rows"));
    }
    Ok(match ty {
        TensorType::F32 => blocks(bytes, |block| [f32::from_le_bytes(*block)]),
        TensorType::F16 => blocks(bytes, |block| [from_f16(u16::from_le_bytes(*block))]),
        TensorType::BF16 => blocks(bytes, |block| [from_bf16(u16::from_le_bytes(*block))]),
        TensorType::Q4_0 => blocks(bytes, q4_0),
        TensorType::Q4_1 => blocks(bytes, q4_1),
        TensorType::Q5_0 => blocks(bytes, q5_0),
        TensorType::Q5_1 => blocks(bytes, q5_1),
        TensorType::Q8_0 => blocks(bytes, q8_0),
        TensorType::Q4_K => blocks(bytes, q4_k),
        TensorType::Q5_K => blocks(bytes, q5_k),
        TensorType::Q6_K => blocks(bytes, q6_k),
        _ => {
            return Err(Error::new(ErrorKind::File, format!("elements of the type {ty} are not read"))
                .help("use a file of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K"));
        }
    })
}

/// Returns `true` if elements of a type can be dequantized.
pub(super) fn is_read(ty: TensorType) -> bool {
    dequantize(ty, &[]).is_ok()
}

fn blocks<const B: usize, const N: usize>(bytes: &[u8], block: impl Fn(&[u8; B]) -> [f32; N]) -> Vec<f32> {
    let (blocks, _) = bytes.as_chunks();
    let mut elements = Vec::with_capacity(blocks.len() * N);
    for bytes in blocks {
        elements.extend_from_slice(&block(bytes));
    }
    elements
}

/// Returns the f16 at an offset as f32.
fn scale(block: &[u8], at: usize) -> f32 {
    from_f16(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Returns the nibble of element `i`. Each run of `run` bytes has twice as many elements, the low nibbles
/// first.
fn nibble(bytes: &[u8], run: usize, i: usize) -> u8 {
    bytes[i / (2 * run) * run + i % run] >> (i / run % 2 * 4) & 15
}

/// Returns bit 4 of element `i` of a block of 32, which is bit `i` of the four bytes.
fn fifth_bit(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 8] >> (i % 8) & 1) << 4
}

/// Dequantizes a block of a scale d and 16 bytes of nibbles q: `d (q - 8)`.
fn q4_0(block: &[u8; 18]) -> [f32; 32] {
    let d = scale(block, 0);
    from_fn(|i| d * (f32::from(nibble(&block[2..], 16, i)) - 8.0))
}

/// Dequantizes a block of a scale d, a minimum m and 16 bytes of nibbles q: `d q + m`.
fn q4_1(block: &[u8; 20]) -> [f32; 32] {
    let (d, m) = (scale(block, 0), scale(block, 2));
    from_fn(|i| d * f32::from(nibble(&block[4..], 16, i)) + m)
}

/// Dequantizes a block of a scale d, 4 bytes of fifth bits and 16 bytes of nibbles, which form q:
/// `d (q - 16)`.
fn q5_0(block: &[u8; 22]) -> [f32; 32] {
    let d = scale(block, 0);
    from_fn(|i| d * (f32::from(nibble(&block[6..], 16, i) | fifth_bit(&block[2..6], i)) - 16.0))
}

/// Dequantizes a block of a scale d, a minimum m, 4 bytes of fifth bits and 16 bytes of nibbles, which form
/// q: `d q + m`.
fn q5_1(block: &[u8; 24]) -> [f32; 32] {
    let (d, m) = (scale(block, 0), scale(block, 2));
    from_fn(|i| d * f32::from(nibble(&block[8..], 16, i) | fifth_bit(&block[4..8], i)) + m)
}

/// Dequantizes a block of a scale d and 32 signed bytes q: `d q`.
fn q8_0(block: &[u8; 34]) -> [f32; 32] {
    let d = scale(block, 0);
    from_fn(|i| d * f32::from(block[2 + i] as i8))
}

/// Returns the scale and the minimum of each of the eight runs of 32 elements in Q4_K and Q5_K: the f16
/// values d and dmin times 6-bit numbers packed in 12 bytes. The low 6 bits of bytes 0 to 3 are the scales of
/// runs 0 to 3, those of bytes 4 to 7 the minima. For runs r from 4 to 7, byte r + 4 has the low 4 bits of
/// the scale and, above them, those of the minimum; the upper 2 bits are the top bits of byte r - 4 for the
/// scale and of byte r for the minimum.
fn scales_and_minima(block: &[u8]) -> [(f32, f32); 8] {
    let (d, dmin, packed) = (scale(block, 0), scale(block, 2), &block[4..16]);
    from_fn(|run| {
        let (scale, minimum) = match run {
            0..4 => (packed[run] & 63, packed[run + 4] & 63),
            _ => {
                let (low, upper) = (packed[run + 4], |byte: usize| packed[byte] >> 6 << 4);
                (low & 15 | upper(run - 4), low >> 4 | upper(run))
            }
        };
        (d * f32::from(scale), dmin * f32::from(minimum))
    })
}

/// Dequantizes a block of scales d and minima m of eight runs, and 128 bytes of nibbles q in runs of 32:
/// `d q - m`.
fn q4_k(block: &[u8; 144]) -> [f32; 256] {
    let runs = scales_and_minima(block);
    from_fn(|i| {
        let (d, m) = runs[i / 32];
        d * f32::from(nibble(&block[16..], 32, i)) - m
    })
}

/// Dequantizes a block like that of [`q4_k`], but with 32 bytes before the nibbles: bit r of byte j is the
/// fifth bit of element j of run r.
fn q5_k(block: &[u8; 176]) -> [f32; 256] {
    let runs = scales_and_minima(block);
    from_fn(|i| {
        let ((d, m), fifth) = (runs[i / 32], block[16 + i % 32] >> (i / 32) & 1);
        d * f32::from(nibble(&block[48..], 32, i) | fifth << 4) - m
    })
}

/// Dequantizes a block: 128 bytes of nibbles in runs of 64; 64 bytes of upper bits, two per element, where
/// byte j of each 32 has those of elements j, j + 32, j + 64 and j + 96 of one half of the block; 16 signed
/// bytes s, one per 16 elements; and a scale d. The result is `d s (q - 32)`.
fn q6_k(block: &[u8; 210]) -> [f32; 256] {
    let d = scale(block, 208);
    from_fn(|i| {
        let upper = block[128 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
        let q = f32::from(nibble(&block[..128], 64, i) | upper << 4) - 32.0;
        d * f32::from(block[192 + i / 16] as i8) * q
    })
}
