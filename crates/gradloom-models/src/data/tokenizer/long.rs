//! Long texts in pieces that are encoded one by one.
//!
//! In: a reader, and the tokenizer's function that finds the last position at which a text can be cut. Out:
//! pieces of about 64 KiB, or longer ones where the text cannot be cut earlier. Invariant: the joined pieces
//! are the text, and their joined ids are its ids.

use super::Start;
use std::io::{self, Read};

/// Minimum size of a read in bytes.
const BLOCK: usize = 64 << 10;
/// Maximum size of a piece in bytes.
const LONGEST: usize = 1 << 28;

/// A text of any length, read piece by piece.
#[derive(Debug)]
pub struct LongText<R> {
    from: R,
    buffer: Vec<u8>,
    /// Number of bytes in the buffer that were already returned.
    given: usize,
    /// Minimum size of a read in bytes.
    block: usize,
    /// Maximum size of a piece in bytes.
    longest: usize,
    start: Start,
    ended: bool,
}

impl<R: Read> LongText<R> {
    /// Creates a text from a reader.
    pub fn new(from: R) -> Self {
        Self::with_sizes(from, BLOCK, LONGEST)
    }

    /// Creates a text that continues another one, like the second part of a text split at [`LongText::cut`].
    pub fn within(from: R) -> Self {
        Self { start: Start::Within, ..Self::new(from) }
    }

    /// Returns the best position at which to split a text into two separate texts: the last position before a
    /// word, or otherwise the last one between two characters.
    pub fn cut(text: &[u8]) -> usize {
        last_cut(text).unwrap_or_else(|| between_characters(text, text.len().saturating_sub(1)))
    }

    /// Creates a text that is read and cut in blocks of `block` bytes, at least 1.
    pub fn with_block(from: R, block: usize) -> Self {
        Self::with_sizes(from, block.max(1), LONGEST)
    }

    fn with_sizes(from: R, block: usize, longest: usize) -> Self {
        let buffer = Vec::new();
        Self { from, buffer, given: 0, block, longest, start: Start::Text, ended: false }
    }

    /// Returns the next non-empty piece and its position, or `None` at the end. `last_cut` is
    /// [`Tokenizer::last_cut`](super::Tokenizer::last_cut).
    ///
    /// # Errors
    /// Returns an error if the reader fails, or one of kind `InvalidData` if the text cannot be cut within
    /// 256 MiB.
    pub fn next(&mut self, last_cut: &dyn Fn(&[u8]) -> Option<usize>) -> io::Result<Option<(&[u8], Start)>> {
        self.buffer.drain(..self.given);
        self.given = 0;
        let piece = loop {
            if !self.ended {
                // Doubling the buffer after each failed search keeps the total cost of searching linear.
                let wanted = self.block.max(self.buffer.len());
                let read = (&mut self.from).take(wanted as u64).read_to_end(&mut self.buffer)?;
                self.ended = read < wanted;
            }
            if self.ended && self.buffer.len() <= self.longest {
                break self.buffer.len();
            }
            if let Some(place) = last_cut(&self.buffer) {
                break place;
            }
            if self.buffer.len() >= self.longest {
                let most = self.longest >> 20;
                let message = format!("this tokenizer lets it be cut nowhere in {most} MiB, the limit");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        };
        if piece == 0 {
            return Ok(None);
        }
        self.given = piece;
        let start = std::mem::replace(&mut self.start, Start::Within);
        Ok(Some((&self.buffer[..piece], start)))
    }
}

/// Returns the last position before a space or newline that separates two words.
fn last_cut(text: &[u8]) -> Option<usize> {
    let is_place = |w: &[u8]| {
        matches!(w[1], b' ' | b'\n') && w[0].is_ascii_alphanumeric() && w[2].is_ascii_alphanumeric()
    };
    text.windows(3).rposition(is_place).map(|before| before + 1)
}

/// Returns the last position up to `at` that is not inside a UTF-8 character.
fn between_characters(text: &[u8], at: usize) -> usize {
    // Look back three bytes at most, because a character has at most three continuation bytes.
    let goes_on = |place: &usize| text.get(*place).is_some_and(|byte| byte & 0xc0 == 0x80);
    (at.saturating_sub(3).max(1)..=at).rev().find(|place| !goes_on(place)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, block: usize, last_cut: &dyn Fn(&[u8]) -> Option<usize>) -> Vec<String> {
        let mut long = LongText::with_sizes(text.as_bytes(), block, 1 << 20);
        let mut pieces = Vec::new();
        while let Some((piece, start)) = long.next(last_cut).unwrap() {
            assert_eq!(start == Start::Text, pieces.is_empty());
            pieces.push(String::from_utf8(piece.to_vec()).expect("whole characters"));
        }
        pieces
    }

    #[test]
    fn pieces_are_cut_where_they_may_be() {
        let before_words = |text: &[u8]| last_cut(text);
        assert_eq!(pieces("", 8, &before_words), [""; 0]);
        assert_eq!(pieces("one", 8, &before_words), ["one"]);
        let text = "one two  three. four\nfive\n\nsix 7 eight";
        let cut = pieces(text, 8, &before_words);
        assert_eq!(cut.concat(), text);
        assert!(cut.len() > 2, "{cut:?}");
        for piece in &cut[1..] {
            let mut letters = piece.chars();
            assert!(matches!(letters.next(), Some(' ' | '\n')), "{cut:?}");
            assert!(letters.next().is_some_and(char::is_alphanumeric), "{cut:?}");
        }
        assert_eq!(pieces(text, 8, &|_| None), [text]);
    }

    /// A text that cannot be cut is searched once per doubling of its length, up to the limit.
    #[test]
    fn a_text_that_cannot_be_cut_takes_time_by_its_length() {
        let searched = std::cell::Cell::new(0);
        let never = |text: &[u8]| {
            searched.set(searched.get() + text.len());
            None
        };
        assert_eq!(pieces(&"a".repeat(1000), 8, &never).len(), 1);
        assert!(searched.get() < 3000, "{}", searched.get());
        let mut long = LongText::with_sizes(io::repeat(b'a'), 8, 1 << 20);
        let error = long.next(&never).unwrap_err();
        assert_eq!(error.to_string(), "this tokenizer lets it be cut nowhere in 1 MiB, the limit");
    }

    #[test]
    fn a_text_is_cut_in_two() {
        assert_eq!(LongText::<&[u8]>::cut(b"one two three"), 7);
        assert_eq!(LongText::<&[u8]>::cut("文字".as_bytes()), 3);
        assert_eq!(
            LongText::<&[u8]>::cut(&"文字".as_bytes()[..5]),
            3,
            "the rest of a character is read later"
        );
        assert_eq!(LongText::<&[u8]>::cut(b""), 0);
    }
}
