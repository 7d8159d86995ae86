//! Programs whose batch may have any extent: compiled for each that comes, and kept.

use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::trace::Input;
use gradloom_device::feed::{self, Data};

/// Programs that are kept; of more, the one that was not used for the longest time is dropped.
const KEPT: usize = 8;

/// Puts the program for the batch of the data first in the list, and creates it if there is none.
pub(super) fn select<L>(
    lanes: &mut Vec<L>,
    inputs: impl Fn(&L) -> &[Input],
    (declared, micro_batches): (&[Input], usize),
    data: &[Data<'_>],
    make: impl FnOnce(Vec<Input>) -> Result<L>,
) -> Result<()> {
    // Pages compile for each batch themselves.
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

/// Returns the extent of the batch of inputs.
fn batch(inputs: &[Input]) -> Option<usize> {
    inputs.first()?.ty.shape.first().copied()
}

/// Returns the extent of the batch that data has: the first axis of the first input. `None` where it is no
/// whole one.
fn extent(declared: &[Input], data: &[Data<'_>]) -> Option<usize> {
    let (_, rest) = declared.first()?.ty.shape.split_first()?;
    let (item, elements) = (rest.iter().product::<usize>(), data.first()?.len());
    (item > 0 && elements.is_multiple_of(item)).then(|| elements / item)
}

/// Checks that data for which [`extent`] is `None` does not end within an example.
///
/// # Errors
/// When data ends within an example. Other mistakes are found with the program that is there.
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

/// Returns the inputs for a batch of another extent than the declared one: on the first axis of the first
/// input, and on that of every other input where it has the same extent.
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

/// # Errors
/// When the first input has no axis that could be the batch's.
pub(super) fn check(inputs: &[Input]) -> Result<()> {
    match inputs.first() {
        Some(first) if first.ty.shape.rank() > 0 => Ok(()),
        _ => Err(Error::new(ErrorKind::Trace, "the first input has no axis of the batch")
            .help("declare an input whose first axis is the batch first")),
    }
}
