//! Decoding of text from tokens that arrive one by one.

use super::Utf8Stream;
use crate::data::{Start, Tokenizer};

/// A decoder that returns the text completed by each token. The concatenated pieces equal
/// [`Tokenizer::decode_all`] of all tokens, with U+FFFD in place of invalid bytes.
#[derive(Debug)]
pub struct TextStream<'t, T: ?Sized> {
    tokenizer: &'t T,
    stream: Utf8Stream,
    bytes: Vec<u8>,
    /// True if a leading space would be the one that encoding inserted before the text.
    at_start: bool,
}

impl<'t, T: Tokenizer + ?Sized> TextStream<'t, T> {
    /// Creates a stream for the tokens of a whole text.
    pub fn new(tokenizer: &'t T) -> Self {
        Self::from(tokenizer, Start::Text)
    }

    /// Creates a stream for tokens that begin a text or continue one, such as those generated after a prompt.
    pub fn from(tokenizer: &'t T, start: Start) -> Self {
        let at_start = start == Start::Text && tokenizer.adds_a_space();
        Self { tokenizer, stream: Utf8Stream::default(), bytes: Vec::new(), at_start }
    }

    /// Appends a token and returns the characters that are now complete.
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

    /// Returns the remaining text. Call it after the last token.
    pub fn finish(self) -> String {
        self.stream.finish()
    }
}
