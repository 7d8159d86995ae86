//! Sequential reading of bytes.
//!
//! In: bytes. Out: little-endian numbers and strings. Invariant: nothing is allocated, and every length is
//! checked against the remaining bytes.

/// Description of an error in the bytes, used at the end of a message.
pub(super) type Fault = String;

#[derive(Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8], Fault> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| {
            format!("at byte {} it needs {length} bytes, and the file has {} more", self.at, self.left())
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        Ok(self.take(N as u64)?.try_into().expect("as many bytes as were taken"))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a string as bytes: its length in 64 bits, then its contents, which are not checked to be UTF-8.
    pub(super) fn text(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.u64()?;
        self.take(length)
    }

    /// Reads a UTF-8 string.
    pub(super) fn string(&mut self) -> Result<&'a str, Fault> {
        let at = self.at;
        std::str::from_utf8(self.text()?).map_err(|_| format!("the text at byte {at} is not UTF-8"))
    }
}
