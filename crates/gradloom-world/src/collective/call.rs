//! The header of a collective, by which neighbours find out that they call the same one.
//!
//! In: the arguments of a call. Out: bytes of fixed length. Invariant: two calls with equal headers exchange
//! the same pieces, but for lengths with equal hashes.

use std::fmt;

/// The kind of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    AllReduce = 1,
    ReduceScatter = 2,
    AllGather = 3,
    Broadcast = 4,
}

/// One call of a collective on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    /// Number of the collective on this rank, from 1.
    pub(crate) number: u64,
    /// Rank that broadcasts, else 0.
    pub(crate) root: u64,
    /// Number of parts.
    pub(crate) parts: u64,
    /// Number of elements of all parts.
    pub(crate) elements: u64,
    /// Hash of the lengths of all parts, in order.
    pub(crate) hash: u64,
}

impl Call {
    /// Length of the header, in bytes.
    pub(crate) const BYTES: usize = 48;

    /// Describes a call by the lengths of its parts. The number is set later.
    pub(crate) fn new(kind: Kind, root: usize, lengths: impl Iterator<Item = usize>) -> Self {
        let mut call = Self { kind, number: 0, root: root as u64, parts: 0, elements: 0, hash: 0 };
        for length in lengths {
            call.parts += 1;
            call.elements += length as u64;
            // FNV-1a, a word at a time.
            call.hash = (call.hash ^ length as u64 ^ 0xCBF2_9CE4_8422_2325).wrapping_mul(0x100_0000_01B3);
        }
        call
    }

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let words = [self.kind as u64, self.number, self.root, self.parts, self.elements, self.hash];
        let mut bytes = [0; Self::BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Returns the call of a header, unless the bytes are none.
    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        let kinds = [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::Broadcast];
        let kind = words.next()?;
        Some(Self {
            kind: kinds.into_iter().find(|known| *known as u64 == kind)?,
            number: words.next()?,
            root: words.next()?,
            parts: words.next()?,
            elements: words.next()?,
            hash: words.next()?,
        })
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, root, parts, elements, .. } = self;
        let name = match self.kind {
            Kind::AllReduce => "all_reduce",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::AllGather => "all_gather",
            Kind::Broadcast => return write!(f, "broadcast from rank {root} as collective {number}"),
        };
        let plural = if *parts == 1 { "part" } else { "parts" };
        write!(f, "{name} of {elements} elements in {parts} {plural} as collective {number}")
    }
}
