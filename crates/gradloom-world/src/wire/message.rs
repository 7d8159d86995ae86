//! The messages after the first one.
//!
//! In: messages. Out: a byte for the kind, the length of the body in 4 bytes, the body; and back. Invariant:
//! a body has a bounded length, and no bytes beyond its fields.

use super::MAGIC;
use super::fields::{Fields, put_text};
use crate::net;
use crate::verdict::Verdict;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// Longest body of a message, in bytes: the addresses of some ten thousand ranks.
const MAX_BODY: usize = 1 << 20;
/// Bytes of a message before its body: kind and length.
const HEAD: usize = 5;

/// Message after the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Rank 0 has accepted a hello.
    Welcome,
    /// All ranks have joined.
    Start(Start),
    /// A heartbeat.
    Beat(Progress),
    /// The world has failed; sent to rank 0, a proposal of it.
    Verdict(Verdict),
    /// The sender leaves in order, after so many collectives.
    Goodbye(u64),
    /// The receiver is of another run than rank 0, which the text tells.
    OtherRun(String),
}

/// Result of a rendezvous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// Random number that data connections of this world carry.
    pub(crate) session: u64,
    /// Ranks, in their order.
    pub(crate) seats: Vec<Seat>,
}

/// Place of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) host: String,
    /// Address of the rank's data connection. One on the loopback interface is on rank 0's host.
    pub(crate) address: SocketAddr,
}

/// Progress of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Number of collectives that the rank has entered.
    pub(crate) entered: u64,
    /// Last step that the program noted.
    pub(crate) step: u64,
    /// Number of pieces of data received.
    pub(crate) moved: u64,
    /// State of the rank: in a collective, or not.
    pub(crate) waiting: bool,
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[0] = self.put_body(&mut bytes);
        let length = (bytes.len() - HEAD) as u32;
        bytes[1..HEAD].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// Appends the body and returns the kind.
    fn put_body(&self, bytes: &mut Vec<u8>) -> u8 {
        match self {
            Self::Welcome => {
                bytes.extend(MAGIC);
                1
            }
            Self::Start(start) => {
                bytes.extend(start.session.to_le_bytes());
                for seat in &start.seats {
                    put_text(bytes, &seat.host);
                    put_text(bytes, &seat.address.to_string());
                }
                2
            }
            Self::Beat(progress) => {
                for number in [progress.entered, progress.step, progress.moved, progress.waiting.into()] {
                    bytes.extend(number.to_le_bytes());
                }
                3
            }
            Self::Verdict(verdict) => {
                put_text(bytes, &verdict.message);
                put_text(bytes, &verdict.help);
                4
            }
            Self::Goodbye(entered) => {
                bytes.extend(entered.to_le_bytes());
                5
            }
            Self::OtherRun(text) => {
                put_text(bytes, text);
                6
            }
        }
    }

    fn decode(kind: u8, body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let message = match kind {
            1 => (fields.array()? == MAGIC).then_some(Self::Welcome)?,
            2 => Self::Start(Start::decode(&mut fields)?),
            3 => Self::Beat(Progress {
                entered: fields.u64()?,
                step: fields.u64()?,
                moved: fields.u64()?,
                waiting: fields.u64()? != 0,
            }),
            4 => Self::Verdict(Verdict { message: fields.text()?, help: fields.text()? }),
            5 => Self::Goodbye(fields.u64()?),
            6 => Self::OtherRun(fields.text()?),
            _ => return None,
        };
        fields.0.is_empty().then_some(message)
    }

    /// Reads one message before the deadline.
    pub(crate) fn read(stream: &mut TcpStream, deadline: Instant) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the answer is no message of gradloom");
        let mut head = [0; HEAD];
        net::read_exact(stream, &mut head, deadline)?;
        let mut body = vec![0; body_length(&head).ok_or_else(invalid)?];
        net::read_exact(stream, &mut body, deadline)?;
        Self::decode(head[0], &body).ok_or_else(invalid)
    }

    /// Takes the first message off `bytes` if it is complete.
    ///
    /// # Errors
    /// Returns an error if the bytes are no message.
    pub(crate) fn take(bytes: &mut Vec<u8>) -> Result<Option<Self>, ()> {
        let Some(head) = bytes.first_chunk() else { return Ok(None) };
        let end = HEAD + body_length(head).ok_or(())?;
        if bytes.len() < end {
            return Ok(None);
        }
        let message = Self::decode(bytes[0], &bytes[HEAD..end]).ok_or(())?;
        bytes.drain(..end);
        Ok(Some(message))
    }
}

impl Start {
    fn decode(fields: &mut Fields) -> Option<Self> {
        let session = fields.u64()?;
        let mut seats = Vec::new();
        while !fields.0.is_empty() {
            seats.push(Seat { host: fields.text()?, address: fields.text()?.parse().ok()? });
        }
        Some(Self { session, seats })
    }
}

/// Returns the length of the body, if it is within the bound.
fn body_length(head: &[u8; HEAD]) -> Option<usize> {
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    (length <= MAX_BODY).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::super::fields::MAX_TEXT;
    use super::*;

    fn messages() -> Vec<Message> {
        let seat = Seat { host: "a".to_string(), address: SocketAddr::from(([10, 0, 0, 1], 7)) };
        let v6 = Seat { host: String::new(), address: SocketAddr::from(([1, 0, 0, 0, 0, 0, 0, 2], 8)) };
        vec![
            Message::Welcome,
            Message::Start(Start { session: u64::MAX, seats: vec![seat, v6] }),
            Message::Beat(Progress { entered: 1, step: 2, moved: 3, waiting: true }),
            Message::Verdict(Verdict::new("rank 1 ended", "help")),
            Message::Goodbye(9),
            Message::OtherRun("run `a`".to_string()),
        ]
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut bytes: Vec<u8> = messages().iter().flat_map(Message::encode).collect();
        for message in messages() {
            assert_eq!(Message::take(&mut bytes), Ok(Some(message)));
        }
        assert!(bytes.is_empty());
    }

    #[test]
    fn part_of_a_message_is_kept() {
        for message in messages() {
            let whole = message.encode();
            for end in 0..whole.len() {
                let mut bytes = whole[..end].to_vec();
                assert_eq!(Message::take(&mut bytes), Ok(None));
                bytes.extend(&whole[end..]);
                assert_eq!(Message::take(&mut bytes), Ok(Some(message.clone())));
            }
        }
    }

    #[test]
    fn changed_bytes_do_no_harm() {
        for message in messages() {
            let whole = message.encode();
            for index in 0..whole.len() {
                for value in [0, 1, 7, 127, 255] {
                    let mut bytes = whole.clone();
                    bytes[index] = value;
                    _ = Message::take(&mut bytes);
                }
            }
        }
    }

    #[test]
    fn lengths_are_bounded() {
        let mut bytes = vec![4];
        bytes.extend((MAX_BODY as u32 + 1).to_le_bytes());
        assert_eq!(Message::take(&mut bytes), Err(()));
        let long = Message::OtherRun("\u{e9}".repeat(MAX_TEXT)).encode();
        assert!(long.len() <= HEAD + 4 + MAX_TEXT);
        assert!(matches!(Message::take(&mut long.clone()), Ok(Some(Message::OtherRun(_)))));
    }
}
