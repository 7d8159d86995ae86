//! Metadata values.
//!
//! In: bytes of a file. Out: a [`Value`] that borrows strings and array elements from them. Invariant:
//! reading a value validates all of it, including the elements of arrays, and allocates nothing.

use super::cursor::{Cursor, Fault};
use std::fmt;

/// Maximum nesting depth of arrays. It exceeds what any known program writes, and limits stack use.
const DEEPEST: usize = 8;

/// An array whose elements have the same type and remain in the file.
#[derive(Clone, Copy)]
pub struct Array<'a> {
    ty: u32,
    name: &'static str,
    length: usize,
    bytes: &'a [u8],
    deep: usize,
}

const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// Defines [`Value`] from a table of the types of numbers: `Variant(type) = number in the file`.
macro_rules! values {
    (
        integers: $($integer:ident($i:ident) = $m:literal),*;
        floats: $($float:ident($f:ident) = $n:literal),*;
    ) => {
        /// A metadata value.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug)]
        pub enum Value<'a> {
            $($integer($i),)*
            $($float($f),)*
            Bool(bool),
            String(&'a str),
            /// A string that is not UTF-8, written by a program that does not validate strings.
            Bytes(&'a [u8]),
            Array(Array<'a>),
        }

        /// Returns the name of the type with number `ty`, and the minimum size of a value in bytes: the exact
        /// size of numbers, and the header of strings and arrays.
        fn named(ty: u32) -> Result<(&'static str, usize), Fault> {
            Ok(match ty {
                $($m => (stringify!($i), size_of::<$i>()),)*
                $($n => (stringify!($f), size_of::<$f>()),)*
                BOOL => ("bool", 1),
                STRING => ("string", 8),
                ARRAY => ("array", 12),
                _ => return Err(format!("there is no type {ty} of values")),
            })
        }

        impl<'a> Value<'a> {
            /// Reads a value of the type with number `ty`, nested in `deep` arrays.
            pub(super) fn read(cursor: &mut Cursor<'a>, ty: u32, deep: usize) -> Result<Self, Fault> {
                Ok(match ty {
                    $($m => Self::$integer($i::from_le_bytes(cursor.array()?)),)*
                    $($n => Self::$float($f::from_le_bytes(cursor.array()?)),)*
                    BOOL => match cursor.array()? {
                        [0] => Self::Bool(false),
                        [1] => Self::Bool(true),
                        [other] => return Err(format!("a bool is {other} and not 0 or 1")),
                    },
                    STRING => {
                        let bytes = cursor.text()?;
                        std::str::from_utf8(bytes).map_or(Self::Bytes(bytes), Self::String)
                    }
                    ARRAY => Self::Array(Array::read(cursor, deep)?),
                    _ => return Err(format!("there is no type {ty} of values")),
                })
            }

            /// Returns the value if it is an integer of any width.
            fn integer(self) -> Option<i128> {
                match self {
                    $(Self::$integer(x) => Some(x.into()),)*
                    _ => None,
                }
            }
        }

        /// Displays the type, including an array's length: `u32`, `array of 3 x string`.
        impl fmt::Display for Value<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$integer(_) => stringify!($i),)*
                    $(Self::$float(_) => stringify!($f),)*
                    Self::Bool(_) => "bool",
                    Self::String(_) => "string",
                    Self::Bytes(_) => "string that is not UTF-8",
                    Self::Array(Array { length, name, .. }) => return write!(f, "array of {length} x {name}"),
                })
            }
        }
    };
}

values! {
    integers: U8(u8) = 0, I8(i8) = 1, U16(u16) = 2, I16(i16) = 3, U32(u32) = 4, I32(i32) = 5, U64(u64) = 10,
        I64(i64) = 11;
    floats: F32(f32) = 6, F64(f64) = 12;
}

impl<'a> Array<'a> {
    fn read(cursor: &mut Cursor<'a>, deep: usize) -> Result<Self, Fault> {
        if deep == DEEPEST {
            return Err(format!("arrays lie more than {DEEPEST} deep in each other"));
        }
        let (ty, length) = (cursor.u32()?, cursor.u64()?);
        let (name, size) = named(ty)?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| length.checked_mul(size).is_some_and(|bytes| bytes <= cursor.left()))
            .ok_or_else(|| {
                format!("an array of {length} x {name} does not fit into the {} bytes left", cursor.left())
            })?;
        let mut end = cursor.clone();
        for index in 0..length {
            Value::read(&mut end, ty, deep + 1).map_err(|fault| format!("element {index}: {fault}"))?;
        }
        let bytes = cursor.take((end.at() - cursor.at()) as u64)?;
        Ok(Self { ty, name, length, bytes, deep })
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
