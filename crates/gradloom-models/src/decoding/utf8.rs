//! Decoding of UTF-8 from bytes that arrive in pieces.

/// A decoder that returns the text completed by each piece, with U+FFFD in place of invalid bytes.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// Appends bytes and returns the characters that are now complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut kept = 0;
        let mut chunks = self.pending.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let broken = chunk.invalid();
            if broken.is_empty() {
                continue;
            }
            // Keep invalid bytes only at the end, where further bytes may complete them to a character.
            if chunks.peek().is_none() && may_continue(broken) {
                kept = broken.len();
            } else {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.pending.drain(..self.pending.len() - kept);
        text
    }

    /// Returns the remaining text. Call it after the last piece.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// Returns `true` if further bytes could complete `bytes` to a character.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_by_byte_is_the_same_as_at_once() {
        let cases: [&[u8]; 5] =
            ["aß文🧵z".as_bytes(), b"a\xff\xfeb", b"\xe6\x96", b"\xf0\x9f\xa7x\xc3", b"\x80\xc3\xc3\xa4"];
        for bytes in cases {
            let mut stream = Utf8Stream::default();
            let mut text: String = bytes.iter().map(|&byte| stream.push(&[byte])).collect();
            text.push_str(&stream.finish());
            assert_eq!(text, String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_character_appears_with_its_last_byte() {
        let mut stream = Utf8Stream::default();
        assert_eq!(stream.push(b"a\xe6\x96"), "a");
        assert_eq!(stream.push(b"\x87b"), "文b");
        assert_eq!(stream.finish(), "");
    }
}
