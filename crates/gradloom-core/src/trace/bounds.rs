//! Bounds on numbers that users choose: on the size of what one call adds to a program (constants that are
//! computed during tracing, and ops for each part of an axis), and on the arguments of functions.
//!
//! In: a count, or a number and its range. Out: `true` if it is within the bound; otherwise, an error of the
//! trace that names it. Invariant: an accepted call takes less than a second and a gigabyte. The extents of
//! values have separate bounds, see `verify/extents.rs`.

use super::tensor::fail;
use crate::decimal::Decimal;

/// Maximum number of elements in the constants of one call.
const MOST_NUMBERS: usize = 1 << 24;

/// Maximum number of parts into which a call may split an axis or that it may join, because each part adds
/// ops.
const MOST_PARTS: usize = 1 << 14;

/// Returns `true` if a constant of `count` numbers is small enough; otherwise, records an error of the
/// function `token`. `call` describes the call in the message.
#[track_caller]
pub(super) fn fits_constants(token: &str, count: usize, call: impl FnOnce() -> String) -> bool {
    let fits = count <= MOST_NUMBERS;
    if !fits {
        let message = format!("{}: {count} numbers, as constants of the program", call());
        fail(token, message, format!("{MOST_NUMBERS} are the most: take fewer elements"));
    }
    fits
}

/// Returns `true` if `count` parts are few enough; otherwise, records an error of the function `token`.
/// `call` describes the call in the message.
#[track_caller]
pub(super) fn fits_parts(token: &str, count: usize, call: impl FnOnce() -> String) -> bool {
    let fits = count <= MOST_PARTS;
    if !fits {
        let message = format!("{}: {count} parts, each with ops of its own", call());
        fail(token, message, format!("{MOST_PARTS} are the most: take fewer"));
    }
    fits
}

/// The range of an argument, which the program uses as f32.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Range {
    /// All numbers except NaN, including infinities.
    Ordered,
    /// Finite numbers.
    Finite,
    /// Finite numbers of at least 0.
    NotNegative,
    /// Positive finite numbers with a finite reciprocal.
    Positive,
    /// Numbers from 0 to 1.
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

/// Returns `true` if an argument lies in its range; otherwise, records an error of the function `token` that
/// refers to the argument by `name`.
#[track_caller]
pub(crate) fn is_in_range(token: &str, name: &str, number: f64, range: Range) -> bool {
    let holds = range.holds(number);
    if !holds {
        let message = format!("`{token}`: the {name} is {}", Decimal::from(number));
        fail(token, message, format!("the {name} {}", range.text()));
    }
    holds
}
