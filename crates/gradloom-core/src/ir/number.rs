//! Numbers of the IR and constant data.

use super::DType;
use std::sync::Arc;

/// A number in the IR. Floats are stored in float64, so the reference evaluator uses them unrounded.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A float. Backends round it to its dtype.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A `bool`.
    Bool(bool),
}

impl Number {
    /// Converts `value` to a number of the given dtype. For `bool`, nonzero values are true; for integers,
    /// fractions are truncated.
    pub fn of(dtype: DType, value: f64) -> Number {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Number::Float(value),
            DType::I32 | DType::U32 | DType::U8 | DType::I64 => Number::Int(value as i64),
            DType::Bool => Number::Bool(value != 0.0),
        }
    }

    /// Converts the value to float64.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Float(v) => v,
            Number::Int(v) => v as f64,
            Number::Bool(v) => f64::from(u8::from(v)),
        }
    }

    /// Returns `true` if the number is a valid element of a constant of this dtype.
    pub fn fits(self, dtype: DType) -> bool {
        match self {
            Number::Float(_) => dtype.is_float(),
            Number::Int(v) => match dtype {
                DType::I32 => i32::try_from(v).is_ok(),
                DType::U32 => u32::try_from(v).is_ok(),
                DType::U8 => u8::try_from(v).is_ok(),
                DType::I64 => true,
                _ => false,
            },
            Number::Bool(_) => dtype == DType::Bool,
        }
    }

    fn key(self) -> (u8, u64) {
        match self {
            Number::Float(v) => (0, v.to_bits()),
            Number::Int(v) => (1, v as u64),
            Number::Bool(v) => (2, u64::from(v)),
        }
    }
}

/// Returns the low and the high 32 bits of an i64 as i32.
pub(crate) fn words_of(number: Number) -> [Number; 2] {
    let Number::Int(bits) = number else { unreachable!("an i64 is an integer") };
    [bits, bits >> 32].map(|word| Number::Int(i64::from(word as i32)))
}

/// Compares bitwise: `-0.0` differs from `0.0`, and a NaN equals a NaN with the same bits.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Number {}
impl std::hash::Hash for Number {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// The data of a constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Literal {
    /// Every element is this number.
    Splat(Number),
    /// Elements in row-major order. Their number equals the number of elements of the type.
    Dense(Arc<[Number]>),
}

impl Literal {
    /// Returns the element at a row-major index.
    pub fn get(&self, index: usize) -> Number {
        match self {
            Literal::Splat(n) => *n,
            Literal::Dense(data) => data[index],
        }
    }
}
