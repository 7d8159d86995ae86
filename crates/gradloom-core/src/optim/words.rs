//! Parsing of the texts from which training is resumed.
//!
//! In: a text of words separated by spaces. Out: words and numbers, in order. Invariant: a number that was
//! written by `Display` of f64 or u64 is parsed to the same bits, except for NaN.

use crate::error::{Error, ErrorKind};
use std::str::{FromStr, SplitAsciiWhitespace};

/// A text that is parsed word by word.
pub(super) struct Words<'t> {
    /// Kind of value that the text describes, for messages.
    subject: &'static str,
    text: &'t str,
    rest: SplitAsciiWhitespace<'t>,
}

impl<'t> Words<'t> {
    pub(super) fn of(subject: &'static str, text: &'t str) -> Self {
        Self { subject, text, rest: text.split_ascii_whitespace() }
    }

    pub(super) fn word(&mut self) -> Result<&'t str, Error> {
        self.rest.next().ok_or_else(|| wrong(self.subject, self.text))
    }

    pub(super) fn number<N: FromStr>(&mut self) -> Result<N, Error> {
        self.word()?.parse().map_err(|_| wrong(self.subject, self.text))
    }

    /// Takes the next word, which must be `name`, and then a number.
    pub(super) fn named<N: FromStr>(&mut self, name: &str) -> Result<N, Error> {
        if self.word()? == name { self.number() } else { Err(wrong(self.subject, self.text)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.clone().next().is_none()
    }
}

/// Returns an error for a text that does not describe a `subject`.
pub(super) fn wrong(subject: &str, text: &str) -> Error {
    const SHOWN: usize = 80;
    let shown: String = text.chars().take(SHOWN).collect();
    let more = if text.chars().nth(SHOWN).is_some() { ".." } else { "" };
    Error::new(ErrorKind::Store, format!("\"{shown}{more}\" is no {subject}"))
        .help(format!("give a text that `to_string()` of a {subject} wrote"))
}
