//! Text from tokens that arrive one by one.

use super::Utf8Stream;
use crate::data::{Start, Tokenizer};

/// Collects tokens and returns the text that they complete: all pieces together are
/// [`Tokenizer::decode_all`] of all tokens, with U+FFFD for bytes that are no character.
#[derive(Debug)]
pub struct TextStream<'t, T: ?Sized> {
    tokenizer: &'t T,
    stream: Utf8Stream,
    bytes: Vec<u8>,
    /// True if a space that comes next is one that encoding put before the text.
    at_start: bool,
}

impl<'t, T: Tokenizer + ?Sized> TextStream<'t, T> {
    /// Makes a stream for the tokens of a whole text.
    pub fn new(tokenizer: &'t T) -> Self {
        Self::from(tokenizer, Start::Text)
    }

    /// Makes a stream for tokens that begin a text or that continue one, such as those that a model writes
    /// after a prompt.
    pub fn from(tokenizer: &'t T, start: Start) -> Self {
        let at_start = start == Start::Text && tokenizer.adds_a_space();
        Self { tokenizer, stream: Utf8Stream::default(), bytes: Vec::new(), at_start }
    }

    /// Adds a token; returns the characters that are now complete.
    pub fn push(&mut self, token: i32) -> String {
        self.bytes.clear();
        self.tokenizer.decode(token, &mut self.bytes);
        if self.at_start && !self.bytes.is_empty() {
            self.at_start = false;
            if self.bytes[0] == b' ' {
                self.bytes.remove(0);
            }
        }
        self.stream.push(&self.bytes)
    }

    /// Returns the rest of the text, when no more tokens will come.
    pub fn finish(self) -> String {
        self.stream.finish()
    }
}
