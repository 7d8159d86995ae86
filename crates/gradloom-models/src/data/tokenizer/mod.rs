//! Conversion of text to token numbers and back.
//!
//! In: text; a tokenizer's files. Out: ids, and the bytes of ids. Always holds: the bytes of the ids of a
//! text, one after the other, are that text, so text can be written token by token. The only exception is a
//! tokenizer file with a normalizer that changes the text.

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

/// Turns text into tokens and tokens into text.
///
/// Decoding the tokens of a text gives that text, byte for byte, if the tokenizer has no normalizer.
pub trait Tokenizer: Send + Sync {
    /// Returns the name in messages: `bytes`, or the file that it came from.
    fn name(&self) -> &str;

    /// Returns the number of different tokens: ids are `0..vocabulary`.
    fn vocabulary(&self) -> usize;

    /// Appends the ids of a piece of text. Special tokens that are spelt out in it are found; none is added.
    ///
    /// # Errors
    /// When the piece has what no token stands for.
    fn encode_piece(&self, piece: &[u8], start: Start, ids: &mut Vec<i32>) -> Result<(), TokenizerError>;

    /// Appends the bytes of one token, as it stands within a text; an id outside the vocabulary has none.
    fn decode(&self, token: i32, bytes: &mut Vec<u8>);

    /// Returns the last place at which a text that may go on can be cut: the ids of the part before it and
    /// of the part behind it ([`Start::Within`]) are those of the whole.
    fn last_cut(&self, text: &[u8]) -> Option<usize>;

    /// Returns whether encoding puts a space before a text, as SentencePiece's vocabularies do; decoding a
    /// whole text removes it again.
    fn adds_a_space(&self) -> bool {
        false
    }

    /// Returns the token between one document and the next, and after the last one; `None` if there is
    /// none.
    fn end_of_text(&self) -> Option<i32> {
        None
    }

    /// Returns the token that a model's texts begin with, if the tokenizer puts one before them.
    fn beginning(&self) -> Option<i32> {
        None
    }

    /// Returns whether a token is a control token, such as the end of a text, which readers do not see.
    fn is_special(&self, token: i32) -> bool {
        Some(token) == self.end_of_text()
    }

    /// Returns the ids of a whole text of any length.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_piece`]; the offset is that in the text.
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

    /// Ids of a text that a model is to go on with: as [`Tokenizer::encode`], after
    /// [`Tokenizer::beginning`]. A model needs something to stand on: an empty text without a token to begin
    /// with is a new line.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    fn prompt(&self, text: &[u8]) -> Result<Vec<i32>, TokenizerError> {
        match self.beginning() {
            Some(first) => Ok([vec![first], self.encode(text)?].concat()),
            None if text.is_empty() => self.encode(b"\n"),
            None => self.encode(text),
        }
    }

    /// Returns the text of ids, from its beginning.
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
