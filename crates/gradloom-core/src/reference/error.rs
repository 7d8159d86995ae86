//! Errors of the evaluator.

use crate::error::{Error, ErrorKind};
use crate::ir::{Graph, OpId};

/// Returns the error of an op whose operands have invalid elements.
pub(super) fn trap(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Trap, message)
}

/// Adds the failed op to the error, unless the error already names an op inside its block.
pub(super) fn in_op(error: Error, graph: &Graph, id: OpId) -> Error {
    if error.notes().next().is_some() {
        return error;
    }
    let op = &graph.ops[id];
    graph.blame(op, error.note(format!("in {}", graph.op_text(id))))
}
