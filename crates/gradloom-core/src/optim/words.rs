//! Numbers as words of a text, from which a training goes on.
//!
//! In: a text of words with spaces between. Out: numbers, in order. Always holds: what `Display` of f64 and
//! u64 writes is read as the same bits, but those of a NaN.

use crate::error::{Error, ErrorKind};
use std::str::{FromStr, SplitAsciiWhitespace};

/// A text that is read word by word.
pub(super) struct Words<'t> {
    /// Value that the text describes, for messages.
    subject: &'static str,
    text: &'t str,
    rest: SplitAsciiWhitespace<'t>,
}

impl<'t> Words<'t> {
    pub(super) fn of(subject: &'static str, text: &'t str) -> Self {
        Self { subject, text, rest: text.split_ascii_whitespace() }
    }

    /// Takes the next word.
    pub(super) fn word(&mut self) -> Result<&'t str, Error> {
        self.rest.next().ok_or_else(|| wrong(self.subject, self.text))
    }

    /// Takes the next word as a number.
    pub(super) fn number<N: FromStr>(&mut self) -> Result<N, Error> {
        self.word()?.parse().map_err(|_| wrong(self.subject, self.text))
    }

    /// Takes a name, which must be this, and the number behind it.
    pub(super) fn named<N: FromStr>(&mut self, name: &str) -> Result<N, Error> {
        if self.word()? == name { self.number() } else { Err(wrong(self.subject, self.text)) }
    }

    /// Returns whether all words were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.clone().next().is_none()
    }
}

/// Returns the error of a text that describes no such thing.
pub(super) fn wrong(subject: &str, text: &str) -> Error {
    const SHOWN: usize = 80;
    let shown: String = text.chars().take(SHOWN).collect();
    let more = if text.chars().nth(SHOWN).is_some() { ".." } else { "" };
    Error::new(ErrorKind::Store, format!("\"{shown}{more}\" is no {subject}"))
        .help(format!("give a text that `to_string()` of a {subject} wrote"))
}
