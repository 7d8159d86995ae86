//! The messages between ranks, as bytes.
//!
//! In: messages of the rendezvous and the control plane. Out: their bytes, and back. Invariant: numbers are
//! little-endian.

mod fields;
mod hello;
mod message;

pub(crate) use hello::Hello;
pub(crate) use message::{Message, Progress, Seat, Start};

/// First bytes of a rank's first message, and of the answer's body.
const MAGIC: [u8; 8] = *b"gradloom";
/// Version of the protocol, raised with every change to the messages.
pub(crate) const VERSION: u32 = 1;
