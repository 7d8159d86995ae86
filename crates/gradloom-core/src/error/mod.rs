//! The one error type of gradloom, and how it prints.
//!
//! In: a kind for programs, a message for people, and, where the fault is in the user's model, the [`Origin`]
//! of the call that is wrong with the token to point at. Out: an [`Error`] that prints as rustc prints its
//! own errors:
//!
//! ```text
//! error: matmul needs equal inner extents, but they are 64 and 32
//!   --> src/model.rs:41:21
//!    |
//! 41 |         self.hidden.matmul(weight)
//!    |                     ^^^^^^
//!    |
//!    = note: the left side is f32[8, 64], the right side is f32[32, 10]
//!    = help: transpose the weight, or change its first extent to 64
//! ```
//!
//! Always holds: an error is one pointer wide, so that `Result` stays cheap; making one reads no file; the
//! source line is looked up when the error is printed, and where it cannot be found (an installed program, a
//! browser) the location stands alone.

mod caret;
mod excerpt;
mod render;
mod source;

use crate::ir::Origin;
use std::fmt;

/// `Result` with gradloom's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, for programs that decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A shape, a dtype or an argument in the model does not fit.
    Trace,
    /// A trainable parameter does not influence the loss.
    MissingGradient,
    /// The loss depends on a parameter through an op that has no gradient.
    NotDifferentiable,
    /// The data given to a step does not have the declared count, dtype or size.
    Feed,
    /// Unknown, missing, repeated or wrong-sized names in a store or a checkpoint.
    Store,
    /// A file cannot be read or written, is damaged, or has other contents than are wanted.
    File,
    /// The loss or the gradient norm was infinite or not a number; nothing of the step was committed.
    NotFinite {
        /// The attempted step, counted from 0.
        step: u64,
    },
    /// A check on the device failed, such as an index that is out of range; nothing of the step was
    /// committed.
    Trap,
    /// The caller cancelled the run; nothing of it was committed.
    Cancelled,
    /// The caller's deadline for the run has passed; nothing of it was committed.
    DeadlineExceeded,
    /// The parameters may be half updated and must be restored from a checkpoint.
    Lost,
    /// The plan does not fit into memory, or demands something that cannot be had.
    Plan,
    /// A device is absent, failed, or ran out of memory.
    Device,
    /// A stage of the compiler gave an invalid graph: a bug in gradloom or in a custom op.
    Verify,
    /// A bug in gradloom.
    Internal,
}

/// An error with its place in the user's source, notes and help.
///
/// `Display` and `Debug` both give the text for people, because an error that leaves `main` or meets `unwrap`
/// is printed with `Debug`; only `Display` opens with the word `error`. `{:#?}` gives the fields.
#[derive(Clone)]
pub struct Error(Box<Report>);

#[derive(Clone, Debug)]
struct Report {
    kind: ErrorKind,
    message: String,
    place: Option<Place>,
    footers: Vec<Footer>,
}

/// Position of the fault, and the token there that the caret goes under.
#[derive(Clone, Debug)]
struct Place {
    origin: Origin,
    token: String,
}

/// A line under the source excerpt. Notes and help keep the order in which they were added.
#[derive(Clone, Debug)]
enum Footer {
    Note(String),
    Help(String),
}

impl Error {
    /// Creates an error without a place. The message has no capital letter at its start and no full stop at
    /// its end.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Report { kind, message: message.into(), place: None, footers: Vec::new() }))
    }

    /// Says where the fault is. `token` is the name of the method, the function or the op, or the sign of the
    /// operator, as it may stand in the source line at or after the column of `origin`. Where it does not,
    /// the caret marks the method, or else the one character, at the column.
    pub fn at(mut self, origin: Origin, token: &str) -> Self {
        self.0.place = Some(Place { origin, token: token.to_string() });
        self
    }

    /// Adds a fact that helps to understand the error.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.0.footers.push(Footer::Note(text.into()));
        self
    }

    /// Adds a remedy.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.0.footers.push(Footer::Help(text.into()));
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message alone, without place, notes and help.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the place in the user's source that is wrong, if it is known.
    pub fn origin(&self) -> Option<&Origin> {
        self.0.place.as_ref().map(|place| &place.origin)
    }

    /// Returns the notes, in the order in which they were added.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.0.footers.iter().filter_map(|footer| match footer {
            Footer::Note(text) => Some(text.as_str()),
            Footer::Help(_) => None,
        })
    }

    /// Returns the remedies, in the order in which they were added.
    pub fn remedies(&self) -> impl Iterator<Item = &str> {
        self.0.footers.iter().filter_map(|footer| match footer {
            Footer::Help(text) => Some(text.as_str()),
            Footer::Note(_) => None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("error: ")?;
        render::render(f, &self.0, source::line)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { self.0.fmt(f) } else { render::render(f, &self.0, source::line) }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests;
