//! Outcomes of runs.

use gradloom_core::error::{Error, ErrorKind};
use gradloom_core::ir::DType;
use gradloom_core::kernel::{Access, Layout};
use gradloom_core::plan::Plan;
use std::collections::HashSet;

/// The outcome of a run.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// All updates took effect.
    Committed,
    /// No update took effect because this guard was not finite.
    NotFinite {
        /// Name of the guard, such as `loss`.
        guard: String,
    },
}

/// Returns the error of a trap, with a hint at its cause.
pub fn trap(message: String) -> Error {
    // Compare windows of bytes, because `str::contains` would add kilobytes of code to a browser's module.
    let has = |part: &[u8]| message.as_bytes().windows(part.len()).any(|window| window == part);
    let help = if message.starts_with("index -1 ") {
        "indices count from 0; -1 also stands for a label of `ctc_loss` that is the blank, or a negative \
         length"
    } else if message.starts_with("index ") {
        "token ids, class numbers and labels count from 0: compare the data with what they index"
    } else if has(b"divided by zero") {
        "give the op another divisor where it is 0, as with `.maximum(1)`"
    } else if has(b"window") || message.starts_with("an update") {
        "a window starts at 0 or later, and ends inside the tensor"
    } else if message.starts_with("attention") {
        "offsets and lengths count keys that there are, and block tables blocks of the pool"
    } else {
        "this comes from the custom op's `run_on_host`"
    };
    Error::new(ErrorKind::Trap, message).help(help)
}

/// Returns the message for an index outside `0..extent` at a row-major position of the indices.
pub fn index_out_of_range(index: i32, indices: &[usize], position: usize, extent: usize) -> String {
    let at = coordinates(indices, position);
    format!(
        "index {index} at position {at:?} of the indices is out of range: there are {extent} rows (0..{extent})"
    )
}

/// Returns the message for a `key_length` of attention over `keys` keys.
pub fn key_length_out_of_range(length: i64, keys: usize) -> String {
    format!("attention: key_length is {length}, but there are {keys} keys (0..={keys})")
}

/// Returns the message for an entry of attention's block table over a pool of `blocks` blocks.
pub fn block_out_of_range(entry: i64, [sequence, number]: [usize; 2], blocks: usize) -> String {
    format!("attention: block_table[{sequence}, {number}] is {entry}, outside the pool of {blocks} blocks")
}

/// Returns the message for a divisor of 0 at a row-major position.
pub fn divided_by_zero(position: usize) -> String {
    format!("an integer was divided by zero, at element {position}")
}

/// Returns the coordinates of a row-major position.
pub fn coordinates(shape: &[usize], position: usize) -> Vec<usize> {
    let mut rest = position;
    let mut at = vec![0; shape.len()];
    for (coordinate, &extent) in at.iter_mut().zip(shape).rev() {
        *coordinate = rest % extent.max(1);
        rest /= extent.max(1);
    }
    if shape.is_empty() && position > 0 { vec![position] } else { at }
}

/// Returns the error of an i64 value that does not fit in i32.
pub fn out_of_i32(place: &str) -> Error {
    Error::new(ErrorKind::Trap, format!("the i64 at position {place} is not in i32's range"))
        .help("i64 is computed with, and used as an index, as i32: keep it below 2^31")
}

/// Returns the number of launches that differ in kernel, dtypes or layouts.
pub fn unique_kernels(plan: &Plan) -> usize {
    let describe = |accesses: &[Access]| -> Vec<(DType, Layout)> {
        accesses.iter().map(|a| (a.dtype, Layout { offset: 0, ..a.layout.clone() })).collect()
    };
    plan.launches
        .iter()
        .map(|l| (&l.kernel, describe(&l.reads), describe(&l.writes)))
        .collect::<HashSet<_>>()
        .len()
}
