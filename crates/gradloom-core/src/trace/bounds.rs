//! Bounds on numbers that users choose: on what one call adds to a program (constants that are computed while
//! the model is traced, and ops for each part of an axis), and on the numbers that a function computes with.
//!
//! In: a count, or a number and its range. Out: whether it is within the bound; if not, the trace has an
//! error that names it. Always holds: what passes takes less than a second and a gigabyte. Extents of values
//! have bounds of their own, `verify/extents.rs`.

use super::tensor::fail_with_help;
use crate::decimal::Decimal;

/// Numbers that a call may put into the program as constants.
const MOST_NUMBERS: usize = 1 << 24;

/// Parts that a call may cut an axis into, or put together: there are ops for each.
const MOST_PARTS: usize = 1 << 14;

/// Returns whether the numbers of a constant are few enough; if not, that is an error of the function named
/// `token`, which `call` describes.
#[track_caller]
pub(super) fn fits_constants(token: &str, count: usize, call: impl FnOnce() -> String) -> bool {
    let fits = count <= MOST_NUMBERS;
    if !fits {
        let message = format!("{}: {count} numbers, as constants of the program", call());
        fail_with_help(token, message, &format!("{MOST_NUMBERS} are the most: take fewer elements"));
    }
    fits
}

/// Returns whether the parts of a call are few enough; if not, that is an error of the function named
/// `token`, which `call` describes.
#[track_caller]
pub(super) fn fits_parts(token: &str, count: usize, call: impl FnOnce() -> String) -> bool {
    let fits = count <= MOST_PARTS;
    if !fits {
        let message = format!("{}: {count} parts, each with ops of its own", call());
        fail_with_help(token, message, &format!("{MOST_PARTS} are the most: take fewer"));
    }
    fits
}

/// The range of a number that a function computes with, in float32.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Range {
    /// All numbers but NaN, infinite ones too.
    Ordered,
    /// Finite numbers.
    Finite,
    /// Finite numbers from 0.
    NotNegative,
    /// Finite numbers above 0 whose reciprocal is finite, too.
    Positive,
    /// From 0 to 1.
    Part,
}

impl Range {
    fn holds(self, number: f64) -> bool {
        const LARGEST: f64 = f32::MAX as f64;
        match self {
            Self::Ordered => !number.is_nan(),
            Self::Finite => number.abs() <= LARGEST,
            Self::NotNegative => (0.0..=LARGEST).contains(&number),
            Self::Positive => (f32::MIN_POSITIVE.into()..=LARGEST).contains(&number),
            Self::Part => (0.0..=1.0).contains(&number),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Ordered => "is a number, not NaN",
            Self::Finite => "is a finite float32",
            Self::NotNegative => "is a finite float32, and not negative",
            Self::Positive => "is a finite float32 above 0, from 1.2e-38",
            Self::Part => "is from 0 to 1",
        }
    }
}

/// Returns whether a number that is called by this name lies in its range; if not, that is an error of the
/// function named `token`.
#[track_caller]
pub(crate) fn is_in_range(token: &str, name: &str, number: f64, range: Range) -> bool {
    let holds = range.holds(number);
    if !holds {
        let message = format!("`{token}`: the {name} is {}", Decimal::from(number));
        fail_with_help(token, message, &format!("the {name} {}", range.text()));
    }
    holds
}
