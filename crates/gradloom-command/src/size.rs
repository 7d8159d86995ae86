//! Parsing of sizes in bytes, such as `512M`.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number of bytes: `512M`, `1.5 GB`, `2GiB`, or a plain number. Units are decimal unless they contain an
/// `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Size(pub(crate) usize);

/// Error for a text that is not a number of bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoSize;

impl fmt::Display for NoSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write a number of bytes such as 512M, 1.5G or 2GiB")
    }
}

impl std::error::Error for NoSize {}

impl FromStr for Size {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Self, NoSize> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim().to_ascii_lowercase());
        let unit = unit.strip_suffix('b').unwrap_or(&unit);
        let (prefix, base) = match unit.strip_suffix('i') {
            Some(prefix) if !prefix.is_empty() => (prefix, 1024_u64),
            _ => (unit, 1000),
        };
        let power = ["", "k", "m", "g", "t"].iter().position(|known| *known == prefix).ok_or(NoSize)?;
        let factor = base.pow(power as u32);
        let bytes = match number.parse::<u64>() {
            Ok(whole) => whole.checked_mul(factor),
            // Accept a fraction of a unit if the number of bytes is below about 2^53, where f64 is exact.
            Err(_) => {
                number.parse::<f64>().ok().map(|n| n * factor as f64).filter(|n| *n < 9e15).map(|n| n as u64)
            }
        };
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).map(Size).ok_or(NoSize)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes such as \"512M\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
                usize::try_from(bytes)
                    .map(Size)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(bytes), &self))
            }

            fn visit_u64<E: Error>(self, bytes: u64) -> Result<Size, E> {
                usize::try_from(bytes)
                    .map(Size)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(bytes), &self))
            }
        }
        from.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512b", 512),
            ("512M", 512_000_000),
            ("512 MB", 512_000_000),
            ("1.5G", 1_500_000_000),
            ("2GiB", 2 << 30),
            ("64ki", 64 << 10),
            (" 3k ", 3000),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in
            ["", "M", "-1", "1e9", "12 parsecs", "i", "1i", "1.2.3M", ".", "99999999999T", "NaN", "1.5E"]
        {
            assert_eq!(text.parse::<Size>(), Err(NoSize), "{text}");
        }
    }
}
