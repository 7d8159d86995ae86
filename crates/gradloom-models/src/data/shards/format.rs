//! Headers of token files.

/// Number of `i32` values in llm.c's header.
const NUMBERS: usize = 256;
/// Size of llm.c's header in bytes.
pub(super) const HEADER: usize = 4 * NUMBERS;
/// llm.c's file kinds: magic number, version and bytes per token.
const KINDS: [(i32, i32, usize); 2] = [(20_240_520, 1, 2), (20_240_801, 7, 4)];

/// Format in which token files are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShardFormat {
    /// llm.c's format: a header followed by 16-bit tokens, or by 32-bit tokens for a vocabulary of more than
    /// 2^16 tokens.
    #[default]
    LlmC,
    /// nanoGPT's format: 16-bit tokens without a header.
    NanoGpt,
}

/// Layout of the tokens in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Offset of the first token in bytes.
    pub(super) start: usize,
    /// Size of a token in bytes.
    pub(super) width: usize,
    pub(super) tokens: usize,
}

/// Returns the layout of a file of `size` bytes that begins with `head`.
///
/// # Errors
/// Returns a description of the problem if the file is not a token file.
pub(super) fn layout(head: &[u8], size: u64) -> Result<Layout, String> {
    let number = |at: usize| {
        head.get(4 * at..4 * at + 4).map(|bytes| i32::from_le_bytes(bytes.try_into().expect("four bytes")))
    };
    let Some(&(_, version, width)) = KINDS.iter().find(|(magic, ..)| number(0) == Some(*magic)) else {
        if !size.is_multiple_of(2) {
            return Err(format!("it has no header, and {size} bytes, which are no tokens of two bytes each"));
        }
        return match size / 2 {
            0 => Err("it has no tokens".to_string()),
            tokens => Ok(Layout { start: 0, width: 2, tokens: tokens as usize }),
        };
    };
    if size < HEADER as u64 {
        return Err(format!("it ends within its header, after {size} bytes"));
    }
    let found = number(1).unwrap_or_default();
    if found != version {
        return Err(format!("its format has the version {found}, and {version} is understood"));
    }
    let tokens = number(2).unwrap_or_default();
    let held = size - HEADER as u64;
    match u64::try_from(tokens) {
        Ok(0) => Err("it has no tokens".to_string()),
        Ok(tokens) if held == tokens * width as u64 => {
            Ok(Layout { start: HEADER, width, tokens: tokens as usize })
        }
        _ => Err(format!("its header says {tokens} tokens of {width} bytes, and {held} bytes follow")),
    }
}

/// Returns the header of a file with `tokens` tokens of `width` bytes each.
pub(super) fn header(width: usize, tokens: i32) -> Vec<u8> {
    let (magic, version, _) = KINDS.into_iter().find(|kind| kind.2 == width).expect("two or four bytes");
    let mut header: Vec<u8> = [magic, version, tokens].into_iter().flat_map(i32::to_le_bytes).collect();
    header.resize(HEADER, 0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_follows() {
        for width in [2, 4] {
            let head = header(width, 5);
            let size = (HEADER + 5 * width) as u64;
            assert_eq!(layout(&head, size), Ok(Layout { start: HEADER, width, tokens: 5 }));
            let wrong = layout(&head, size - 1).unwrap_err();
            assert_eq!(
                wrong,
                format!("its header says 5 tokens of {width} bytes, and {} bytes follow", 5 * width - 1)
            );
            assert!(layout(&head, size + 1).is_err());
            assert_eq!(layout(&head[..10], 10).unwrap_err(), "it ends within its header, after 10 bytes");
            assert_eq!(layout(&header(width, 0), HEADER as u64).unwrap_err(), "it has no tokens");
            assert!(layout(&header(width, -1), size).unwrap_err().starts_with("its header says -1 tokens"));
            let mut other = header(width, 5);
            other[4] = 9;
            assert!(layout(&other, size).unwrap_err().starts_with("its format has the version 9, and "));
        }
    }

    #[test]
    fn files_without_a_header_are_tokens() {
        assert_eq!(layout(&[1, 0, 2, 0], 4), Ok(Layout { start: 0, width: 2, tokens: 2 }));
        assert_eq!(layout(&[1, 0], 2), Ok(Layout { start: 0, width: 2, tokens: 1 }));
        assert_eq!(layout(&[], 0).unwrap_err(), "it has no tokens");
        assert!(
            layout(&[1, 0, 2], 3).unwrap_err().ends_with("3 bytes, which are no tokens of two bytes each")
        );
    }
}
