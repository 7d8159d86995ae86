//! The first message of a rank to rank 0.
//!
//! In: the rank's place and address. Out: bytes, and back. Invariant: bytes of another program are told apart
//! by the magic at their start, and a rank of another version by the number after it.

use super::fields::{Fields, MAX_TEXT, put_text};
use super::{MAGIC, VERSION};
use crate::net;
use std::io;
use std::net::TcpStream;
use std::time::Instant;

/// Longest two texts with their lengths, in bytes.
const MAX_TEXTS: u32 = 2 * (MAX_TEXT as u32 + 4);

/// First message of a rank to rank 0. All versions begin with magic, version, rank and size.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// Port at which the rank accepts its data connection.
    pub(crate) port: u16,
    pub(crate) host: String,
    pub(crate) token: String,
}

impl Hello {
    /// Bytes before the texts.
    const FIXED: usize = 26;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut texts = Vec::new();
        put_text(&mut texts, &self.host);
        put_text(&mut texts, &self.token);
        let mut bytes = MAGIC.to_vec();
        for number in [self.version, self.rank, self.size] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.port.to_le_bytes());
        bytes.extend((texts.len() as u32).to_le_bytes());
        bytes.extend(texts);
        bytes
    }

    /// Reads a hello. Texts of another version are not read, and empty.
    pub(crate) fn read(stream: &mut TcpStream, deadline: Instant) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let mut fixed = [0; Self::FIXED];
        net::read_exact(stream, &mut fixed, deadline)?;
        let mut fields = Fields(&fixed);
        if fields.array() != Some(MAGIC) {
            return Err(invalid());
        }
        let mut number = || fields.u32().ok_or_else(invalid);
        let (version, rank, size) = (number()?, number()?, number()?);
        let mut hello = Self { version, rank, size, port: 0, host: String::new(), token: String::new() };
        if version == VERSION {
            hello.port = fields.array().map(u16::from_le_bytes).ok_or_else(invalid)?;
            let length = fields.u32().filter(|length| *length <= MAX_TEXTS).ok_or_else(invalid)?;
            let mut texts = vec![0; length as usize];
            net::read_exact(stream, &mut texts, deadline)?;
            let mut fields = Fields(&texts);
            hello.host = fields.text().ok_or_else(invalid)?;
            hello.token = fields.text().ok_or_else(invalid)?;
        }
        Ok(hello)
    }
}
