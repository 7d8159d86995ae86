//! The data connections of a rank: one from the previous rank, one to the next.
//!
//! In: buffers to send, lengths to receive. Out: received buffers. A thread sends, so that this rank receives
//! meanwhile. Invariants: at most [`QUEUE`] buffers wait to be sent, then `send` blocks; buffers are used
//! again.

use super::call::Call;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

/// Number of buffers that may wait to be sent. A ring does not block if it is at least that of its lanes.
pub(crate) const QUEUE: usize = 4;

/// Failure of a data connection.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Receiving from the previous rank failed.
    Previous(io::Error),
    /// Sending to the next rank failed.
    Next,
    /// The previous rank called another collective.
    Mismatch(Call),
    /// The previous rank sent what is no header of a collective.
    Garbled,
}

/// Both data connections.
#[derive(Debug)]
pub(crate) struct Link {
    previous: TcpStream,
    outgoing: SyncSender<Vec<u8>>,
    returned: Receiver<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// Buffers that have not come back from the sending thread.
    flying: usize,
}

impl Link {
    pub(crate) fn new(previous: TcpStream, mut next: TcpStream) -> io::Result<Self> {
        let (outgoing, queue) = mpsc::sync_channel::<Vec<u8>>(QUEUE);
        let (back, returned) = mpsc::channel();
        thread::Builder::new().name("world sender".to_string()).spawn(move || {
            // Ends when the link is dropped, or when the socket is shut down.
            while let Ok(buffer) = queue.recv() {
                if next.write_all(&buffer).is_err() || back.send(buffer).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { previous, outgoing, returned, spare: Vec::new(), flying: 0 })
    }

    /// Returns an empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        while let Ok(buffer) = self.returned.try_recv() {
            self.flying -= 1;
            self.spare.push(buffer);
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Keeps a buffer for later use.
    pub(crate) fn keep(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    /// Sends a buffer to the next rank.
    pub(crate) fn send(&mut self, buffer: Vec<u8>) -> Result<(), Fault> {
        self.outgoing.send(buffer).map_err(|_| Fault::Next)?;
        self.flying += 1;
        Ok(())
    }

    /// Receives so many bytes from the previous rank.
    pub(crate) fn receive(&mut self, bytes: usize) -> Result<Vec<u8>, Fault> {
        let mut buffer = self.buffer();
        buffer.resize(bytes, 0);
        self.previous.read_exact(&mut buffer).map_err(Fault::Previous)?;
        Ok(buffer)
    }

    /// Waits until everything has been handed to the system.
    pub(crate) fn drain(&mut self) -> Result<(), Fault> {
        while self.flying > 0 {
            let buffer = self.returned.recv().map_err(|_| Fault::Next)?;
            self.flying -= 1;
            self.spare.push(buffer);
        }
        Ok(())
    }
}
