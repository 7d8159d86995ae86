//! One control connection.
//!
//! In: a socket. Out: messages, and the events that stand for their absence. Invariants: reading ends at
//! least once in each tick; writing blocks for a bounded time, and a line that failed to write never writes
//! again.

use super::state::lock;
use crate::net;
use crate::wire::Message;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

/// Longest write. A heartbeat fits into the socket's buffer, unless nothing was read from it for long.
const WRITE: Duration = Duration::from_secs(1);

/// The sending side.
#[derive(Debug)]
pub(crate) struct Line(Mutex<Option<TcpStream>>);

impl Line {
    pub(crate) fn new(socket: &TcpStream) -> io::Result<Self> {
        let socket = socket.try_clone()?;
        socket.set_write_timeout(Some(WRITE))?;
        Ok(Self(Mutex::new(Some(socket))))
    }

    /// Sends a message. A failure is not reported, as the receiving side notices it too.
    pub(crate) fn send(&self, bytes: &[u8]) {
        let mut socket = lock(&self.0);
        // Part of a message may have been written, after which no other one can be read.
        if socket.as_mut().is_some_and(|socket| socket.write_all(bytes).is_err()) {
            *socket = None;
        }
    }

    /// Sends a last message and ends the sending side.
    pub(crate) fn close(&self, message: &Message) {
        self.send(&message.encode());
        if let Some(socket) = lock(&self.0).take() {
            _ = socket.shutdown(Shutdown::Write);
        }
    }
}

/// Result of a read.
#[derive(Debug)]
pub(crate) enum Event {
    Message(Message),
    /// Nothing arrived within a tick.
    Silence,
    /// The other side closed the connection, or it broke.
    Ended,
    /// The bytes are no message.
    Garbled,
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpStream,
    bytes: Vec<u8>,
}

impl Listener {
    pub(crate) fn new(socket: TcpStream, tick: Duration) -> io::Result<Self> {
        socket.set_read_timeout(Some(tick))?;
        Ok(Self { socket, bytes: Vec::new() })
    }

    /// Returns the next message or what happened instead.
    pub(crate) fn next(&mut self) -> Event {
        let mut chunk = [0; 4096];
        loop {
            match Message::take(&mut self.bytes) {
                Ok(Some(message)) => return Event::Message(message),
                Ok(None) => {}
                Err(()) => return Event::Garbled,
            }
            match self.socket.read(&mut chunk) {
                Ok(0) => return Event::Ended,
                Ok(count) => self.bytes.extend(&chunk[..count]),
                Err(error) if net::is_timeout(&error) => return Event::Silence,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Event::Ended,
            }
        }
    }
}
