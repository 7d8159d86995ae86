//! Texts and numbers in messages.
//!
//! In: fields. Out: their bytes, and back. Invariant: no length that was received is trusted beyond a bound.

/// Longest text, in bytes.
pub(super) const MAX_TEXT: usize = 4096;

/// Appends a text, cut at the bound.
pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(MAX_TEXT)];
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// Bytes from which fields are taken, from the front.
#[derive(Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        if length > MAX_TEXT {
            return None;
        }
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}
