//! Checks that every trainable parameter has a gradient.
//!
//! A missing gradient is nearly always a mistake in the model, such as a layer that is never called or a
//! stray `detach`. Training would silently leave the parameter unchanged, so this is an error unless the
//! parameter is frozen.

use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Graph, ValueId};

/// Checks that each of the `(name, value)` parameters has a gradient. `gradients` is the result of
/// [`super::append`] in the same order.
///
/// # Errors
/// Returns [`ErrorKind::MissingGradient`], naming all parameters without a gradient, at the location of the
/// first.
///
/// # Panics
/// Panics if the numbers of gradients and parameters differ.
pub fn coverage(graph: &Graph, params: &[(&str, ValueId)], gradients: &[Option<ValueId>]) -> Result<()> {
    assert_eq!(params.len(), gradients.len(), "a gradient, or its absence, for each parameter");
    let missing: Vec<_> =
        params.iter().zip(gradients).filter(|(_, gradient)| gradient.is_none()).map(|(p, _)| *p).collect();
    let Some(&(_, first)) = missing.first() else { return Ok(()) };
    let names: Vec<_> = missing.iter().map(|(name, _)| format!("`{name}`")).collect();
    let message = match names.as_slice() {
        [name] => format!("the loss does not depend on the trainable parameter {name}"),
        names => {
            format!("the loss does not depend on {} trainable parameters: {}", names.len(), names.join(", "))
        }
    };
    let pronoun = if names.len() == 1 { "it" } else { "each of them" };
    let error = Error::new(ErrorKind::MissingGradient, message)
        .note(
            "no path that a gradient can flow along leads from there to the loss (detach, floor, sign, \
             comparisons, argmax and casts to integers end a path)",
        )
        .help(format!("use {pronoun} in the loss, or call .freeze() on {pronoun} to train the rest without"));
    Err(graph.blame(graph.defining_op(first), error))
}
