//! The plan verifier.
//!
//! The verifier returns the first violated invariant of a plan or, for [`verify_commit`], of a plan and its
//! graph. It is independent of the planner's code and simulates the contents of memory from launch to launch.

mod commit;
mod contents;
mod kernels;
mod structure;

pub use commit::verify_commit;

use super::Plan;
use crate::error::{Error, ErrorKind, Result};

/// Checks a plan: accesses are within their buffers, and buffers are within their regions; each launch reads
/// only values that were written and not overwritten since, and overwrites an operand only if permitted;
/// guards are present before the commit, and outputs after it; compute launches write no persistent values;
/// parameters and states are read only with their values at the start of the step.
///
/// # Errors
/// Returns [`ErrorKind::Verify`], naming the launch or the buffers.
pub fn verify(plan: &Plan) -> Result<()> {
    structure::check(plan)?;
    contents::replay(plan)?;
    Ok(())
}

fn broken(message: String) -> Error {
    Error::new(ErrorKind::Verify, message)
}
