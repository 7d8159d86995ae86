//! The byte tokenizer, which needs no file.

use super::{Start, Tokenizer, TokenizerError};

/// A tokenizer in which every byte is a token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bytes;

impl Tokenizer for Bytes {
    fn name(&self) -> &str {
        "bytes"
    }

    fn vocabulary(&self) -> usize {
        256
    }

    fn encode_piece(&self, piece: &[u8], _: Start, ids: &mut Vec<i32>) -> Result<(), TokenizerError> {
        ids.extend(piece.iter().copied().map(i32::from));
        Ok(())
    }

    fn last_cut(&self, text: &[u8]) -> Option<usize> {
        (!text.is_empty()).then_some(text.len())
    }

    fn decode(&self, token: i32, bytes: &mut Vec<u8>) {
        bytes.extend(u8::try_from(token).ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let text: Vec<u8> = (0..=255).collect();
        let tokens = Bytes.encode(&text).unwrap();
        assert_eq!(tokens, (0..256).collect::<Vec<i32>>());
        let mut bytes = Bytes.decode_all(&tokens);
        assert_eq!(bytes, text);
        Bytes.decode(256, &mut bytes);
        Bytes.decode(-1, &mut bytes);
        assert_eq!(bytes, text, "ids outside the vocabulary have no bytes");
        assert_eq!(Bytes.encode(b"").unwrap(), [0; 0]);
    }
}
