//! The schedule of the ring.
//!
//! In: a collective, cut into lanes: piece `i` of every rank's chunk is lane `i`. Out: its pieces, sent and
//! received. In each lane a rank sends a piece of its own, and then sends on what it received, changed or
//! not, for a number of steps.
//!
//! A few lanes are in the ring at a time, in turns, so that a connection is busy while a rank computes. Since
//! a rank sends a piece only after it received one, but for the first of each lane, it is at most [`LANES`]
//! pieces ahead of what it received; so with queues of as many pieces, it cannot be that all ranks wait to
//! send.

use super::call::Call;
use super::link::{Fault, Link, QUEUE};
use crate::control::State;
use crate::net;
use crate::rendezvous::{Party, reachable};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Number of lanes in the ring at a time.
const LANES: usize = QUEUE;
/// First bytes of a data connection.
const MAGIC: [u8; 8] = *b"gradring";
/// Bytes of the first message of a data connection: magic, session and rank.
const HELLO: usize = 24;

/// Connections of others that may be open while the ring is made.
const STRANGERS: usize = 64;

/// Place of a rank in the ring, and its connections.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) link: Link,
}

impl Ring {
    /// Sends the header of a call, and compares the previous rank's with it.
    pub(crate) fn agree(&mut self, call: &Call) -> Result<(), Fault> {
        let mut buffer = self.link.buffer();
        buffer.extend(call.encode());
        self.link.send(buffer)?;
        let buffer = self.link.receive(Call::BYTES)?;
        let header = buffer.first_chunk().and_then(Call::decode).ok_or(Fault::Garbled)?;
        self.link.keep(buffer);
        if header == *call { Ok(()) } else { Err(Fault::Mismatch(header)) }
    }
}

/// Returns the number of the rank `distance` places before `rank`, for distances below twice the size.
pub(crate) fn before(rank: usize, size: usize, distance: usize) -> usize {
    (rank + 2 * size - distance) % size
}

/// One collective, as the ring sees it.
pub(crate) trait Work {
    /// Returns the number of lanes.
    fn lanes(&self) -> usize;
    /// Returns the number of steps, which is that of pieces received in each lane.
    fn steps(&self) -> usize;
    /// Appends the first piece of a lane to `piece`.
    fn first(&mut self, lane: usize, piece: &mut Vec<u8>);
    /// Returns the length of a piece to be received, in bytes.
    fn length(&self, lane: usize, step: usize) -> usize;
    /// Takes a piece, and makes of it the one to send on.
    fn arrived(&mut self, lane: usize, step: usize, piece: &mut [u8]);
}

/// Runs a collective.
pub(crate) fn run(ring: &mut Ring, work: &mut impl Work, state: &State) -> Result<(), Fault> {
    // Pieces that will arrive, in their order, which is the same on all ranks.
    let mut expected = VecDeque::new();
    let mut lanes = 0..work.lanes();
    for lane in lanes.by_ref().take(LANES) {
        begin(ring, work, lane)?;
        expected.push_back((lane, 0));
    }
    while let Some((lane, step)) = expected.pop_front() {
        let mut piece = ring.link.receive(work.length(lane, step))?;
        state.note_piece();
        work.arrived(lane, step, &mut piece);
        if step + 1 < work.steps() {
            ring.link.send(piece)?;
            expected.push_back((lane, step + 1));
            continue;
        }
        ring.link.keep(piece);
        if let Some(lane) = lanes.next() {
            begin(ring, work, lane)?;
            expected.push_back((lane, 0));
        }
    }
    ring.link.drain()
}

fn begin(ring: &mut Ring, work: &mut impl Work, lane: usize) -> Result<(), Fault> {
    let mut piece = ring.link.buffer();
    work.first(lane, &mut piece);
    ring.link.send(piece)
}

/// Failure to make the data connections.
#[derive(Debug)]
pub(crate) enum Unconnected {
    /// The next rank does not accept at this address.
    Next(SocketAddr, io::Error),
    /// The previous rank does not come, or the world has failed.
    Previous,
}

impl Ring {
    /// Connects the ring.
    pub(crate) fn connect(state: &State, party: &Party, timeout: Duration) -> Result<Self, Unconnected> {
        let (rank, size) = (state.rank, state.size());
        let seat = &party.start.seats[(rank + 1) % size];
        let address = reachable(seat.address, party.first);
        let next = |error| Unconnected::Next(address, error);
        let deadline = Instant::now() + timeout;
        let mut outgoing = net::connect(&[address], deadline).map_err(next)?;
        outgoing.write_all(&hello(party.start.session, rank)).map_err(next)?;
        let expected = hello(party.start.session, before(rank, size, 1));
        let incoming = accept(state, &party.data, &expected, deadline).ok_or(Unconnected::Previous)?;
        for socket in [&outgoing, &incoming] {
            state.guard_socket(socket.try_clone().map_err(next)?);
        }
        let link = Link::new(incoming, outgoing).map_err(next)?;
        Ok(Self { rank, size, link })
    }
}

fn hello(session: u64, rank: usize) -> [u8; HELLO] {
    let mut bytes = [0; HELLO];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&session.to_le_bytes());
    bytes[16..].copy_from_slice(&(rank as u64).to_le_bytes());
    bytes
}

/// Accepts the connection that begins with `expected`, and drops all others.
fn accept(
    state: &State,
    listener: &TcpListener,
    expected: &[u8; HELLO],
    deadline: Instant,
) -> Option<TcpStream> {
    listener.set_nonblocking(true).ok()?;
    let mut candidates: Vec<TcpStream> = Vec::new();
    while Instant::now() < deadline && state.check().is_ok() {
        if candidates.len() < STRANGERS {
            candidates.extend(net::accept(listener));
        }
        for index in (0..candidates.len()).rev() {
            let mut bytes = [0; HELLO];
            match peek(&candidates[index], &mut bytes) {
                Some(HELLO) => {
                    let mut candidate = candidates.swap_remove(index);
                    net::read_exact(&mut candidate, &mut bytes, deadline).ok()?;
                    if bytes == *expected {
                        candidate.set_read_timeout(None).ok()?;
                        return Some(candidate);
                    }
                }
                Some(_) => {}
                None => drop(candidates.swap_remove(index)),
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    None
}

/// Returns the number of bytes that could be read, or nothing if the connection has ended.
fn peek(stream: &TcpStream, bytes: &mut [u8]) -> Option<usize> {
    stream.set_nonblocking(true).ok()?;
    let peeked = stream.peek(bytes);
    stream.set_nonblocking(false).ok()?;
    match peeked {
        Ok(0) => None,
        Ok(count) => Some(count),
        Err(error) if net::is_timeout(&error) => Some(0),
        Err(_) => None,
    }
}
