//! Converts elements from one type to another.

use super::safetensors_dtype;
use gradloom_core::ir::{DType, Type, half};
use safetensors::Dtype;
use std::borrow::Cow;

/// Returns the elements of an integer tensor, or `None` for other types.
fn integers(dtype: Dtype, bytes: &[u8]) -> Option<impl Iterator<Item = i128>> {
    let (width, signed) = match dtype {
        Dtype::BOOL | Dtype::U8 => (1, false),
        Dtype::I8 => (1, true),
        Dtype::U16 => (2, false),
        Dtype::I16 => (2, true),
        Dtype::U32 => (4, false),
        Dtype::I32 => (4, true),
        Dtype::U64 => (8, false),
        Dtype::I64 => (8, true),
        _ => return None,
    };
    Some(bytes.chunks_exact(width).map(move |bytes| {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(bytes);
        let unused = 64 - 8 * width as u32;
        let bits = u64::from_le_bytes(wide) << unused;
        if signed { i128::from(bits.cast_signed() >> unused) } else { i128::from(bits >> unused) }
    }))
}

/// Returns the elements as f32, or `None` for types that cannot be converted.
pub(super) fn to_f32(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    if let Some(integers) = integers(dtype, bytes) {
        return Some(integers.map(|integer| integer as f32).collect());
    }
    Some(match dtype {
        Dtype::F64 => bytes.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes) as f32).collect(),
        Dtype::F32 => bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
        Dtype::F16 => {
            bytes.as_chunks().0.iter().map(|&bytes| half::from_f16(u16::from_le_bytes(bytes))).collect()
        }
        Dtype::BF16 => {
            bytes.as_chunks().0.iter().map(|&bytes| half::from_bf16(u16::from_le_bytes(bytes))).collect()
        }
        _ => return None,
    })
}

/// Returns `true` if the elements can be converted to another type with no loss except rounding: floats to
/// floats, or integers to an integer type that can represent all of them.
pub(super) fn fits(from: Dtype, bytes: &[u8], to: DType) -> bool {
    match integers(from, bytes) {
        Some(mut integers) => {
            let range = match to {
                DType::I32 => i128::from(i32::MIN)..=i128::from(i32::MAX),
                DType::U32 => 0..=i128::from(u32::MAX),
                DType::U8 => 0..=255,
                DType::I64 => i128::from(i64::MIN)..=i128::from(i64::MAX),
                DType::Bool => 0..=1,
                _ => return false,
            };
            integers.all(|integer| range.contains(&integer))
        }
        None => to.is_float() && matches!(from, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16),
    }
}

/// Returns the elements as bytes of another type, to which they must [fit](fits).
///
/// # Panics
/// Panics if they do not fit.
pub(super) fn converted(from: Dtype, bytes: &[u8], to: DType) -> Cow<'_, [u8]> {
    if safetensors_dtype(to) == from {
        return Cow::Borrowed(bytes);
    }
    if let Some(integers) = integers(from, bytes) {
        return match to {
            DType::I64 => integers.flat_map(|integer| (integer as i64).to_le_bytes()).collect(),
            DType::I32 => integers.flat_map(|integer| (integer as i32).to_le_bytes()).collect(),
            DType::U32 => integers.flat_map(|integer| (integer as u32).to_le_bytes()).collect(),
            _ => integers.map(|integer| integer as u8).collect(),
        };
    }
    let floats = to_f32(from, bytes).expect("the types were found to fit");
    match to {
        DType::F32 => floats.iter().flat_map(|float| float.to_le_bytes()).collect(),
        _ => floats.iter().flat_map(|&float| to.narrow_bits(float).to_le_bytes()).collect(),
    }
}

/// Returns the elements of a matrix of this type in column-major order.
///
/// # Panics
/// Panics if the type is not a matrix, or has more bytes than `bytes`.
pub fn transposed(bytes: &[u8], ty: &Type) -> Vec<u8> {
    let &[rows, columns] = &ty.shape[..] else { panic!("{ty} is no matrix") };
    let size = ty.dtype.bytes();
    let mut result = Vec::with_capacity(bytes.len());
    for column in 0..columns {
        for row in 0..rows {
            let start = (row * columns + column) * size;
            result.extend_from_slice(&bytes[start..start + size]);
        }
    }
    result
}
