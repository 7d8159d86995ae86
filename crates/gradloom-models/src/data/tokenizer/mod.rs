//! Conversion between text and token ids.
//!
//! In: text; a tokenizer's files. Out: ids, and the bytes of ids. Invariant: concatenating the bytes of a
//! text's ids yields the text, so it can be decoded token by token. The only exception is a tokenizer with a
//! normalizer that changes the text.

mod beside;
mod bpe;
mod bytes;
mod chat;
mod check;
mod cuts;
mod environment;
mod error;
mod jinja;
mod long;
mod open;
mod patterns;
mod pieces;
mod python;
mod scores;
mod special;
mod strings;
mod train;

pub use bpe::{Bpe, SpecialTokens};
pub use bytes::Bytes;
pub use chat::Message;
pub use error::TokenizerError;
pub use long::LongText;
pub use open::Vocabulary;
pub use special::Roles;

/// Conversion between text and tokens.
///
/// Decoding the tokens of a text yields the same text, byte for byte, unless the tokenizer has a normalizer.
pub trait Tokenizer: Send + Sync {
    /// Returns the name used in messages: `bytes`, or the name of the tokenizer's file.
    fn name(&self) -> &str;

    /// Returns the size of the vocabulary. Ids are in `0..vocabulary`.
    fn vocabulary(&self) -> usize;

    /// Appends the ids of a piece of text. Special tokens that the piece spells out are recognized; none are
    /// added.
    ///
    /// # Errors
    /// Returns an error if the piece contains text that no token represents.
    fn encode_piece(&self, piece: &[u8], start: Start, ids: &mut Vec<i32>) -> Result<(), TokenizerError>;

    /// Appends the bytes of a token inside a text. An id outside the vocabulary has no bytes.
    fn decode(&self, token: i32, bytes: &mut Vec<u8>);

    /// Returns the last position at which a text that may continue can be cut: the ids of the part before it
    /// and of the part after it ([`Start::Within`]) are together those of the whole text.
    fn last_cut(&self, text: &[u8]) -> Option<usize>;

    /// Returns `true` if encoding inserts a space before a text, as SentencePiece does. Decoding a whole text
    /// removes it.
    fn adds_a_space(&self) -> bool {
        false
    }

    /// Returns the token that separates documents and ends the last one, or `None` if the tokenizer has none.
    fn end_of_text(&self) -> Option<i32> {
        None
    }

    /// Returns the token that the tokenizer adds at the beginning of a text, or `None` if it adds none.
    fn beginning(&self) -> Option<i32> {
        None
    }

    /// Returns `true` if a token is a control token, such as the end of a text, which is not shown to
    /// readers.
    fn is_special(&self, token: i32) -> bool {
        Some(token) == self.end_of_text()
    }

    /// Returns the ids of a whole text of any length.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Tokenizer::encode_piece`], with the offset in the whole text,
    /// and if the text cannot be cut into pieces.
    fn encode(&self, text: &[u8]) -> Result<Vec<i32>, TokenizerError> {
        let (mut ids, mut pieces) = (Vec::new(), LongText::new(text));
        let mut offset = 0;
        let cut = |text: &[u8]| self.last_cut(text);
        let uncut = |error: std::io::Error| TokenizerError::Uncut {
            name: self.name().to_string(),
            reason: error.to_string(),
        };
        while let Some((piece, start)) = pieces.next(&cut).map_err(uncut)? {
            self.encode_piece(piece, start, &mut ids).map_err(|error| error.later_by(offset))?;
            offset += piece.len() as u64;
        }
        Ok(ids)
    }

    /// Returns the ids of a prompt: [`Tokenizer::beginning`], if any, followed by the encoded text. An empty
    /// text without a beginning token is encoded as a newline because a model needs at least one token.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Tokenizer::encode`].
    fn prompt(&self, text: &[u8]) -> Result<Vec<i32>, TokenizerError> {
        match self.beginning() {
            Some(first) => Ok([vec![first], self.encode(text)?].concat()),
            None if text.is_empty() => self.encode(b"\n"),
            None => self.encode(text),
        }
    }

    /// Returns the text of a sequence of ids that starts at the beginning of a text.
    fn decode_all(&self, ids: &[i32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        ids.iter().for_each(|&id| self.decode(id, &mut bytes));
        if self.adds_a_space() && bytes.first() == Some(&b' ') {
            bytes.remove(0);
        }
        bytes
    }
}

/// Position of a piece of text within its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the beginning of a text.
    Text,
    /// Right after another piece.
    Within,
}
