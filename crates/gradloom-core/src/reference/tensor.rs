//! Tensors on the host, with floats stored in float64.

use crate::ir::{DType, Literal, Number, Type};

/// Elements in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum HostData {
    /// Floats, which are rounded only by conversions to 16-bit floats.
    Float(Vec<f64>),
    /// Integers within the range of the dtype.
    Int(Vec<i64>),
    /// Bools.
    Bool(Vec<bool>),
}

/// A tensor on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Element type and shape.
    pub ty: Type,
    /// Elements. Their number must equal the number of elements of the type.
    pub data: HostData,
}

impl HostTensor {
    /// Creates a tensor from float64 numbers, converted by [`Number::of`].
    ///
    /// # Panics
    /// Panics if the number of values differs from the number of elements of the type.
    pub fn from_f64(ty: Type, values: impl IntoIterator<Item = f64>) -> Self {
        let numbers = values.into_iter().map(|v| Number::of(ty.dtype, v));
        let tensor = Self::from_numbers(ty.clone(), numbers);
        assert_eq!(tensor.len(), ty.elements(), "{ty} needs {} elements", ty.elements());
        tensor
    }

    /// Creates a tensor from a constant's data.
    pub fn from_literal(ty: &Type, data: &Literal) -> Self {
        Self::from_numbers(ty.clone(), (0..ty.elements()).map(|i| data.get(i)))
    }

    /// Creates a tensor from its elements in row-major order. Their number must equal that of `ty`.
    pub(super) fn from_numbers(ty: Type, numbers: impl IntoIterator<Item = Number>) -> Self {
        Self::collect(ty, &mut numbers.into_iter())
    }

    fn collect(ty: Type, numbers: &mut dyn Iterator<Item = Number>) -> Self {
        let data = match ty.dtype {
            DType::F32 | DType::F16 | DType::BF16 => HostData::Float(numbers.map(Number::as_f64).collect()),
            DType::I32 | DType::U32 | DType::U8 | DType::I64 => HostData::Int(
                numbers.map(|n| if let Number::Int(v) = n { v } else { n.as_f64() as i64 }).collect(),
            ),
            DType::Bool => HostData::Bool(numbers.map(|n| n.as_f64() != 0.0).collect()),
        };
        Self { ty, data }
    }

    /// Checks that the data matches the type: the number of elements, their kind, and their range.
    ///
    /// # Errors
    /// Returns a description of the mismatch.
    pub fn check(&self) -> Result<(), String> {
        if self.len() != self.ty.elements() {
            return Err(format!("a tensor of type {} has {} elements", self.ty, self.len()));
        }
        match (0..self.len()).map(|i| self.get(i)).find(|n| !n.fits(self.ty.dtype)) {
            Some(number) => Err(format!("a tensor of type {} has the element {number}", self.ty)),
            None => Ok(()),
        }
    }

    /// Returns the elements of a float tensor.
    pub(super) fn floats(&self) -> &[f64] {
        match &self.data {
            HostData::Float(v) => v,
            _ => unreachable!("{} is no float tensor", self.ty),
        }
    }

    /// Returns an element of an integer tensor.
    pub(super) fn integer(&self, index: usize) -> i64 {
        match &self.data {
            HostData::Int(v) => v[index],
            _ => unreachable!("{} is no integer tensor", self.ty),
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match &self.data {
            HostData::Float(v) => v.len(),
            HostData::Int(v) => v.len(),
            HostData::Bool(v) => v.len(),
        }
    }

    /// Returns `true` if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the element at a row-major index.
    pub fn get(&self, index: usize) -> Number {
        match &self.data {
            HostData::Float(v) => Number::Float(v[index]),
            HostData::Int(v) => Number::Int(v[index]),
            HostData::Bool(v) => Number::Bool(v[index]),
        }
    }

    /// Returns all elements in float64.
    pub fn to_f64(&self) -> Vec<f64> {
        (0..self.len()).map(|i| self.get(i).as_f64()).collect()
    }
}
