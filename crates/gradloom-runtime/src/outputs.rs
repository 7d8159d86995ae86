//! What a forward program gives back.

use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::DType;
use gradloom_core::trace::Tensor;

/// Tensors that a closure returns, and the host data that a run gives for them.
pub trait Outputs {
    /// Host data: a `Vec<f32>` for each tensor.
    type Read;
    /// The tensors in order.
    fn tensors(self) -> Vec<Tensor>;
    /// The data from the tensors' elements in order.
    fn read(values: &mut dyn Iterator<Item = Vec<f32>>) -> Self::Read;
}

fn next(values: &mut dyn Iterator<Item = Vec<f32>>) -> Vec<f32> {
    values.next().expect("one value for each tensor")
}

/// For programs that only update states.
impl Outputs for () {
    type Read = ();
    fn tensors(self) -> Vec<Tensor> {
        Vec::new()
    }
    fn read(_: &mut dyn Iterator<Item = Vec<f32>>) {}
}

impl Outputs for Tensor {
    type Read = Vec<f32>;
    fn tensors(self) -> Vec<Tensor> {
        vec![self]
    }
    fn read(values: &mut dyn Iterator<Item = Vec<f32>>) -> Vec<f32> {
        next(values)
    }
}

impl<const N: usize> Outputs for [Tensor; N] {
    type Read = [Vec<f32>; N];
    fn tensors(self) -> Vec<Tensor> {
        self.to_vec()
    }
    fn read(values: &mut dyn Iterator<Item = Vec<f32>>) -> Self::Read {
        std::array::from_fn(|_| next(values))
    }
}

impl Outputs for Vec<Tensor> {
    type Read = Vec<Vec<f32>>;
    fn tensors(self) -> Vec<Tensor> {
        self
    }
    fn read(values: &mut dyn Iterator<Item = Vec<f32>>) -> Self::Read {
        values.collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident)+);)*) => {$(
        impl<$($name: Outputs),+> Outputs for ($($name,)+) {
            type Read = ($($name::Read,)+);
            #[allow(non_snake_case)]
            fn tensors(self) -> Vec<Tensor> {
                let ($($name,)+) = self;
                let mut all = Vec::new();
                $(all.extend($name.tensors());)+
                all
            }
            fn read(values: &mut dyn Iterator<Item = Vec<f32>>) -> Self::Read {
                ($($name::read(values),)+)
            }
        }
    )*};
}
tuples! { (A B); (A B C); (A B C D); }

/// Elements as f32; integers must be exactly representable.
pub(crate) fn to_f32(dtype: DType, bytes: &[u8]) -> Result<Vec<f32>> {
    let words = bytes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
    let exact = |v: i64| {
        let float = v as f32;
        if float as i64 == v {
            return Ok(float);
        }
        Err(Error::new(ErrorKind::Feed, format!("the integer {v} is not an f32"))
            .help("convert it in the model with .cast(..)"))
    };
    match dtype {
        DType::F32 => Ok(words.map(f32::from_ne_bytes).collect()),
        DType::I32 => words.map(|w| exact(i64::from(i32::from_ne_bytes(w)))).collect(),
        DType::U32 => words.map(|w| exact(i64::from(u32::from_ne_bytes(w)))).collect(),
        DType::Bool => Ok(bytes.iter().map(|&b| f32::from(b)).collect()),
    }
}
