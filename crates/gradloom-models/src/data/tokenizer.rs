//! Conversion of text to token numbers and back.

/// Turns text into tokens and tokens into text.
///
/// Decoding the tokens of a text gives that text, byte for byte.
pub trait Tokenizer: Send + Sync {
    /// Name in configurations.
    fn name(&self) -> &'static str;
    /// Number of different tokens: ids are `0..vocabulary`.
    fn vocabulary(&self) -> usize;
    /// Ids of a text.
    fn encode(&self, text: &[u8]) -> Vec<i32>;
    /// Appends the bytes of one token; an id outside the vocabulary has none.
    fn decode(&self, token: i32, bytes: &mut Vec<u8>);
}

/// Every byte is a token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bytes;

impl Tokenizer for Bytes {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn vocabulary(&self) -> usize {
        256
    }

    fn encode(&self, text: &[u8]) -> Vec<i32> {
        text.iter().copied().map(i32::from).collect()
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
        let tokens = Bytes.encode(&text);
        assert_eq!(tokens, (0..256).collect::<Vec<i32>>());
        let mut bytes = Vec::new();
        tokens.iter().for_each(|&t| Bytes.decode(t, &mut bytes));
        assert_eq!(bytes, text);
        Bytes.decode(256, &mut bytes);
        Bytes.decode(-1, &mut bytes);
        assert_eq!(bytes, text, "ids outside the vocabulary have no bytes");
    }
}
