//! Types for the results of a forward program.

use crate::device_tensor::DeviceTensor;
use crate::elements::{Elements, output};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::DType;
use gradloom_core::trace::Tensor;
use std::fmt::Display;
use std::marker::PhantomData;

/// Tensors that a closure returns, and the host data that a run returns for them: a `Vec<f32>` for each
/// tensor, or a vector of the tensor's own type if it is wrapped in [`typed`].
pub trait Outputs {
    /// Host data of a run.
    type Read;
    /// Returns the tensors in order.
    fn tensors(self) -> Vec<Tensor>;
    /// Converts the elements of the tensors, in order, to host data.
    ///
    /// # Errors
    /// Returns an error if an integer is not exactly representable as f32, or the elements do not have the
    /// specified type.
    fn read(values: &mut dyn Iterator<Item = Value<'_>>) -> Result<Self::Read>;
    /// A [`DeviceTensor`] for each tensor, in the structure that the closure returned.
    type OnDevice;
    /// Arranges device tensors, one for each tensor in order, in the structure that the closure returned.
    fn on_device(tensors: &mut dyn Iterator<Item = DeviceTensor>) -> Self::OnDevice;
}

/// The elements of one output.
#[derive(Debug)]
pub struct Value<'a> {
    /// Name of the output.
    pub name: &'a str,
    /// Dtype of the elements.
    pub dtype: DType,
    /// Elements, row-major.
    pub elements: &'a mut Elements,
}

/// A tensor whose elements are read in their own type, e.g. `typed::<i32>(tokens)` as a `Vec<i32>`.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct Typed<T>(Tensor, PhantomData<T>);

/// Marks a result of a forward program to be read in its own type (`i64`, `i32`, `u32`, `u8`, `bool`, `f16`,
/// `bf16` or `f32`) instead of f32, which cannot represent every value.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
/// # use gradloom_cpu::CpuDevice as _;
/// use gradloom::{nn::Linear, trace::f32};
/// use gradloom::{Device, Session, typed};
///
/// let session = Session::new(Linear::new(3, 4), &Device::cpu(), 7)?;
/// let mut program = session.infer([f32("x", [2, 3])], |layer, [x]| {
///     let logits = layer.forward(x);
///     (logits, typed::<i32>(logits.argmax(1)), typed::<bool>(logits.is_nan()))
/// })?;
/// let (logits, classes, nan) = program.run([&[1.0f32; 6]])?;
/// assert_eq!((logits.len(), classes.len(), nan), (8, 2, vec![false; 8]));
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
pub fn typed<T: Element>(tensor: Tensor) -> Typed<T> {
    Typed(tensor, PhantomData)
}

/// A Rust type that elements can be read as.
pub trait Element: Sized + sealed::FromBytes {
    /// The corresponding dtype.
    const DTYPE: DType;
}

mod sealed {
    pub trait FromBytes: Sized {
        /// Converts bytes in native order to elements.
        fn all(bytes: &[u8]) -> Vec<Self>;
    }
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),*) => {$(
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
        }
        impl sealed::FromBytes for $ty {
            fn all(bytes: &[u8]) -> Vec<Self> {
                bytes.as_chunks().0.iter().map(|bytes| Self::from_ne_bytes(*bytes)).collect()
            }
        }
    )*};
}
elements!(f32 => F32, i32 => I32, u32 => U32, u8 => U8, i64 => I64);
#[cfg(feature = "half")]
elements!(half::f16 => F16, half::bf16 => BF16);

impl Element for bool {
    const DTYPE: DType = DType::Bool;
}

impl sealed::FromBytes for bool {
    fn all(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|&byte| byte != 0).collect()
    }
}

/// Returns the elements of an output in their own type.
///
/// # Errors
/// Returns an error if the dtype of the output is not that of `T`.
pub fn read_as<T: Element>(what: &dyn Display, dtype: DType, bytes: &[u8]) -> Result<Vec<T>> {
    if dtype == T::DTYPE {
        return Ok(T::all(bytes));
    }
    Err(Error::new(ErrorKind::Feed, format!("{what} is {dtype}, not {}", T::DTYPE))
        .help(format!("read it as {dtype}, or convert it in the model with `.cast(..)`")))
}

fn next_tensor(tensors: &mut dyn Iterator<Item = DeviceTensor>) -> DeviceTensor {
    tensors.next().expect("one for each tensor")
}

fn next<'a>(values: &mut dyn Iterator<Item = Value<'a>>) -> Value<'a> {
    values.next().expect("one value for each tensor")
}

impl<T: Element> Outputs for Typed<T> {
    type Read = Vec<T>;
    fn tensors(self) -> Vec<Tensor> {
        vec![self.0]
    }
    fn read(values: &mut dyn Iterator<Item = Value<'_>>) -> Result<Vec<T>> {
        let Value { name, dtype, elements } = next(values);
        read_as(&output(name), dtype, elements)
    }
    type OnDevice = DeviceTensor;
    fn on_device(tensors: &mut dyn Iterator<Item = DeviceTensor>) -> DeviceTensor {
        next_tensor(tensors)
    }
}

/// No outputs, for programs that only update states.
impl Outputs for () {
    type Read = ();
    fn tensors(self) -> Vec<Tensor> {
        Vec::new()
    }
    fn read(_: &mut dyn Iterator<Item = Value<'_>>) -> Result<()> {
        Ok(())
    }
    type OnDevice = ();
    fn on_device(_: &mut dyn Iterator<Item = DeviceTensor>) {}
}

impl Outputs for Tensor {
    type Read = Vec<f32>;
    fn tensors(self) -> Vec<Tensor> {
        vec![self]
    }
    fn read(values: &mut dyn Iterator<Item = Value<'_>>) -> Result<Vec<f32>> {
        let Value { name, dtype, elements } = next(values);
        elements.take_f32(dtype, &output(name))
    }
    type OnDevice = DeviceTensor;
    fn on_device(tensors: &mut dyn Iterator<Item = DeviceTensor>) -> DeviceTensor {
        next_tensor(tensors)
    }
}

/// Outputs with a fixed number of tensors, which arrays and tuples can contain. A `Vec` is excluded, since it
/// takes all remaining values.
pub trait Part: Outputs {}
impl Part for Tensor {}
impl<T: Element> Part for Typed<T> {}
impl<const N: usize, R: Part> Part for [R; N] {}

impl<const N: usize, R: Part> Outputs for [R; N] {
    type Read = [R::Read; N];
    fn tensors(self) -> Vec<Tensor> {
        self.into_iter().flat_map(R::tensors).collect()
    }
    fn read(values: &mut dyn Iterator<Item = Value<'_>>) -> Result<Self::Read> {
        let all: Vec<_> = (0..N).map(|_| R::read(values)).collect::<Result<_>>()?;
        Ok(all.try_into().unwrap_or_else(|_| unreachable!("as many as were read")))
    }
    type OnDevice = [R::OnDevice; N];
    fn on_device(tensors: &mut dyn Iterator<Item = DeviceTensor>) -> Self::OnDevice {
        std::array::from_fn(|_| R::on_device(tensors))
    }
}

impl Outputs for Vec<Tensor> {
    type Read = Vec<Vec<f32>>;
    fn tensors(self) -> Vec<Tensor> {
        self
    }
    fn read(values: &mut dyn Iterator<Item = Value<'_>>) -> Result<Self::Read> {
        values.map(|value| value.elements.take_f32(value.dtype, &output(value.name))).collect()
    }
    type OnDevice = Vec<DeviceTensor>;
    fn on_device(tensors: &mut dyn Iterator<Item = DeviceTensor>) -> Self::OnDevice {
        tensors.collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident)+);)*) => {$(
        impl<$($name: Part),+> Part for ($($name,)+) {}
        impl<$($name: Part),+> Outputs for ($($name,)+) {
            type Read = ($($name::Read,)+);
            #[allow(non_snake_case)]
            fn tensors(self) -> Vec<Tensor> {
                let ($($name,)+) = self;
                let mut all = Vec::new();
                $(all.extend($name.tensors());)+
                all
            }
            fn read(values: &mut dyn Iterator<Item = Value<'_>>) -> Result<Self::Read> {
                Ok(($($name::read(values)?,)+))
            }
            type OnDevice = ($($name::OnDevice,)+);
            fn on_device(tensors: &mut dyn Iterator<Item = DeviceTensor>) -> Self::OnDevice {
                ($($name::on_device(tensors),)+)
            }
        }
    )*};
}
tuples! { (A B); (A B C); (A B C D); (A B C D E); (A B C D E F); }
