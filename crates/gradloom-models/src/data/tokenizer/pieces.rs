//! The bytes of each token in a vocabulary.
//!
//! In: the `decoder` of a tokenizer.json, and tokens as spelled in the file. Out: bytes. Invariant: a token's
//! bytes do not depend on its neighbors, so text can be decoded token by token. The only context-dependent
//! part, the space before a whole text, is handled by [`super::Tokenizer::adds_a_space`].

use serde_json::Value;

/// Spelling of bytes in a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// One character per byte, as in GPT-2.
    Bytes,
    /// Text with a placeholder for the space and `<0x0A>` for a byte, as in SentencePiece.
    Text {
        /// Placeholder for the space.
        space: char,
        /// True if decoding removes the space that encoding inserted before a whole text.
        strips: bool,
    },
}

/// SentencePiece's placeholder for a space.
pub(super) const SPACE: char = '▁';

impl Spelling {
    /// Returns the spelling that a decoder implies, or the name of its unsupported component.
    pub(super) fn of(decoder: &Value) -> Result<Self, String> {
        let kind = |step: &Value| step["type"].as_str().unwrap_or("none").to_string();
        let steps = match decoder["decoders"].as_array() {
            Some(steps) if kind(decoder) == "Sequence" => steps.as_slice(),
            _ => std::slice::from_ref(decoder),
        };
        let (mut spelling, mut strips) = (None, false);
        for step in steps {
            match kind(step).as_str() {
                "ByteLevel" => spelling = Some(Self::Bytes),
                "Metaspace" => {
                    let sign = step["replacement"].as_str().and_then(|sign| sign.chars().next());
                    let never = step["prepend_scheme"] == "never" || step["add_prefix_space"] == false;
                    spelling = Some(Self::Text { space: sign.unwrap_or(SPACE), strips: !never });
                }
                "Replace" if step["content"] == " " => {
                    let sign =
                        step["pattern"]["String"].as_str().map(|sign| sign.chars().collect::<Vec<_>>());
                    let Some(&[space]) = sign.as_deref() else { return Err("the decoder Replace".into()) };
                    spelling = Some(Self::Text { space, strips: false });
                }
                "Strip" if step["content"] == " " && step["start"] == 1 && step["stop"] == 0 => strips = true,
                "ByteFallback" | "Fuse" => {}
                "none" => return Err("a file without a decoder".to_string()),
                other => return Err(format!("the decoder {other}")),
            }
        }
        match spelling.ok_or("a decoder without a spelling of spaces")? {
            Self::Text { space, .. } if strips => Ok(Self::Text { space, strips }),
            spelling => Ok(spelling),
        }
    }

    pub(super) fn bytes(self, token: &str) -> Vec<u8> {
        match self {
            Self::Bytes => {
                let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
                bytes.unwrap_or_else(|| token.as_bytes().to_vec())
            }
            Self::Text { space, .. } => match hexadecimal(token) {
                Some(byte) => vec![byte],
                None => token.replace(space, " ").into_bytes(),
            },
        }
    }

    pub(super) fn space(self) -> char {
        match self {
            Self::Bytes => character_of(b' '),
            Self::Text { space, .. } => space,
        }
    }

    /// Replaces the placeholders in a text by spaces.
    pub(super) fn spaced(self, text: &str) -> String {
        match self {
            Self::Bytes => text.to_string(),
            Self::Text { space, .. } => text.replace(space, " "),
        }
    }

    /// Returns the token that represents a single byte.
    pub(super) fn token_of(self, byte: u8) -> String {
        match self {
            Self::Bytes => character_of(byte).to_string(),
            Self::Text { .. } => format!("<0x{byte:02X}>"),
        }
    }
}

/// Parses a token such as `<0x0A>` as a byte.
fn hexadecimal(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_plain = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_plain.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// Returns `true` if a byte is a visible Latin-1 character, by which GPT-2 represents it.
fn is_visible(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// Returns GPT-2's character for a byte (`bytes_to_unicode` in the encoder of Radford et al., 2019). Visible
/// bytes represent themselves; the others map, in order, to the characters from U+0100 on.
pub(super) fn character_of(byte: u8) -> char {
    if is_visible(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !is_visible(other)).count();
    char::from_u32(0x100 + before as u32).expect("below the surrogates")
}

/// Returns the byte that a GPT-2 character represents.
fn byte_of(character: char) -> Option<u8> {
    match u32::from(character) {
        code @ 0..=0xff => u8::try_from(code).ok().filter(|&byte| is_visible(byte)),
        code => (0..=255).filter(|&byte| !is_visible(byte)).nth(code as usize - 0x100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        for byte in 0..=255 {
            assert_eq!(byte_of(character_of(byte)), Some(byte));
            for spelling in [Spelling::Bytes, Spelling::Text { space: SPACE, strips: true }] {
                assert_eq!(spelling.bytes(&spelling.token_of(byte)), [byte]);
            }
        }
        // Characters in GPT-2's vocabulary for the space, the line feed, the soft hyphen (the last byte that
        // is not visible) and NUL (the first).
        assert_eq!([b' ', b'\n', 0xad, 0x00].map(character_of), ['Ġ', 'Ċ', 'Ń', 'Ā']);
        assert_eq!([' ', '\u{144}', '文', '\u{ad}'].map(byte_of), [None; 4]);
    }

    #[test]
    fn tokens_are_read_in_both_spellings() {
        assert_eq!(Spelling::Bytes.bytes("ĠÃ¤"), " ä".as_bytes());
        assert_eq!(
            Spelling::Bytes.bytes("<|end of text|>"),
            b"<|end of text|>",
            "a space: not in the alphabet"
        );
        let text = Spelling::Text { space: SPACE, strips: true };
        assert_eq!(text.bytes("▁a▁"), b" a ");
        for plain in ["<0x>", "<0x0>", "<0x+A>", "<0x0A", "<0x00A>", "", "<0xé>"] {
            assert_eq!(text.bytes(plain), plain.as_bytes());
        }
    }

    #[test]
    fn decoders_are_told_apart() {
        let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
        let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
        let (fallback, fuse) = (json!({"type": "ByteFallback"}), json!({"type": "Fuse"}));
        let llama = json!({"type": "Sequence", "decoders": [replace, fallback, fuse, strip]});
        let gemma = json!({"type": "Sequence", "decoders": [replace, fallback, fuse]});
        let text = |strips| Ok(Spelling::Text { space: SPACE, strips });
        assert_eq!(Spelling::of(&llama), text(true));
        assert_eq!(Spelling::of(&gemma), text(false));
        assert_eq!(Spelling::of(&json!({"type": "ByteLevel"})), Ok(Spelling::Bytes));
        let metaspace = |scheme| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme});
        assert_eq!(Spelling::of(&metaspace("first")), text(true));
        assert_eq!(Spelling::of(&metaspace("never")), text(false));
        assert_eq!(Spelling::of(&json!(null)), Err("a file without a decoder".to_string()));
        assert_eq!(Spelling::of(&json!({"type": "WordPiece"})), Err("the decoder WordPiece".to_string()));
        assert!(Spelling::of(&json!({"type": "Sequence", "decoders": [fuse]})).is_err());
        let odd = json!({"type": "Replace", "pattern": {"Regex": "."}, "content": " "});
        assert_eq!(Spelling::of(&odd), Err("the decoder Replace".to_string()));
    }
}
