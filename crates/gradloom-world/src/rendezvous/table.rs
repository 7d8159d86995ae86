//! The seats of the ranks.
//!
//! In: hellos. Out: a seat for each rank, or a refusal. Invariants: a rank has one seat; when the world
//! cannot exist, the refusal names both sides.

use super::{Lines, Party, first_seat};
use crate::membership::Membership;
use crate::net;
use crate::verdict::Verdict;
use crate::wire::{Hello, Message, Seat, Start, VERSION};
use gradloom_core::error::Result;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// A rank that came.
#[derive(Debug)]
struct Guest {
    stream: TcpStream,
    seat: Seat,
}

/// The ranks that came.
#[derive(Debug)]
pub(super) struct Table<'a> {
    membership: &'a Membership,
    host: String,
    /// Ranks from 1.
    guests: Vec<Option<Guest>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(membership: &'a Membership) -> Self {
        let guests = (1..membership.size).map(|_| None).collect();
        Self { membership, host: net::host_name(), guests }
    }

    /// Returns `true` if all ranks have come.
    pub(super) fn is_full(&self) -> bool {
        self.guests.iter().all(Option::is_some)
    }

    /// Checks that the ranks that came are still there.
    pub(super) fn look(&self) -> Result<(), Verdict> {
        for (guest, rank) in self.guests.iter().zip(1..) {
            if let Some(guest) = guest
                && net::has_ended(&guest.stream)
            {
                return Err(Verdict::ended(&format!("rank {rank} ({})", guest.seat.host)));
            }
        }
        Ok(())
    }

    /// Gives a rank its seat, or refuses it.
    pub(super) fn seat(&mut self, hello: &Hello, stream: &TcpStream) -> Result<(), Refusal> {
        let Ok(peer) = stream.peer_addr() else { return Ok(()) };
        self.check(hello, peer)?;
        let rank = hello.rank as usize;
        if let Some(earlier) = self.guests[rank - 1].as_ref().filter(|guest| !net::has_ended(&guest.stream)) {
            let message =
                format!("there are two of rank {rank}: on {} and on {}", earlier.seat.host, hello.host);
            return Err(Refusal::World(Verdict::new(message, "give each process a rank of its own")));
        }
        let (Ok(mut stream), ip) = (stream.try_clone(), peer.ip().to_canonical()) else { return Ok(()) };
        if stream.write_all(&Message::Welcome.encode()).is_ok() {
            let seat = Seat { host: hello.host.clone(), address: SocketAddr::new(ip, hello.port) };
            self.guests[rank - 1] = Some(Guest { stream, seat });
        }
        Ok(())
    }

    /// Checks whether a rank belongs to this world.
    fn check(&self, hello: &Hello, peer: SocketAddr) -> Result<(), Refusal> {
        let host = if hello.host.is_empty() { peer.ip().to_string() } else { hello.host.clone() };
        let (name, first) = (format!("rank {} ({host})", hello.rank), format!("rank 0 ({})", self.host));
        let refuse = |message, help| Err(Refusal::World(Verdict::new(message, help)));
        if hello.version != VERSION {
            let message = format!(
                "{name} speaks version {} of the protocol between ranks, {first} version {VERSION}",
                hello.version
            );
            return refuse(message, "run the same version of gradloom on all hosts");
        }
        if hello.token != self.membership.token {
            let message =
                format!("{name} is of run `{}`, {first} of run `{}`", hello.token, self.membership.token);
            return Err(Refusal::Stranger(message));
        }
        let size = self.membership.size;
        if hello.size as usize != size {
            let message = format!("{name} is of a world of {} ranks, {first} of {size}", hello.size);
            return refuse(message, "start all ranks with the same WORLD_SIZE");
        }
        if hello.rank == 0 {
            let message = format!("there are two of rank 0: on {} and on {host}", self.host);
            return refuse(message, "give each process a rank of its own");
        }
        if hello.rank as usize >= size {
            let message = format!("{name} is none of a world of {size} ranks");
            return refuse(message, "number the ranks from 0 to the size minus 1");
        }
        Ok(())
    }

    /// Returns the verdict on the ranks that have not come.
    pub(super) fn missing(&self) -> Verdict {
        let absent: Vec<_> =
            (1..self.membership.size).filter(|rank| self.guests[rank - 1].is_none()).collect();
        let mut names: Vec<_> = absent.iter().take(20).map(usize::to_string).collect();
        if absent.len() > 20 {
            names.push(format!("{} more", absent.len() - 20));
        }
        let (ranks, have) = if absent.len() == 1 { ("rank", "has") } else { ("ranks", "have") };
        let seconds = self.membership.options.join_timeout.as_secs_f64();
        let message = format!(
            "{ranks} {} of {} {have} not joined rank 0 ({}) within {seconds} s",
            names.join(", "),
            self.membership.size,
            self.host
        );
        let help = "read the output of the missing ranks; GRADLOOM_WORLD_JOIN_SECONDS gives them more time";
        Verdict::new(message, help)
    }

    /// Tells all ranks the seats. Rank 0 accepts its data connection at `port`.
    pub(super) fn start(&mut self, port: u16) -> Start {
        let mut seats = vec![first_seat(self.host.clone(), port)];
        seats.extend(self.guests.iter().flatten().map(|guest| guest.seat.clone()));
        let start = Start { session: RandomState::new().build_hasher().finish(), seats };
        self.send(&Message::Start(start.clone()).encode());
        start
    }

    /// Sends to all ranks. The control plane finds out about those whose connection is broken.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        for guest in self.guests.iter_mut().flatten() {
            _ = guest.stream.write_all(bytes);
        }
    }

    /// Gives the connections to the control plane.
    pub(super) fn party(self, start: Start, data: TcpListener) -> (Lines, Party) {
        let sockets = self.guests.into_iter().flatten().map(|guest| guest.stream).collect();
        (Lines::Hub(sockets), Party { start, data, first: None })
    }
}

/// Refusal of a rank.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The world cannot exist.
    World(Verdict),
    /// The rank is of another run, which the text tells.
    Stranger(String),
}
