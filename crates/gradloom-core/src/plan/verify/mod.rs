//! The plan verifier.
//!
//! In: a plan, and for [`verify_commit`] its graph. Out: nothing, or the first broken promise. It does not
//! use the code that makes plans: it follows the bytes from launch to launch.

mod commit;
mod contents;
mod kernels;
mod structure;

pub use commit::verify_commit;

use super::Plan;
use crate::error::{Error, ErrorKind, Result};

/// Checks a plan by itself: accesses stay inside their buffers and buffers inside their regions; each launch
/// reads only values that were written and not overwritten since, and overwrites an operand only where it
/// may; guards are there before the commit and outputs after it; compute launches write nothing that
/// persists; a parameter or state is read only as it was at the start of the step.
///
/// # Errors
/// [`ErrorKind::Verify`], naming the launch or the buffers.
pub fn verify(plan: &Plan) -> Result<()> {
    structure::check(plan)?;
    contents::replay(plan)?;
    Ok(())
}

fn broken(message: String) -> Error {
    Error::new(ErrorKind::Verify, message)
}
