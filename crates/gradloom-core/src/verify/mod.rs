//! Verification of a graph's invariants between stages.
//!
//! The graph may come from tracing, a pass or the text form, and may be malformed in any way. The verifier
//! returns the first violated invariant with the op that violates it, and never panics. A verified graph can
//! be printed, evaluated and lowered without further checks of ids, types or order. Blocks that are not
//! reachable from the entry block, and ops that are in no block, are ignored, because rewrites leave them
//! behind.

mod commit;
mod error;
mod extents;
mod leaves;
mod size;
mod structure;

pub use error::VerifyError;
pub(crate) use extents::{check_extents, check_type};
pub use size::MAX_EXPANDED_OPS;

use crate::collections::IdMap;
use crate::ir::{BlockId, Graph, ValueId};

/// Maximum nesting depth of blocks. An op of the entry block that runs a block counts as one level. The limit
/// allows stages to recurse over blocks.
pub const MAX_BLOCK_DEPTH: usize = 64;

/// Defining block of each value of the reachable blocks.
type Homes = IdMap<ValueId, BlockId>;

/// Checks that the blocks of a graph expand to a bounded number of ops.
///
/// # Errors
/// Returns an error if the blocks expand to more than [`MAX_EXPANDED_OPS`] ops, are nested deeper than
/// [`MAX_BLOCK_DEPTH`], or run each other recursively.
pub(crate) fn check_expansion(graph: &Graph) -> Result<(), VerifyError> {
    size::check(graph, &structure::callees_first(graph)?)
}

/// Checks all invariants documented by [`Graph`] and [`crate::ir::OpKind`].
///
/// # Errors
/// Returns the first violated invariant, with the op in its text form and its location in the user's source.
pub fn verify(graph: &Graph) -> Result<(), VerifyError> {
    if graph.blocks.get(graph.entry).is_none() {
        return Err(VerifyError::new(format!("the entry block {} does not exist", graph.entry)));
    }
    if graph.blocks.get(graph.cursor).is_none() {
        return Err(VerifyError::new(format!(
            "the cursor stands at block {}, which does not exist",
            graph.cursor
        )));
    }
    let homes = structure::check(graph)?;
    leaves::check(graph)?;
    commit::check(graph, &homes)
}
