//! Bounds on what one call adds to a program, for numbers that users choose: constants that are computed
//! while the model is traced, and ops for each part of an axis.
//!
//! In: a count. Out: whether it is within the bound; if not, the trace has an error that names it. Always
//! holds: what passes takes less than a second and a gigabyte. Extents of values have bounds of their own,
//! `verify/extents.rs`.

use super::tensor::fail_with_help;

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
