//! Metadata values.
//!
//! In: bytes of a file. Out: a [`Value`] that borrows strings and array elements from them. Invariant:
//! reading a value validates all of it, including the elements of arrays, and allocates nothing.

use super::cursor::{Cursor, Fault};
use std::fmt;

/// Maximum nesting depth of arrays. It exceeds what any known program writes, and limits stack use.
const DEEPEST: usize = 8;

/// A metadata value.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(&'a str),
    /// A string that is not UTF-8, written by a program that does not validate strings.
    Bytes(&'a [u8]),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array whose elements have the same type and remain in the file.
#[derive(Clone, Copy)]
pub struct Array<'a> {
    ty: u32,
    length: usize,
    bytes: &'a [u8],
    deep: usize,
}

const STRING: u32 = 8;
const ARRAY: u32 = 9;
/// Names of the types, indexed by their numbers in the file.
const NAMES: [&str; 13] =
    ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"];
/// Minimum size of a value of each type in bytes: the exact size of numbers, and the header of strings and
/// arrays.
const SIZES: [usize; 13] = [1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8];

impl<'a> Value<'a> {
    /// Reads a value of the type with number `ty`, nested in `deep` arrays.
    pub(super) fn read(cursor: &mut Cursor<'a>, ty: u32, deep: usize) -> Result<Self, Fault> {
        Ok(match ty {
            0 => Self::U8(u8::from_le_bytes(cursor.array()?)),
            1 => Self::I8(i8::from_le_bytes(cursor.array()?)),
            2 => Self::U16(u16::from_le_bytes(cursor.array()?)),
            3 => Self::I16(i16::from_le_bytes(cursor.array()?)),
            4 => Self::U32(cursor.u32()?),
            5 => Self::I32(i32::from_le_bytes(cursor.array()?)),
            6 => Self::F32(f32::from_le_bytes(cursor.array()?)),
            7 => match cursor.array()? {
                [0] => Self::Bool(false),
                [1] => Self::Bool(true),
                [other] => return Err(format!("a bool is {other} and not 0 or 1")),
            },
            STRING => {
                let bytes = cursor.text()?;
                std::str::from_utf8(bytes).map_or(Self::Bytes(bytes), Self::String)
            }
            ARRAY => Self::Array(Array::read(cursor, deep)?),
            10 => Self::U64(cursor.u64()?),
            11 => Self::I64(i64::from_le_bytes(cursor.array()?)),
            12 => Self::F64(f64::from_le_bytes(cursor.array()?)),
            _ => return Err(format!("there is no type {ty} of values")),
        })
    }

    /// Returns the value if it is an integer of any width.
    fn integer(self) -> Option<i128> {
        Some(match self {
            Self::U8(x) => x.into(),
            Self::I8(x) => x.into(),
            Self::U16(x) => x.into(),
            Self::I16(x) => x.into(),
            Self::U32(x) => x.into(),
            Self::I32(x) => x.into(),
            Self::U64(x) => x.into(),
            Self::I64(x) => x.into(),
            _ => return None,
        })
    }
}

impl<'a> Array<'a> {
    fn read(cursor: &mut Cursor<'a>, deep: usize) -> Result<Self, Fault> {
        if deep == DEEPEST {
            return Err(format!("arrays lie more than {DEEPEST} deep in each other"));
        }
        let (ty, length) = (cursor.u32()?, cursor.u64()?);
        let size = *SIZES.get(ty as usize).ok_or_else(|| format!("there is no type {ty} of values"))?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| length.checked_mul(size).is_some_and(|bytes| bytes <= cursor.left()))
            .ok_or_else(|| {
                let name = NAMES[ty as usize];
                format!("an array of {length} x {name} does not fit into the {} bytes left", cursor.left())
            })?;
        let mut end = cursor.clone();
        for index in 0..length {
            Value::read(&mut end, ty, deep + 1).map_err(|fault| format!("element {index}: {fault}"))?;
        }
        let bytes = cursor.take((end.at() - cursor.at()) as u64)?;
        Ok(Self { ty, length, bytes, deep })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns `true` if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (ty, deep, mut cursor) = (self.ty, self.deep, Cursor::new(self.bytes, 0));
        // The elements were validated when the file was opened. If one has become invalid since, the array
        // ends there.
        (0..self.length).map_while(move |_| Value::read(&mut cursor, ty, deep + 1).ok())
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Displays the type, including an array's length: `u32`, `array of 3 x string`.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::F32(_) => "f32",
            Self::Bool(_) => "bool",
            Self::String(_) => "string",
            Self::Bytes(_) => "string that is not UTF-8",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F64(_) => "f64",
            Self::Array(array) => {
                return write!(f, "array of {} x {}", array.length, NAMES[array.ty as usize]);
            }
        })
    }
}

/// A type to which metadata values can be converted.
pub trait FromValue<'a>: Sized {
    /// Returns a description of the expected type for messages, such as `a string`.
    fn wanted() -> String;

    /// Returns the converted value if its type is compatible and the value is in range.
    fn from_value(value: Value<'a>) -> Option<Self>;
}

macro_rules! from_integer {
    ($($ty:ty: $wanted:literal;)*) => {$(
        impl FromValue<'_> for $ty {
            fn wanted() -> String {
                $wanted.to_string()
            }

            fn from_value(value: Value<'_>) -> Option<Self> {
                value.integer()?.try_into().ok()
            }
        }
    )*};
}

from_integer! {
    u32: "an integer from 0 to 4294967295";
    i32: "an integer of 32 bits";
    usize: "an integer from 0 on";
}

impl FromValue<'_> for f32 {
    fn wanted() -> String {
        "a float".to_string()
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::F32(x) => Some(x),
            Value::F64(x) => Some(x as f32),
            _ => None,
        }
    }
}

impl FromValue<'_> for bool {
    fn wanted() -> String {
        "a bool".to_string()
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        if let Value::Bool(x) = value { Some(x) } else { None }
    }
}

impl<'a> FromValue<'a> for &'a str {
    fn wanted() -> String {
        "a string".to_string()
    }

    fn from_value(value: Value<'a>) -> Option<Self> {
        if let Value::String(x) = value { Some(x) } else { None }
    }
}

/// Replaces invalid UTF-8.
impl FromValue<'_> for String {
    fn wanted() -> String {
        "a string".to_string()
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::String(text) => Some(text.to_string()),
            Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Vec<T> {
    fn wanted() -> String {
        format!("an array, each element {}", T::wanted())
    }

    fn from_value(value: Value<'a>) -> Option<Self> {
        let Value::Array(array) = value else { return None };
        array.iter().map(T::from_value).collect()
    }
}
