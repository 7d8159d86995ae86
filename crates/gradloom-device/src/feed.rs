//! Input data that a caller passes to a run.

use crate::backend::Backend;
use crate::device_tensor::DeviceTensor;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Type};
use gradloom_core::trace::Input;
use std::borrow::Cow;
use std::sync::Arc;

/// Row-major elements of one input.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Data<'a> {
    F32(&'a [f32]),
    I32(&'a [i32]),
    U32(&'a [u32]),
    /// Bits of f16 elements; with the feature `half`, slices of `half::f16` convert to this.
    F16(&'a [u16]),
    /// Bits of bf16 elements; with the feature `half`, slices of `half::bf16` convert to this.
    BF16(&'a [u16]),
    U8(&'a [u8]),
    I64(&'a [i64]),
    /// Elements that are already on the device.
    Device(&'a DeviceTensor),
}

impl<'a> Data<'a> {
    /// Interprets bytes in native order as elements of `dtype`. Returns `None` for a bool, which cannot be an
    /// input, and if the bytes are not aligned for the elements or are not a whole number of them.
    pub fn of_bytes(dtype: DType, bytes: &'a [u8]) -> Option<Data<'a>> {
        Some(match dtype {
            DType::F32 => Data::F32(elements_of(bytes)?),
            DType::I32 => Data::I32(elements_of(bytes)?),
            DType::U32 => Data::U32(elements_of(bytes)?),
            DType::F16 => Data::F16(elements_of(bytes)?),
            DType::BF16 => Data::BF16(elements_of(bytes)?),
            DType::U8 => Data::U8(bytes),
            DType::I64 => Data::I64(elements_of(bytes)?),
            DType::Bool => return None,
        })
    }
}

impl Data<'_> {
    /// Returns the dtype of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            Data::F32(_) => DType::F32,
            Data::I32(_) => DType::I32,
            Data::U32(_) => DType::U32,
            Data::F16(_) => DType::F16,
            Data::BF16(_) => DType::BF16,
            Data::U8(_) => DType::U8,
            Data::I64(_) => DType::I64,
            Data::Device(tensor) => tensor.dtype(),
        }
    }

    /// Returns the number of elements.
    #[allow(clippy::len_without_is_empty, reason = "nothing asks for it")]
    pub fn len(&self) -> usize {
        match self {
            Data::F32(v) => v.len(),
            Data::I32(v) => v.len(),
            Data::U32(v) => v.len(),
            Data::F16(v) => v.len(),
            Data::BF16(v) => v.len(),
            Data::U8(v) => v.len(),
            Data::I64(v) => v.len(),
            Data::Device(tensor) => tensor.ty().elements(),
        }
    }

    /// Returns the elements as bytes on the host, in native order.
    ///
    /// # Errors
    /// Returns an error if the elements are on a device and cannot be read.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(match self {
            Data::F32(v) => bytes_of(v),
            Data::I32(v) => bytes_of(v),
            Data::U32(v) => bytes_of(v),
            Data::F16(v) => bytes_of(v),
            Data::BF16(v) => bytes_of(v),
            Data::U8(v) => v,
            Data::I64(v) => bytes_of(v),
            Data::Device(tensor) => return Ok(Cow::Owned(tensor.to_host()?.to_vec())),
        }))
    }

    /// Checks that the data fits an input, whose first axis holds `micro_batches` micro-batches.
    ///
    /// # Errors
    /// Returns an error if the dtype or the number of elements differs from the input's, or the data is a
    /// device tensor of another shape.
    pub fn check(&self, input: &Input, micro_batches: usize) -> Result<()> {
        let is = || format!("the input `{}` is {}", input.name, declared(&input.ty, micro_batches));
        if let Data::Device(tensor) = self {
            if *tensor.ty() == input.ty {
                return Ok(());
            }
            let ty = &input.ty;
            let message = format!("{}, got {} of the device", is(), tensor.ty());
            let help = match tensor.dtype() == ty.dtype {
                true if tensor.ty().elements() == ty.elements() => {
                    format!("give it the shape of the input: `.reshape({:?})`", ty.shape.to_vec())
                }
                true => format!("pass a tensor of {ty}"),
                false => {
                    format!("pass a tensor of {}: convert it with `.cast(..)` where it is made", ty.dtype)
                }
            };
            return Err(Error::new(ErrorKind::Feed, message).help(help));
        }
        if self.dtype() != input.ty.dtype {
            return Err(Error::new(ErrorKind::Feed, format!("{}, got {} elements", is(), self.dtype()))
                .help(format!("pass a slice of {}", input.ty.dtype)));
        }
        let elements = input.ty.elements();
        if self.len() != elements {
            let order = if micro_batches > 1 { ", one micro-batch after the other" } else { "" };
            let message = format!("{} ({elements} elements), got {}", is(), self.len());
            return Err(Error::new(ErrorKind::Feed, message)
                .help(format!("pass {elements} elements, row-major{order}")));
        }
        Ok(())
    }
}

/// Formats the declared type of an input, that of a single micro-batch, for error messages.
pub fn declared(ty: &Type, micro_batches: usize) -> String {
    let mut shape = ty.shape.to_vec();
    match shape.first_mut() {
        Some(first) if micro_batches > 1 => {
            *first /= micro_batches;
            let one = Type::new(ty.dtype, shape);
            format!("{one}, of which a step takes {micro_batches} micro-batches")
        }
        _ => ty.to_string(),
    }
}

/// Returns numbers as bytes in native order.
pub fn bytes_of<T: Number>(numbers: &[T]) -> &[u8] {
    // SAFETY: numbers have no padding bytes, and the returned slice borrows from `numbers`.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

/// Returns bytes as numbers; `None` if the bytes are not aligned for the type or not a whole number of
/// elements.
fn elements_of<T: Number>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: any bit pattern is a valid number.
    let (before, elements, after) = unsafe { bytes.align_to() };
    // Accept an empty slice explicitly, because `align_to` need not report it as aligned.
    (bytes.is_empty() || (before.is_empty() && after.is_empty())).then_some(elements)
}

/// Element types of input data, for which every bit pattern is valid.
pub trait Number {}
impl Number for f32 {}
impl Number for i32 {}
impl Number for u32 {}
impl Number for i64 {}
impl Number for u16 {}

/// Checks the data for all inputs, whose first axes hold `micro_batches` micro-batches.
///
/// # Errors
/// Returns an error if the number of data items is not the number of inputs, a device tensor is not on
/// `device`, or [`Data::check`] fails.
pub fn check_all(
    inputs: &[Input],
    data: &[Data<'_>],
    micro_batches: usize,
    device: &Arc<dyn Backend>,
) -> Result<()> {
    if inputs.len() != data.len() {
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let message = format!("{} inputs were declared, got data for {}", inputs.len(), data.len());
        let help = match names.len() {
            0 => "the program takes no data: pass an empty list".to_string(),
            _ => format!("pass data for {}, in this order", names.join(", ")),
        };
        return Err(Error::new(ErrorKind::Feed, message).help(help));
    }
    for (input, data) in inputs.iter().zip(data) {
        if let Data::Device(tensor) = data
            && !tensor.is_on(device)
        {
            let message = format!("the tensor for the input `{}` is on another device", input.name);
            return Err(Error::new(ErrorKind::Device, message)
                .note(format!("the program is on {}, the tensor is {tensor:?}", device.name()))
                .help("upload it to the program's device, or make both with clones of one `Device`"));
        }
    }
    inputs.iter().zip(data).try_for_each(|(input, data)| data.check(input, micro_batches))
}

impl<'a> From<&'a DeviceTensor> for Data<'a> {
    fn from(tensor: &'a DeviceTensor) -> Self {
        Data::Device(tensor)
    }
}

macro_rules! data {
    ($($ty:ty => $data:expr),*) => {$(
        impl<'a> From<&'a [$ty]> for Data<'a> {
            fn from(elements: &'a [$ty]) -> Self {
                $data(elements)
            }
        }
        impl<'a> From<&'a Vec<$ty>> for Data<'a> {
            fn from(elements: &'a Vec<$ty>) -> Self {
                $data(elements)
            }
        }
        impl<'a, const N: usize> From<&'a [$ty; N]> for Data<'a> {
            fn from(elements: &'a [$ty; N]) -> Self {
                $data(elements)
            }
        }
    )*};
}
data!(f32 => Data::F32, i32 => Data::I32, u32 => Data::U32, u8 => Data::U8, i64 => Data::I64);
#[cfg(feature = "half")]
mod of_half {
    use super::Data;
    use half::slice::HalfFloatSliceExt;
    use half::{bf16, f16};
    data!(
        f16 => |elements: &'a [f16]| Data::F16(elements.reinterpret_cast()),
        bf16 => |elements: &'a [bf16]| Data::BF16(elements.reinterpret_cast())
    );
}

/// Data for `N` inputs: an array, or a tuple if the dtypes differ.
#[diagnostic::on_unimplemented(
    message = "this is not data for {N} inputs",
    note = "pass an array of slices, `[&x, &y]`, or a tuple where element types differ, `(&ids, &weights)`: \
            one for each declared input"
)]
pub trait Feed<'a, const N: usize> {
    /// Returns the data in the order of the inputs.
    fn feed(self) -> [Data<'a>; N];
}

impl<'a, const N: usize, T: Into<Data<'a>>> Feed<'a, N> for [T; N] {
    fn feed(self) -> [Data<'a>; N] {
        self.map(Into::into)
    }
}

/// No data, for a program without inputs.
impl<'a> Feed<'a, 0> for () {
    fn feed(self) -> [Data<'a>; 0] {
        []
    }
}

macro_rules! tuples {
    ($($n:literal: $($name:ident)+;)*) => {$(
        impl<'a, $($name: Into<Data<'a>>),+> Feed<'a, $n> for ($($name,)+) {
            #[allow(non_snake_case)]
            fn feed(self) -> [Data<'a>; $n] {
                let ($($name,)+) = self;
                [$($name.into()),+]
            }
        }
    )*};
}
tuples! { 1: A; 2: A B; 3: A B C; 4: A B C D; 5: A B C D E; 6: A B C D E F; }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_elements_where_they_are_whole_and_aligned() {
        let words = [0x3ff0_0000_0000_0001_i64, -7];
        let bytes = bytes_of(&words);
        for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool) {
            let data = Data::of_bytes(dtype, bytes).unwrap();
            let seen = (data.dtype(), data.len(), &data.bytes().unwrap()[..]);
            assert_eq!(seen, (dtype, 16 / dtype.bytes(), bytes));
            assert_eq!(Data::of_bytes(dtype, &bytes[16..]).unwrap().len(), 0);
            let whole = dtype == DType::U8;
            assert_eq!(Data::of_bytes(dtype, &bytes[1..]).is_some(), whole, "not aligned");
            assert_eq!(Data::of_bytes(dtype, &bytes[..15]).is_some(), whole, "ends within an element");
        }
        assert!(Data::of_bytes(DType::Bool, bytes).is_none());
    }
}
