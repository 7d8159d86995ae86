//! The error type of gradloom and its printed form.
//!
//! An [`Error`] consists of a kind for programs and a message for people. For faults in the user's model, it
//! also contains the [`Origin`] of the faulty call and the token to point at. It is printed in the style of
//! rustc:
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
//! An error is one pointer wide, which keeps `Result` small. Creating an error reads no file: the source line
//! is looked up when the error is printed. If the line cannot be found, as in an installed program or a
//! browser, only its location is printed.

mod caret;
mod excerpt;
mod render;
mod source;

use crate::ir::Origin;
use std::fmt;

/// `Result` with gradloom's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, for programmatic handling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The shape, dtype or argument of a call in the model is invalid.
    Trace,
    /// A trainable parameter does not influence the loss.
    MissingGradient,
    /// The loss depends on a parameter through an op that has no gradient.
    NotDifferentiable,
    /// The number, dtype or size of the data fed to a step differs from the declaration.
    Feed,
    /// Unknown, missing, repeated or wrong-sized entries in a parameter store or a checkpoint.
    Store,
    /// A file cannot be read or written, is damaged, or has unexpected contents.
    File,
    /// The loss or the gradient norm was infinite or NaN. The step committed nothing.
    NotFinite {
        /// Index of the attempted step, from 0.
        step: u64,
    },
    /// A check on the device failed, such as a bounds check of an index. The step committed nothing.
    Trap,
    /// The caller cancelled the run. The run committed nothing.
    Cancelled,
    /// The deadline of the run has passed. The run committed nothing.
    DeadlineExceeded,
    /// The parameters may be partially updated and must be restored from a checkpoint.
    Lost,
    /// The plan does not fit into memory, or requests an unavailable feature.
    Plan,
    /// A device is missing, failed or ran out of memory.
    Device,
    /// Another process of the world ended, hangs or does something else. The step committed nothing here; the
    /// processes must be started again from the last checkpoint.
    World,
    /// A compiler stage produced an invalid graph because of a bug in gradloom or in a custom op.
    Verify,
    /// A bug in gradloom.
    Internal,
}

/// An error with an optional source location, notes and help messages.
///
/// `Display` and `Debug` both print the human-readable text, because `main` and `unwrap` print errors with
/// `Debug`; only `Display` begins with `error: `. `{:#?}` prints the fields.
#[derive(Clone)]
pub struct Error(Box<Report>);

#[derive(Clone, Debug)]
struct Report {
    kind: ErrorKind,
    message: String,
    place: Option<Place>,
    footers: Vec<Footer>,
}

/// Position of the fault and the token to mark there.
#[derive(Clone, Debug)]
struct Place {
    origin: Origin,
    token: String,
}

/// A line below the source excerpt. Notes and help messages keep their insertion order.
#[derive(Clone, Debug)]
enum Footer {
    Note(String),
    Help(String),
}

impl Error {
    /// Creates an error without a source location. By convention, the message starts with a lowercase letter
    /// and does not end with a full stop.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Report { kind, message: message.into(), place: None, footers: Vec::new() }))
    }

    /// Sets the source location of the fault. `token` is the expected name of the method, function or op, or
    /// the operator, at or after the column of `origin`. If the source line does not contain it there, the
    /// caret marks the method, or else the single character, at the column.
    pub fn at(mut self, origin: Origin, token: &str) -> Self {
        self.0.place = Some(Place { origin, token: token.to_string() });
        self
    }

    /// Adds a note with context for the error.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.0.footers.push(Footer::Note(text.into()));
        self
    }

    /// Adds a help message that suggests a fix.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.0.footers.push(Footer::Help(text.into()));
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message without location, notes and help messages.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the location of the fault in the user's source, if known.
    pub fn origin(&self) -> Option<&Origin> {
        self.0.place.as_ref().map(|place| &place.origin)
    }

    /// Returns the notes in insertion order.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.0.footers.iter().filter_map(|footer| match footer {
            Footer::Note(text) => Some(text.as_str()),
            Footer::Help(_) => None,
        })
    }

    /// Returns the help messages in insertion order.
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
