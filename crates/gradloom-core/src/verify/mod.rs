//! The invariants of a graph, checked between stages.
//!
//! In: a graph from tracing, a pass, or the text form, possibly broken in any way. Out: nothing, or the first
//! broken invariant with the op that breaks it. Always holds: it panics on no graph, and a graph that it
//! accepts can be printed, evaluated and lowered without any further check of ids, types or order. Blocks
//! that the entry block does not reach, and ops that are in no block, are not looked at: they are what
//! rewrites leave behind.

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

/// Maximum depth to which blocks may nest: an op of the entry block that runs a block counts as one. Stages
/// may recurse over blocks.
pub const MAX_BLOCK_DEPTH: usize = 64;

/// The block that defines each value that a reachable block defines.
type Homes = IdMap<ValueId, BlockId>;

/// Checks that the blocks of a graph expand to a bounded number of ops.
///
/// # Errors
/// When they make more than [`MAX_EXPANDED_OPS`] ops, nest deeper than [`MAX_BLOCK_DEPTH`], or run each other
/// in a circle.
pub(crate) fn check_expansion(graph: &Graph) -> Result<(), VerifyError> {
    size::check(graph, &structure::callees_first(graph)?)
}

/// Checks every invariant that [`Graph`] and [`crate::ir::OpKind`] state.
///
/// # Errors
/// The first invariant that does not hold, with the op in its text form and its place in the user's source.
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
