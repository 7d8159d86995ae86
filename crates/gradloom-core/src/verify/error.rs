//! The error for a violated invariant.

use crate::error::{Error, ErrorKind};
use crate::ir::{Graph, OpId, Origin};
use std::fmt;

/// A violated invariant, caused by a bug in the stage that created the graph or by invalid text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// Description of the violated invariant.
    pub message: String,
    /// Text form of the op that violates the invariant.
    pub op: Option<String>,
    /// Location of that op in the user's source.
    pub origin: Option<Origin>,
}

impl VerifyError {
    /// Creates an error without an op.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), op: None, origin: None }
    }

    /// Creates an error for an op, which may be malformed.
    pub(super) fn in_op(graph: &Graph, op: OpId, message: impl Into<String>) -> Self {
        let origin = graph.ops.get(op).and_then(|op| graph.origin(op)).cloned();
        Self { message: message.into(), op: Some(graph.op_text(op)), origin }
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(op) = &self.op {
            write!(f, "\n  in: {op}")?;
        }
        if let Some(origin) = &self.origin {
            write!(f, "\n  at: {origin}")?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifyError {}

impl From<VerifyError> for Error {
    fn from(broken: VerifyError) -> Self {
        let mut error = Error::new(ErrorKind::Verify, broken.message);
        if let Some(op) = broken.op {
            error = error.note(format!("in {op}"));
        }
        match broken.origin {
            Some(origin) => error.at(origin, ""),
            None => error,
        }
    }
}
