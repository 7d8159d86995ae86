//! Copies of one rank's bytes.
//!
//! In: bytes of the root. Out: the same on all ranks. They go around the ring once, from the root to the rank
//! before it. Invariant: a receiver's memory grows with the bytes that arrived, not with an announced length.

use super::link::Fault;
use super::pieces::BYTES;
use super::ring::Ring;
use crate::control::State;

/// Replaces `bytes` by those of `root`.
pub(crate) fn broadcast(
    ring: &mut Ring,
    root: usize,
    bytes: &mut Vec<u8>,
    state: &State,
) -> Result<(), Fault> {
    if ring.rank == root {
        send(ring, bytes)?
    } else {
        receive(ring, root, bytes, state)?
    }
    ring.link.drain()
}

fn send(ring: &mut Ring, bytes: &[u8]) -> Result<(), Fault> {
    let length = (bytes.len() as u64).to_le_bytes();
    for piece in std::iter::once(&length[..]).chain(bytes.chunks(BYTES)) {
        let mut buffer = ring.link.buffer();
        buffer.extend(piece);
        ring.link.send(buffer)?;
    }
    Ok(())
}

fn receive(ring: &mut Ring, root: usize, bytes: &mut Vec<u8>, state: &State) -> Result<(), Fault> {
    let is_last = (ring.rank + 1) % ring.size == root;
    let pass = |ring: &mut Ring, piece| {
        if is_last {
            ring.link.keep(piece);
            return Ok(());
        }
        ring.link.send(piece)
    };
    bytes.clear();
    let length = ring.link.receive(8)?;
    let mut left = length.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or(Fault::Garbled)?;
    pass(ring, length)?;
    while left > 0 {
        let piece = ring.link.receive(left.min(BYTES as u64) as usize)?;
        state.note_piece();
        left -= piece.len() as u64;
        bytes.extend(&piece);
        pass(ring, piece)?;
    }
    Ok(())
}
