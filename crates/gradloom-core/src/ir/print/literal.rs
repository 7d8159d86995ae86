//! Lossless printing of numbers and constant data.

use crate::decimal::Decimal;
use crate::ir::{DType, Literal, Number, Type};
use std::fmt::{self, Write};

/// Keyword before the data of a large constant in groups of 8 hexadecimal digits, which are the bits of an
/// `f32`, `i32` or `u32`. Numbers of narrower dtypes are converted to one of these.
pub(in crate::ir) const DIGITS_32: &str = "hex32";
/// Keyword before the data of a large constant in groups of 16 hexadecimal digits, which are the bits of an
/// `i64`, or of a float64 if the data is not exactly representable in float32.
pub(in crate::ir) const DIGITS_64: &str = "hex64";

/// Maximum number of elements that are written as a list.
const INLINE: usize = 16;

/// Number of digit groups per line.
const PER_LINE: usize = 8;

/// Returns the shortest decimal text that parses back to the same bits.
pub(super) fn float(v: f64) -> String {
    if !v.is_nan() {
        format!("{:?}", Decimal::from(v))
    } else if v.to_bits() == f64::NAN.to_bits() {
        "nan".to_string()
    } else {
        format!("nan({:#x})", v.to_bits())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&number(*self))
    }
}

pub(super) fn number(number: Number) -> String {
    match number {
        Number::Float(v) => float(v),
        Number::Int(v) => v.to_string(),
        Number::Bool(v) => v.to_string(),
    }
}

/// Writes a splat as one number, few elements as a list, and many elements as quoted lines of hexadecimal
/// digits.
pub(super) fn write_literal(f: &mut impl Write, ty: &Type, data: &Literal, elide: bool) -> fmt::Result {
    let values = match data {
        Literal::Splat(value) => return f.write_str(&number(*value)),
        Literal::Dense(values) => values,
    };
    // Data that does not fit its type is written as a list, which shows each number.
    if values.len() <= INLINE || !values.iter().all(|v| v.fits(ty.dtype)) {
        return write!(f, "[{}]", values.iter().map(|&v| number(v)).collect::<Vec<_>>().join(", "));
    }
    if elide {
        return write!(f, "[.. {} elements]", values.len());
    }
    let is_f32 = |v: f64| !v.is_nan() && f64::from(v as f32).to_bits() == v.to_bits();
    let wide = match ty.dtype {
        DType::I64 => true,
        dtype => dtype.is_float() && !values.iter().all(|v| is_f32(v.as_f64())),
    };
    f.write_str(if wide { DIGITS_64 } else { DIGITS_32 })?;
    for line in values.chunks(PER_LINE) {
        f.write_str("\n      \"")?;
        for (i, value) in line.iter().enumerate() {
            if i > 0 {
                f.write_char(' ')?;
            }
            match *value {
                Number::Float(v) if wide => write!(f, "{:016x}", v.to_bits())?,
                Number::Int(v) if wide => write!(f, "{v:016x}")?,
                Number::Float(v) => write!(f, "{:08x}", (v as f32).to_bits())?,
                Number::Int(v) => write!(f, "{:08x}", v as u32)?,
                Number::Bool(v) => write!(f, "{:08x}", u32::from(v))?,
            }
        }
        f.write_char('"')?;
    }
    Ok(())
}
