//! Declared inputs of a program.

use crate::ir::{DType, Type};

/// A declared input, for which the caller passes data to every run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Name of the input, unique within a program.
    pub name: String,
    /// Element type and shape.
    pub ty: Type,
}

fn input<const R: usize>(name: &str, dtype: DType, shape: [usize; R]) -> Input {
    Input { name: name.to_string(), ty: Type::new(dtype, shape) }
}

/// Declares an input of float32 elements.
pub fn f32<const R: usize>(name: &str, shape: [usize; R]) -> Input {
    input(name, DType::F32, shape)
}

/// Declares an input of int32 elements, such as token ids or class labels.
pub fn i32<const R: usize>(name: &str, shape: [usize; R]) -> Input {
    input(name, DType::I32, shape)
}

/// Declares an input of float16 elements.
pub fn f16<const R: usize>(name: &str, shape: [usize; R]) -> Input {
    input(name, DType::F16, shape)
}

/// Declares an input of bfloat16 elements.
pub fn bf16<const R: usize>(name: &str, shape: [usize; R]) -> Input {
    input(name, DType::BF16, shape)
}

/// Declares an input of uint8 elements, such as images or text. Ops that compute convert them to int32, so
/// `x / 255.0` would divide integers and is an error; `x.cast(DType::F32) / 255.0` computes numbers from 0 to
/// 1.
pub fn u8<const R: usize>(name: &str, shape: [usize; R]) -> Input {
    input(name, DType::U8, shape)
}

/// Declares an input of int64 elements, PyTorch's dtype for token ids and class labels. Ops that compute or
/// index convert them to int32.
pub fn i64<const R: usize>(name: &str, shape: [usize; R]) -> Input {
    input(name, DType::I64, shape)
}

/// Declares an input of uint32 elements.
pub fn u32<const R: usize>(name: &str, shape: [usize; R]) -> Input {
    input(name, DType::U32, shape)
}
