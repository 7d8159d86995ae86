//! Parsing of numbers and constant data.

use super::Parser;
use super::error::Result;
use super::lexer::Token;
use crate::ir::print::{DIGITS_32, DIGITS_64};
use crate::ir::{DType, Literal, Number};

/// Parses a number as an element of a dtype. Integers are valid floats.
pub(super) fn to_number(text: &str, dtype: DType) -> std::result::Result<Number, String> {
    let parsed = match dtype {
        DType::F32 | DType::F16 | DType::BF16 => to_float(text).map(Number::Float),
        DType::I32 | DType::U32 | DType::U8 | DType::I64 => text.parse().ok().map(Number::Int),
        DType::Bool => text.parse().ok().map(Number::Bool),
    };
    match parsed.filter(|number| number.fits(dtype)) {
        Some(number) => Ok(number),
        None => Err(format!("expected a number of dtype {dtype}, found `{text}`")),
    }
}

fn to_float(text: &str) -> Option<f64> {
    match text.strip_prefix("nan(0x").and_then(|rest| rest.strip_suffix(')')) {
        Some(bits) => Some(f64::from_bits(u64::from_str_radix(bits, 16).ok()?)).filter(|v| v.is_nan()),
        None => text.parse().ok(),
    }
}

impl Parser<'_> {
    /// Parses a number or a bool. Returns its text.
    pub(super) fn scalar(&mut self) -> Result<String> {
        let text = match self.peek() {
            Token::Number(text) => text.clone(),
            Token::Word(word) if word == "true" || word == "false" => word.clone(),
            _ => return self.expected("a number, `true` or `false`"),
        };
        self.advance();
        Ok(text)
    }

    fn number(&mut self, dtype: DType) -> Result<Number> {
        let position = self.position();
        let text = self.scalar()?;
        to_number(&text, dtype).map_err(|message| position.error(message))
    }

    /// Parses a number, a list, or strings of hexadecimal digits.
    pub(super) fn literal(&mut self, dtype: DType) -> Result<Literal> {
        let digits = match self.peek() {
            Token::Mark("[") => {
                return Ok(Literal::Dense(self.list("[", "]", |parser| parser.number(dtype))?.into()));
            }
            Token::Word(word) if word == DIGITS_32 => 8,
            Token::Word(word) if word == DIGITS_64 => 16,
            _ => return Ok(Literal::Splat(self.number(dtype)?)),
        };
        self.advance();
        let mut numbers = Vec::new();
        while let Token::String(line) = self.peek() {
            for group in line.split_ascii_whitespace() {
                match from_digits(group, digits, dtype) {
                    Some(number) => numbers.push(number),
                    None => {
                        let message = format!(
                            "expected groups of {digits} hexadecimal digits for {dtype} elements, found \
                             {group:?}"
                        );
                        return Err(self.position().error(message));
                    }
                }
            }
            self.advance();
        }
        Ok(Literal::Dense(numbers.into()))
    }
}

/// Parses a group of digits as the bit pattern of an element.
fn from_digits(group: &str, digits: usize, dtype: DType) -> Option<Number> {
    if group.len() != digits || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let bits = u64::from_str_radix(group, 16).ok()?;
    match (dtype, u32::try_from(bits)) {
        (DType::F32 | DType::F16 | DType::BF16, _) if digits == 16 => {
            Some(Number::Float(f64::from_bits(bits)))
        }
        (DType::F32 | DType::F16 | DType::BF16, Ok(bits)) => {
            Some(Number::Float(f64::from(f32::from_bits(bits))))
        }
        (DType::I32, Ok(bits)) if digits == 8 => Some(Number::Int(i64::from(bits as i32))),
        (DType::U32 | DType::U8, Ok(bits)) if digits == 8 => {
            Some(Number::Int(i64::from(bits))).filter(|number| number.fits(dtype))
        }
        (DType::I64, _) if digits == 16 => Some(Number::Int(bits.cast_signed())),
        (DType::Bool, Ok(bits @ (0 | 1))) if digits == 8 => Some(Number::Bool(bits == 1)),
        _ => None,
    }
}
