//! Caches programs for batches of any extent, each compiled when the extent first occurs.

use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::trace::Input;
use gradloom_device::feed::{self, Data};

/// Maximum number of cached programs; the least recently used one is dropped.
const KEPT: usize = 8;

/// Moves the program for the batch of the data to the front of the list; compiles it if it is not there.
pub(super) fn select<L>(
    lanes: &mut Vec<L>,
    inputs: impl Fn(&L) -> &[Input],
    (declared, micro_batches): (&[Input], usize),
    data: &[Data<'_>],
    make: impl FnOnce(Vec<Input>) -> Result<L>,
) -> Result<()> {
    // In the npm package, a session has one program; the package compiles one for each batch size itself.
    if cfg!(target_family = "wasm") {
        return Ok(());
    }
    let Some(extent) = extent(declared, data) else { return whole(declared, micro_batches, data) };
    let lane = match lanes.iter().position(|lane| batch(inputs(lane)) == Some(extent)) {
        Some(0) => return Ok(()),
        Some(known) => lanes.remove(known),
        None => make(resized(declared, extent))?,
    };
    lanes.insert(0, lane);
    lanes.truncate(KEPT);
    Ok(())
}

/// Returns the extent of the inputs' batch axis.
fn batch(inputs: &[Input]) -> Option<usize> {
    inputs.first()?.ty.shape.first().copied()
}

/// Returns the extent of the batch in the data: the first axis of the first input. Returns `None` if it is
/// not a whole number.
fn extent(declared: &[Input], data: &[Data<'_>]) -> Option<usize> {
    let (_, rest) = declared.first()?.ty.shape.split_first()?;
    let (item, elements) = (rest.iter().product::<usize>(), data.first()?.len());
    (item > 0 && elements.is_multiple_of(item)).then(|| elements / item)
}

/// Checks that data for which [`extent`] returns `None` does not end within an example.
///
/// # Errors
/// Returns an error if the data ends within an example. The existing program detects other mistakes.
fn whole(declared: &[Input], micro_batches: usize, data: &[Data<'_>]) -> Result<()> {
    match (declared, data) {
        ([Input { name, ty }, ..], [data, ..])
            if data.dtype() == ty.dtype && ty.shape.iter().skip(1).all(|&extent| extent > 0) =>
        {
            let ty = feed::declared(ty, micro_batches);
            let message = format!("the input `{name}` is {ty}, of any batch, got {} elements", data.len());
            Err(Error::new(ErrorKind::Feed, message).help("pass whole examples: the first axis is the batch"))
        }
        _ => Ok(()),
    }
}

/// Returns the inputs with another batch extent than declared. It replaces the extent of the first axis of
/// the first input, and of every other input whose first axis has the same extent.
fn resized(declared: &[Input], extent: usize) -> Vec<Input> {
    let batch = batch(declared);
    let mut inputs = declared.to_vec();
    for input in inputs.iter_mut().filter(|input| input.ty.shape.first().copied() == batch) {
        let mut shape = input.ty.shape.to_vec();
        if let Some(first) = shape.first_mut() {
            *first = extent;
        }
        input.ty.shape = shape.into();
    }
    inputs
}

/// Checks that the first input has a batch axis.
///
/// # Errors
/// Returns an error if the first input has no axis.
pub(super) fn check(inputs: &[Input]) -> Result<()> {
    match inputs.first() {
        Some(first) if first.ty.shape.rank() > 0 => Ok(()),
        _ => Err(Error::new(ErrorKind::Trace, "the first input has no axis of the batch")
            .help("declare an input whose first axis is the batch first")),
    }
}
