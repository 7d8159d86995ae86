//! Long texts in pieces that are encoded one by one.
//!
//! In: a reader. Out: pieces of some 64 KiB. Always holds: the pieces are the text, and one ends where no
//! token goes on: before a single space or line feed between two ASCII letters or digits. There every
//! tokenizer's pattern of words begins a new word, so the ids of the pieces are those of the whole. Text
//! without such a place for a mebibyte is cut between two characters.

use super::Start;
use std::io::{self, Read};

/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;
/// Bytes of a piece without a good place to cut.
const LONGEST: usize = 1 << 20;

/// A text of any length, of which at most a piece is in memory.
#[derive(Debug)]
pub struct LongText<R> {
    from: R,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were handed out.
    given: usize,
    /// Size of the reads, and of pieces that cannot be cut well.
    block: usize,
    longest: usize,
    start: Start,
    ended: bool,
}

impl<R: Read> LongText<R> {
    /// The text that a reader gives.
    pub fn new(from: R) -> Self {
        Self::with_sizes(from, BLOCK, LONGEST)
    }

    /// The text that goes on with another one, which was cut as by [`LongText::cut`].
    pub fn within(from: R) -> Self {
        Self { start: Start::Within, ..Self::new(from) }
    }

    /// The best place to cut a text in two: the last one before a word, or between two characters.
    pub fn cut(text: &[u8]) -> usize {
        last_cut(text).unwrap_or_else(|| between_characters(text, text.len().saturating_sub(1)))
    }

    fn with_sizes(from: R, block: usize, longest: usize) -> Self {
        let buffer = Vec::new();
        Self { from, buffer, given: 0, block, longest, start: Start::Text, ended: false }
    }

    /// The next piece, which is not empty, and where it begins; `None` at the end.
    ///
    /// # Errors
    /// The reader's.
    #[expect(clippy::should_implement_trait, reason = "the piece is borrowed from the text")]
    pub fn next(&mut self) -> io::Result<Option<(&[u8], Start)>> {
        self.buffer.drain(..self.given);
        self.given = 0;
        let piece = loop {
            if !self.ended {
                let wanted = self.block as u64;
                self.ended = (&mut self.from).take(wanted).read_to_end(&mut self.buffer)? < self.block;
            }
            if self.ended && self.buffer.len() <= self.longest {
                break self.buffer.len();
            }
            if let Some(place) = last_cut(&self.buffer) {
                break place;
            }
            if self.buffer.len() > self.longest {
                break between_characters(&self.buffer, self.longest);
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

/// The last place before which a word ends and after which one begins.
fn last_cut(text: &[u8]) -> Option<usize> {
    let is_place = |w: &[u8]| {
        matches!(w[1], b' ' | b'\n') && w[0].is_ascii_alphanumeric() && w[2].is_ascii_alphanumeric()
    };
    text.windows(3).rposition(is_place).map(|before| before + 1)
}

/// The last place up to `at` that is not within a UTF-8 character.
fn between_characters(text: &[u8], at: usize) -> usize {
    // A character has at most three bytes that go on from another one.
    let goes_on = |place: &usize| text.get(*place).is_some_and(|byte| byte & 0xc0 == 0x80);
    (at.saturating_sub(3).max(1)..=at).rev().find(|place| !goes_on(place)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, block: usize, longest: usize) -> Vec<String> {
        let mut long = LongText::with_sizes(text.as_bytes(), block, longest);
        let mut pieces = Vec::new();
        while let Some((piece, start)) = long.next().unwrap() {
            assert_eq!(start == Start::Text, pieces.is_empty());
            pieces.push(String::from_utf8(piece.to_vec()).expect("whole characters"));
        }
        pieces
    }

    #[test]
    fn pieces_are_cut_before_words() {
        assert_eq!(pieces("", 8, 16), [""; 0]);
        assert_eq!(pieces("one", 8, 16), ["one"]);
        let text = "one two  three. four\nfive\n\nsix 7 eight";
        let cut = pieces(text, 8, 16);
        assert_eq!(cut.concat(), text);
        assert!(cut.len() > 2, "{cut:?}");
        for piece in &cut[1..] {
            let mut letters = piece.chars();
            assert!(matches!(letters.next(), Some(' ' | '\n')), "{cut:?}");
            assert!(letters.next().is_some_and(char::is_alphanumeric), "{cut:?}");
        }
    }

    #[test]
    fn text_without_words_is_cut_between_characters() {
        for text in ["文字列".repeat(20), "🧵ä".repeat(33), " ".repeat(70), "a".repeat(17)] {
            for longest in [4, 5, 6, 7, 16] {
                let cut = pieces(&text, 3, longest);
                assert_eq!(cut.concat(), text);
                assert!(cut.iter().all(|piece| piece.len() <= longest), "{cut:?}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_characters_pass() {
        let text = [0x80u8; 50];
        let mut long = LongText::with_sizes(&text[..], 3, 8);
        let mut all = Vec::new();
        while let Some((piece, _)) = long.next().unwrap() {
            all.extend_from_slice(piece);
        }
        assert_eq!(all, text);
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
